#pragma once
// The main loop of wgmma_packed: a consumer warpgroup converts packed weights to the A operand of wgmma, in
// registers, and multiplies them by the x of the stage.
// Arithmetic: a warpgroup converts a batch, 64 columns of one m64 tile, while the tensor cores multiply the
//   last one; warpgroups do not wait for each other. Scales of groups multiply the weights where these are
//   integers or e4m3, rounded to T once (GroupConverter), and where that is exact (fp4), else the sums of a
//   batch, in fp32. Scales of rows multiply the sums.
// Instructions bind: a scheduler has 32 cycles for an m64n64k16, of which wgmma takes 24 and every other
//   instruction one, also in fp32.
#include "kernels/linear/packed_weights.cuh"
#include "kernels/linear/streaming_wgmma.cuh"

namespace warptune {

/// The main loop of a consumer warpgroup. A warp has row lane / 4 of two slots of each m64 tile: adjacent
/// ones, with SwiGLU one of gate and the same of up.
template <class S>
class PackedMainloop {
 public:
  /// Returns the last stage, which is not released.
  static __device__ __forceinline__ int run(StreamingConsumer<S>& consumer, const QuantizedLinearArgs& args) {
    return PackedMainloop(consumer, args).run();
  }

 private:
  using Consumer = StreamingConsumer<S>;
  using T = typename S::T;
  using Word = typename S::Word;
  using Converter = GroupConverter<T, S::kWeights, S::kZeros>;
  /// Operands: one is converted while wgmma reads the other.
  static constexpr int kBuffers = !S::kScalesSums && S::kBatches % 2 == 0 ? 2 : 1;
  /// Stages that are multiplied without a pause of the tensor cores: ptxas serializes wgmma that is in flight
  /// across iterations of a loop. With eight bits, and for prompts, more than one gain nothing.
  static constexpr int kUnrolledStages =
      kBuffers == 2 && weight_bits(S::kWeights) == 4 && S::kTokens != 0 ? 4 : 1;
  static constexpr bool kHasRemainder = S::kSteps % (S::kClusterK * kUnrolledStages) != 0;
  /// Whether each iteration begins with stage 0, so that addresses are constants.
  static constexpr bool kFixedStages = !kHasRemainder && kUnrolledStages % S::kStages == 0;

  /// A lane's part of a block of weights in two slots.
  struct Block {
    uint4 bytes[2];
    BlockScales<S::kWeights, S::kGroup, S::kBlockScales> scales[2];
    signed char zeros[2][S::kZeros ? S::kBlockScales : 1];
  };

  __device__ __forceinline__ PackedMainloop(Consumer& consumer, const QuantizedLinearArgs& args)
      : consumer_(consumer), args_(args) {}

  __device__ __forceinline__ int run() {
    if constexpr (kHasRowScales<S::kWeights, S::kGroup>) load_row_scales();
    if constexpr (S::kScalesSums)
#pragma unroll
      for (int tile = 0; tile < S::kSubtiles; ++tile)
#pragma unroll
        for (int i = 0; i < S::kN / 2; ++i) sum_of(tile)[i] = 0;
    load_first_block(work().first_step);
    int last = 0, step = work().first_step;
    for (; step + kUnrolledStages <= work().end_step; step += kUnrolledStages)
      last = multiply_stages<kUnrolledStages>(step);
    if constexpr (kHasRemainder)
      for (; step < work().end_step; ++step) last = multiply_stages<1>(step);
    consumer_.wait_sums();
    if constexpr (kHasRowScales<S::kWeights, S::kGroup> || S::kConvertsScaled)
#pragma unroll
      for (int tile = 0; tile < S::kSubtiles; ++tile)
#pragma unroll
        for (int i = 0; i < S::kN / 2; ++i) sum_of(tile)[i] *= scale_of_sums(tile, i / 2 % 2);
    return last;
  }
  /// What multiplies the sums at the end.
  __device__ __forceinline__ float scale_of_sums(int tile, int half) const {
    if constexpr (S::kConvertsScaled) return Converter::kScale;
    return row_scales_[tile][half];
  }
  __device__ __forceinline__ const typename S::Schedule& work() const { return consumer_.work; }

