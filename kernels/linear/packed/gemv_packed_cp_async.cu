// GEMV on quantized weights (packed_weights.h) for 1 to 16 tokens, with multistage cp.async (sm_80).
// Grid: persistent blocks, whose warps split K; a work tile is kTiles tiles of 16 rows.
// Loads: every warp has a pipeline of its own of kStages stages, which continues across work tiles: a block
//   of weights of each row, with scales and zero points. No warp waits for another's copies. Stages of at
//   most half of the work are filled before pdl_wait(), the others, and all before sm_90, when x is on its
//   way. A warp that has issued its last copy prefetches its part of the next GEMM's weights to the L2.
// Products: packed_dot.cuh, packed_digits.cuh.
// Sync: one barrier per work tile, when the warps have stored their sums in one of two buffers.
// `in` is a multiple of the columns of a block of weights.
#include "kernels/common/cp_async.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/linear/packed/packed_gemv_mainloop.cuh"

namespace warptune {

/// A warp's part of a stage. Scales lie as in a slot (packed_weights.h).
template <class S>
struct WarpStage {
  static constexpr bool kSuper = has_super_blocks(S::kWeights);
  /// Bytes of the scales of eight rows. A lane copies a piece of 16 bytes. A super-block has its whole place,
  /// but only the pieces of the warp's block of weights, d and dmin are copied.
  static constexpr int kScaleColumns = max_of(S::kGroup, kSuper ? kSuperColumns : S::kColumns),
                       kScaleBytes =
                           S::kStageScales ? slot_scale_bytes(S::kWeights, S::kGroup, kScaleColumns) : 0;
  static constexpr int kBlockPieces = kSuper ? S::kColumns / 32 : kScaleBytes / 16,
                       kPieces = max_of(kBlockPieces + (kSuper ? super_steps(S::kWeights) : 0), 1);
  static constexpr int kZeroBytes = S::kZeroPoints * kBlockRows;
  unsigned char weights[2 * S::kTiles][kBlockBytes];
  alignas(16) unsigned char scales[2 * S::kTiles][max_of(kScaleBytes, 16)];
  alignas(8) signed char zeros[2 * S::kTiles][max_of(kZeroBytes, 8)];
};

/// A warp's pipeline. A lane reads the weights that it has copied itself, but scales of other lanes.
template <class S, int kStages, int kTailPrefetch>
class WarpPipeline {
 public:
  using Stage = WarpStage<S>;

  __device__ __forceinline__ WarpPipeline(const QuantizedLinearArgs& args, Stage (&stages)[kStages])
      : args_(args), stages_(stages), warp_scales_(args, work_) {
    weights_ = static_cast<const unsigned char*>(args.weight) + slot(0) * kSlotBytes +
               Work::block(0) * kBlockBytes + lane_ * 16;
#pragma unroll
    for (int c = 0; c < kScaleCopies; ++c)
      scales_[c] = static_cast<const unsigned char*>(args.scales) + slot(copy_slot(c)) * kSlotScaleBytes +
                   scale_offset(Work::block(0)) + place(c);
  }