  /// Batch i of a stage belongs to an m64 tile and is the part `part` of a block. Blocks are those of this
  /// warpgroup, which has the kWarpgroupsK-th part of a stage.
  static constexpr __device__ __forceinline__ int tile(int i) { return i / S::kBlockBatches % S::kSubtiles; }
  static constexpr __device__ __forceinline__ int block(int i) { return i / S::kBlockBatches / S::kSubtiles; }
  static constexpr __device__ __forceinline__ int part(int i) { return i % S::kBlockBatches; }
  /// Whether a batch is the first of its m64 tile in the stage.
  static constexpr __device__ __forceinline__ bool begins_tile(int i) {
    return block(i) == 0 && part(i) == 0;
  }
  /// The first fragment of x, within the stage.
  static constexpr __device__ __forceinline__ int fragment(int i) {
    return (block(i) * S::kColumns + part(i) * S::kBatchColumns) / 16;
  }
  /// Which scale of a block the column `column` of the block has.
  static constexpr __device__ __forceinline__ int scale_of(int column) {
    return column * S::kBlockScales / S::kColumns;
  }

  /// The first block of this warpgroup in a stage.
  __device__ __forceinline__ int first_block() const { return rank_k_ * (S::kTileBlocks / S::kWarpgroupsK); }
  /// The m64 tile of the work tile, and this warp's slot of it.
  __device__ __forceinline__ int tile_number(int tile) const {
    return consumer_.index + tile * S::kWarpgroupsM;
  }
  __device__ __forceinline__ int slot(int tile, int half) const {
    return S::slot(tile_number(tile), warp_, half);
  }
  /// The row of the weights.
  __device__ __forceinline__ long long row(int tile, int half) const {
    const int output = work().tile * S::kOutputs + slot(tile, half) * kBlockRows + consumer_.lane / 4;
    return S::matrix(half) * S::kOut + min_of(output, S::kOut - 1);
  }
  __device__ __forceinline__ void load_row_scales() {
#pragma unroll
    for (int i = 0; i < S::kSubtiles * 2; ++i)
      row_scales_[i / 2][i % 2] = row_scale<S::kWeights, S::kGroup>(args_, row(i / 2, i % 2)) * Word::kScale;
  }
  /// Loads the block of batch i of a step.
  __device__ __forceinline__ void load_block(int i, int step, unsigned char* stage) {
    const int lane = consumer_.lane, column = work().column(step), stage_block = first_block() + block(i);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      block_.bytes[half] = *reinterpret_cast<const uint4*>(
          S::weights(stage, tile_number(tile(i)), warp_, half, rank_k_) + block(i) * kBlockBytes + lane * 16);
      if constexpr (S::kStageScales)
        block_.scales[half].read(
            stage + S::kScaleOffset + S::matrix(half) * S::kMatrixScaleBytes +
                slot(tile(i), half) * S::kSlotScaleBytes,
            column % S::kScaleColumns / S::kTileK * S::kTileK + stage_block * S::kColumns, lane / 4);
      if constexpr (S::kZeros)
#pragma unroll
        for (int j = 0; j < S::kBlockScales; ++j)
          block_.zeros[half][j] =
              args_.zeros[scale_index(S::kWeights, S::kGroup, S::kIn, row(tile(i), half),
                                      column + stage_block * S::kColumns + j * S::kGroup)];
    }
  }
  /// Converts batch i, a part of the block, to A.
  __device__ __forceinline__ void convert(int i, unsigned (&a)[S::kBatchFragments][4]) const {
#pragma unroll
    for (int w = 0; w < S::kBatchWords; ++w) {
      const int word = part(i) * S::kBatchWords + w;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4& v = block_.bytes[half];
        const unsigned bits = word == 0 ? v.x : word == 1 ? v.y : word == 2 ? v.z : v.w;
        unsigned pairs[Word::kPairs];
        convert_word<T, S::kWeights, S::kGroup, S::kZeros, S::kColumns / 16 / S::kBlockScales,
                     S::kScalesSums>(pairs, bits, block_.scales[half], block_.zeros[half], word);
#pragma unroll
        for (int j = 0; j < Word::kPairs; ++j) a[w * Word::kFragments + j / 2][j % 2 * 2 + half] = pairs[j];
      }
    }
  }
  __device__ __forceinline__ float (&sum_of(int tile))[S::kN / 2] { return consumer_.sum[0][tile]; }
  /// Waits for the stage of a step and loads its first block.
  __device__ __forceinline__ void load_first_block(int step) {
    const auto& state = consumer_.state;
    mbarrier_wait(&consumer_.shared.full[state.index], state.phase);
    load_block(0, step, consumer_.shared.stages + state.index * S::kStageBytes);
  }
  /// Multiplies kCount stages from `step` on. Returns the last; the last of a work tile is not released.
  template <int kCount>
  __device__ __forceinline__ int multiply_stages(int step) {
    constexpr int kCountBatches = kCount * S::kBatches;
    const bool is_first = step == work().first_step, is_last = step + kCount == work().end_step;
    int index = 0;
    unsigned long long descriptor = 0;
#pragma unroll
    for (int n = 0; n < kCountBatches; ++n) {
      const int i = n % S::kBatches, previous = index;
      if (i == 0) {
        if constexpr (kFixedStages) consumer_.state.index = n / S::kBatches % S::kStages;
        index = consumer_.state.index;
        consumer_.state.advance();
        const unsigned x = shared_address(consumer_.shared.stages + index * S::kStageBytes) +
                           first_block() * (S::kColumns / 64) * S::kXColumnTile;
        descriptor = wgmma_descriptor_swizzle_128b(x);
      }
      auto& a = a_[n % kBuffers];
      convert(i, a);
      auto& to = S::kScalesSums ? batch_sum_ : sum_of(tile(i));
      warpgroup_fence_operand(to);
      warpgroup_fence_operand(a);
      warpgroup_arrive();
#pragma unroll
      for (int f = 0; f < S::kBatchFragments; ++f) {
        const int k = fragment(i) + f;
        const bool accumulate =
            f > 0 || (!S::kScalesSums && (n >= S::kBatches || !begins_tile(i) || !is_first));
        wgmma<T, S::kN, false>(
            to, a[f], wgmma_descriptor_advance(descriptor, k / 4 * S::kXColumnTile + k % 4 * 32), accumulate);
      }
      warpgroup_commit_batch();
      [[maybe_unused]] const auto scales = block_.scales[0], scales8 = block_.scales[1];
      if (n + 1 == kCountBatches) {
        if (!is_last) load_first_block(step + kCount);
      } else if (i + 1 == S::kBatches) {
        load_first_block(step + n / S::kBatches + 1);
      } else if (part(i + 1) == 0) {
        load_block(i + 1, step + n / S::kBatches, consumer_.shared.stages + index * S::kStageBytes);
      }
      if (kBuffers == 1 || n + 1 == kCountBatches)
        warpgroup_wait<0>();
      else
        warpgroup_wait<1>();
      if (n > 0 && i == 0) consumer_.release(previous);
      warpgroup_fence_operand(a_[(n + 1) % kBuffers]);  // wgmma reads it until then
      if constexpr (S::kScalesSums) {
        warpgroup_fence_operand(to);
        const int at = scale_of(part(i) * S::kBatchColumns);
        const float factors[2] = {scales[at] * Word::kScale, scales8[at] * Word::kScale};
#pragma unroll
        for (int j = 0; j < S::kN / 2; ++j)
          sum_of(tile(i))[j] = fmaf(factors[j / 2 % 2], batch_sum_[j], sum_of(tile(i))[j]);
      }
    }
    if (!is_last) consumer_.release(index);
    return index;
  }

  Consumer& consumer_;
  const QuantizedLinearArgs& args_;
  const int rank_k_ = Consumer::rank_k();
  const int warp_ = static_cast<int>(threadIdx.x) % 128 / 32;
  Block block_;                                  // the next batch
  unsigned a_[kBuffers][S::kBatchFragments][4];  // the operands of batches
  float batch_sum_[S::kN / 2] = {};              // with kScalesSums
  float row_scales_[S::kSubtiles][2];            // with kHasRowScales
};

}  // namespace warptune