  /// Fills stages before pdl_wait(), and all others but the last after it.
  __device__ __forceinline__ void load_early() {
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s)
      if (s < early_) load(s);
  }
  __device__ __forceinline__ void load_late() {
#pragma unroll
    for (int s = 1; s < kStages - 1; ++s)
      if (s >= early_) load(s);
  }
  /// Waits for the next stage, and loads into the one before, which the warp has read.
  __device__ __forceinline__ void wait() {
    cp_async_wait<kStages - 2>();
    __syncwarp();
    load(index_ == 0 ? kStages - 1 : index_ - 1);
  }
  __device__ __forceinline__ void read(PackedBlock<S> (&weights)[S::kTiles][2]) const {
    const Stage& stage = stages_[index_];
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      PackedBlock<S>& to = weights[i / 2][i % 2];
      to.bytes = *reinterpret_cast<const uint4*>(stage.weights[i] + lane_ * 16);
      if constexpr (S::kStageScales) read_scales(to, stage.scales[i], super_column());
      if constexpr (S::kWarpScales) to.scales.values[0] = warp_scales_.get(i / 2, i % 2);
      if constexpr (S::kZeros) read_zeros(to, stage.zeros[i], 0);
    }
  }
  __device__ __forceinline__ const PackedWork<S>& work() const { return work_; }
  __device__ __forceinline__ void release() {
    index_ = index_ + 1 == kStages ? 0 : index_ + 1;
    warp_scales_.advance();
  }

 private:
  using Work = PackedWork<S>;
  /// With SwiGLU a work tile has slots of two matrices.
  static constexpr int kSlots = 2 * S::kTiles, kTileSlots = S::kSwiglu ? S::kTiles : kSlots,
                       kMatrixSlots = S::kSwiglu ? S::kSlots / 2 : S::kSlots;
  // A warp's blocks of weights are at the same place in their groups and super-blocks.
  static_assert(S::kWarps * S::kColumns % (Stage::kSuper ? kSuperColumns : max_of(S::kGroup, 1)) == 0);
  static constexpr int kGroup = max_of(S::kGroup, 1), kGroups = S::kGroup == 0 ? 1 : S::kIn / kGroup;
  static constexpr int kScaleCopies =  // pieces that a lane copies
      S::kStageScales ? ceil_div(kSlots * Stage::kPieces, 32) : 0;

  /// The bytes of the scales of a slot in `blocks` blocks of weights.
  static constexpr __device__ __forceinline__ int scale_offset(int blocks) {
    const int columns = blocks * S::kColumns;
    return Stage::kSuper ? columns / kSuperColumns * Stage::kScaleBytes
                         : columns / kGroup * slot_scale_bytes(S::kWeights, kGroup, kGroup);
  }
  static constexpr long long kSlotBytes = static_cast<long long>(S::kBlocks) * kBlockBytes;
  static constexpr long long kSlotScaleBytes = scale_offset(S::kBlocks);

  /// The first column of this warp's blocks in a super-block.
  static __device__ __forceinline__ int super_column() {
    return Stage::kSuper ? static_cast<int>(threadIdx.x / 32) * S::kColumns % kSuperColumns : 0;
  }
  /// The number of slot `i` of the work tile that is loaded.
  __device__ __forceinline__ int slot(int i) const {
    return work_.tile(number_) * kTileSlots + (S::kSwiglu ? i / 2 + i % 2 * kMatrixSlots : i);
  }
  /// Whether its rows exist.
  __device__ __forceinline__ bool has_slot(int i) const {
    return kMatrixSlots % kTileSlots == 0 ||
           work_.tile(number_) * kTileSlots + (S::kSwiglu ? i / 2 : i) < kMatrixSlots;
  }
  /// The slot of this lane's piece `c` of scales, and where the piece lies in the slot's scales, in bytes.
  __device__ __forceinline__ int copy_slot(int c) const { return (lane_ + 32 * c) / Stage::kPieces; }
  __device__ __forceinline__ int place(int c) const {
    const int piece = (lane_ + 32 * c) % Stage::kPieces;
    if (!Stage::kSuper) return 16 * piece;
    const int block = super_column() / S::kColumns;
    return 16 * (piece < Stage::kBlockPieces ? block * Stage::kBlockPieces + piece
                                             : kSuperColumns / 32 + piece - Stage::kBlockPieces);
  }

  /// How many rows of a slot have zero points. Those of groups are padded to eight rows, those of rows end
  /// with the last one.
  static __device__ __forceinline__ int zero_points(int slot) {
    const bool is_last_short = S::kGroup == 0 && S::kRows % kBlockRows != 0;
    return is_last_short ? min_of(kBlockRows, S::kRows - slot * kBlockRows) : kBlockRows;
  }

  /// Loads the next stage. Beyond the last it commits an empty group.
  __device__ __forceinline__ void load(int index) {
    if (number_ < work_.count) {
      if (Work::has_block(step_)) load_block(stages_[index]);
      advance();
    } else if (kTailPrefetch != 0 && !is_prefetched_) {
      is_prefetched_ = true;
      prefetch_next_weight_at_end<kTailPrefetch, S::kThreads>(args_);
    }
    cp_async_commit();
  }
  __device__ __forceinline__ void advance() {
    weights_ += S::kWarps * kBlockBytes;
#pragma unroll
    for (int c = 0; c < kScaleCopies; ++c) scales_[c] += scale_offset(S::kWarps);
    if (++step_ < Work::kSteps) return;
    step_ = 0;
    ++number_;
    const long long slots = work_.clusters * kTileSlots;  // to the next work tile
    weights_ += slots * kSlotBytes - Work::kSteps * S::kWarps * kBlockBytes;
#pragma unroll
    for (int c = 0; c < kScaleCopies; ++c)
      scales_[c] += slots * kSlotScaleBytes - Work::kSteps * scale_offset(S::kWarps);
  }
  __device__ __forceinline__ void load_block(Stage& stage) const {
#pragma unroll
    for (int i = 0; i < kSlots; ++i)
      cp_async_16(stage.weights[i] + lane_ * 16, weights_ + (slot(i) - slot(0)) * kSlotBytes, policy_,
                  has_slot(i));
#pragma unroll
    for (int c = 0; c < kScaleCopies; ++c)
      if (const int i = copy_slot(c); i < kSlots)
        cp_async_16(stage.scales[i] + place(c), scales_[c], has_slot(i));
    const int group = S::kGroup == 0 ? 0 : Work::block(step_) * S::kColumns / kGroup;
    if constexpr (S::kZeros)
      if (const int i = lane_ / S::kZeroPoints, j = lane_ % S::kZeroPoints; i < kSlots) {
        static_assert(kSlots * S::kZeroPoints <= 32);
        cp_async_first_bytes<kBlockRows>(
            stage.zeros[i] + j * kBlockRows,
            args_.zeros + (static_cast<long long>(slot(i)) * kGroups + group + j) * kBlockRows,
            has_slot(i) ? zero_points(slot(i)) : 0);
      }
  }

  const QuantizedLinearArgs& args_;
  Stage (&stages_)[kStages];
  const Work work_;
  const int lane_ = threadIdx.x % 32;
  const unsigned long long policy_ = l2_evict_first_policy();
  // The next load: this lane's addresses, the number of the work tile, the step in it.
  const unsigned char* weights_;
  const unsigned char* scales_[max_of(kScaleCopies, 1)];
  int number_ = 0, step_ = 0;
  int index_ = 0;  // the next stage to read
  WarpScales<S> warp_scales_;
  /// The stages that are filled before pdl_wait(), at most half of the work: memory serves x after them.
  const int early_ = ceil_div(work_.count * Work::kSteps, 2);
  [[maybe_unused]] bool is_prefetched_ = false;
};

template <class T, int kTokens, int kIn, int kOut, int kBias, int kPrologue, int kEpilogue, int kWeights,
          int kGroup, int kZeros, int kActOrder, int kBlocksPerSm, int kWarps, int kTiles, int kStages,
          int kTailPrefetch>
__global__ void __launch_bounds__(kWarps * 32, kBlocksPerSm)
    linear_gemv_packed_cp_async(QuantizedLinearArgs args) {
  using S = PackedGemv<T, kTokens, kIn, kOut, kBias, kPrologue, kEpilogue, kWeights, kGroup, kZeros,
                       kActOrder, kWarps, kTiles>;
  using Keys = BlockKeys<T, kOut, kEpilogue, kTokens>;
  struct Storage {
    WarpStage<S> stages[kWarps][kStages];
    typename WarpActivations<S>::Shared x;
    PackedPartials<S> partials[2];
  };
  [[maybe_unused]] static constexpr int kSharedBytes = sizeof(Storage);
  extern __shared__ uint4 memory[];
  auto& shared = *reinterpret_cast<Storage*>(memory);
  WarpPipeline<S, kStages, kTailPrefetch> pipeline(args, shared.stages[threadIdx.x / 32]);
  if constexpr (kHasPdl) pipeline.load_early();
  WarpActivations<S> x(shared.x, args, threadIdx.x / 32, S::kBlocks, kWarps);
  Keys::clear();
  pdl_launch_dependents();
  pdl_wait();
  x.load(0, [&] {
    if constexpr (!kHasPdl) pipeline.load_early();
    pipeline.load_late();
  });
  multiply_tiles<S>(args, pipeline.work(), shared.partials, x, pipeline);
  cp_async_wait<0>();
  Keys::template write<S::kThreads>(args);
}

}  // namespace warptune
