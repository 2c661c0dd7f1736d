// Streaming tensor-core GEMM on quantized weights (packed_weights.h) for 2 to 64 tokens (streaming_mma.cuh),
// weights and x by cp.async (sm_80).
// Loads: all lanes of four producer warps, 16 bytes each. A slot of a stage has its packed blocks, then its
//   scales and zero points, all as they lie in memory.
// Arithmetic: weights are converted in registers, two row tiles at a time (kRowTilesAtOnce). Scales of groups
//   multiply the weights where these are integers or e4m3, rounded to T once (GroupConverter), or where that
//   is exact (fp4). Else sums are rescaled at each new group, by the ratio of the scales, in fp32, as
//   FlashAttention rescales by the ratio of maxima: products of unscaled weights then go to one set of
//   accumulators. Scales of rows multiply the sums.
// PDL: half of the stages get their weights before pdl_wait(): loads are served in order, so more would delay
//   x.
// Warps that split K have whole blocks of a stage or, of int4, int8 and fp8, a part of one: so stages of few
//   columns are enough for two consumer warps per scheduler, of which one issues while the other waits.
// kSplits blocks split K and add their sums in the workspace: with many tokens x is then read less often.
// kOneGroup: a block computes one group of rows, and its partial sums take the place of the stages.
#include "kernels/common/barrier.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/linear/packed_weights.cuh"
#include "kernels/linear/streaming_mma.cuh"

namespace warptune {

/// Packed weights in a stage. A slot: blocks of 8 rows, then scales of groups and zero points, 16 bytes or
/// more where there are any.
template <class T, int kWeights_, int kGroup_, bool kZeros_>
struct PackedSlots {
  template <int, int>
  using Args = QuantizedLinearArgs;
  using Word = WeightWord<T, kWeights_>;
  static constexpr int kWeights = kWeights_, kGroup = kGroup_;
  static constexpr bool kZeros = kZeros_, kPacked = true;
  static constexpr int kColumns = block_columns(kWeights), kFragments = kColumns / 16;  // of a block
  /// Scales of a row in a block, at least one for its zero point, and the fragments of one.
  static constexpr int kScales = kGroup == 0 || kGroup >= kColumns ? 1 : kColumns / kGroup,
                       kScaleFragments = kFragments / kScales;
  static constexpr bool kHasScales = kGroup != 0;
  /// Whether the scales of groups multiply integers or e4m3; else, whether they multiply sums.
  static constexpr bool kConvertsScaled = warptune::kConvertsScaled<T, kWeights, kGroup>,
                        kScalesSums = kGroup != 0 && !kConvertsScaled && !kScaledWeightsAreExact<T, kWeights>;

  static WARPTUNE_HOST_DEVICE constexpr int block_bytes(int columns) {
    return columns / kColumns * kBlockBytes;
  }
  static WARPTUNE_HOST_DEVICE constexpr int scale_bytes(int columns) {
    return kHasScales ? slot_scale_bytes(kWeights, kGroup, columns) : 0;
  }
  static WARPTUNE_HOST_DEVICE constexpr int zero_bytes(int columns) {
    return kZeros ? kBlockRows * columns / kGroup : 0;
  }
  static WARPTUNE_HOST_DEVICE constexpr int bytes(int columns) {
    return 16 * ceil_div(block_bytes(columns) + scale_bytes(columns) + zero_bytes(columns), 16);
  }
};

/// Loads by kProducerThreads threads. Each of them arrives once at the full barrier of a stage. The addresses
/// of a thread differ by constants, and all copies of a stage are issued without a branch: the latency of a
/// loop would bind.
template <class S>
class PackedLoader {
 public:
  __device__ __forceinline__ PackedLoader(const QuantizedLinearArgs& args, int thread)
      : args_(args), thread_(thread) {}
  __device__ __forceinline__ void expect(Mbarrier*, int, bool) const {}
  __device__ __forceinline__ void load_weights(unsigned char* to, int first, int outputs, int step,
                                               Mbarrier*) const {
    using Slots = typename S::Slots;
    constexpr int kBlocks = Slots::block_bytes(S::kTileK), kScales = Slots::scale_bytes(S::kTileK);
    const int slot = first / kBlockRows, slots = ceil_div(outputs, kBlockRows);
    load<16, kBlocks, Slots::block_bytes(S::kIn)>(to, args_.weight, slot, slots, step);
    if constexpr (kRowsShareScales<Slots::kWeights, Slots::kGroup>)
      load_shared_scales(to + kBlocks, slot, slots, step);
    else if constexpr (Slots::kHasScales)
      load<16, kScales, Slots::scale_bytes(S::kIn)>(to + kBlocks, args_.scales, slot, slots, step);
    if constexpr (Slots::kZeros)
      load<8, Slots::zero_bytes(S::kTileK), Slots::zero_bytes(S::kIn)>(to + kBlocks + kScales, args_.zeros,
                                                                       slot, slots, step);
  }
  __device__ __forceinline__ void load_x(unsigned char* to, int step, Mbarrier*) const {
    // Tokens of a thread lie at distances of eight, for which the swizzle is the same.
    constexpr int kVectors = kProducerThreads / 8, kTokensAtOnce = 8;
    static_assert(S::kTileK / 8 % kVectors == 0);
    const int vector = thread_ % kVectors, first = thread_ / kVectors, k = step * S::kTileK + vector * 8;
    const auto* const source = static_cast<const typename S::T*>(args_.x) + first * S::kIn + k;
    to += vector / 8 * S::kXColumnTileBytes + first * 128 + (vector % 8 ^ first) * 16;
#pragma unroll
    for (int column = 0; column < S::kTileK; column += 8 * kVectors)
#pragma unroll
      for (int token = 0; token < S::kPaddedTokens; token += kTokensAtOnce) {
        const bool valid = (S::kTokens % kTokensAtOnce == 0 || first + token < S::kTokens) &&
                           (S::kSteps * S::kTileK == S::kIn || k + column < S::kIn);
        cp_async_16(to + column / 64 * S::kXColumnTileBytes + token * 128, source + token * S::kIn + column,
                    valid);
      }
  }
  __device__ __forceinline__ void commit(Mbarrier* full) const { cp_async_mbarrier_arrive(full); }

 private:
  /// Copies the part of a step, kBytes, of each slot, which has kSlotBytes; zeros beyond these.
  template <int kVector, int kBytes, long long kSlotBytes>
  __device__ __forceinline__ void load(unsigned char* to, const void* from, int first, int slots,
                                       int step) const {
    constexpr int kVectors = kBytes / kVector, kMaxSlots = S::kRows / kBlockRows;
    constexpr int kSlotsAtOnce = max_of(1, kProducerThreads / kVectors),
                  kPasses = ceil_div(kVectors, kProducerThreads);  // of a slot
    static_assert(kBytes % kVector == 0);
    const int of_first = kSlotsAtOnce == 1 ? 0 : thread_ / kVectors,
              vector = kSlotsAtOnce == 1 ? thread_ : thread_ % kVectors;
    const auto* const source =
        static_cast<const unsigned char*>(from) + first * kSlotBytes + step * kBytes + vector * kVector;
#pragma unroll
    for (int j = 0; j < ceil_div(kMaxSlots, kSlotsAtOnce); ++j) {
      const int slot = of_first + j * kSlotsAtOnce;
      const long long row_slot = slot / S::kSlotsOfUnit + slot % S::kSlotsOfUnit * (S::kOut / kBlockRows);
#pragma unroll
      for (int pass = 0; pass < kPasses; ++pass) {
        constexpr int kPassBytes = kProducerThreads * kVector;
        const int at = vector * kVector + pass * kPassBytes;
        if ((kProducerThreads % kVectors != 0 && kVectors % kProducerThreads != 0) ||
            kMaxSlots % kSlotsAtOnce != 0)
          if (of_first >= kSlotsAtOnce || slot >= kMaxSlots || at >= kBytes) continue;
        const bool valid = slot < slots * S::kSlotsOfUnit &&
                           (S::kSteps * S::kTileK == S::kIn || step * kBytes + at < kSlotBytes);
        copy<kVector>(to + slot * S::kSlotBytes + at, source + row_slot * kSlotBytes + pass * kPassBytes,
                      valid);
      }
    }
  }
  /// Copies the scales of each slot, where its rows share them: a thread copies one.
  __device__ __forceinline__ void load_shared_scales(unsigned char* to, int first, int slots,
                                                     int step) const {
    using Slots = typename S::Slots;
    constexpr int kScales = S::kTileK / Slots::kGroup;
    static_assert(S::kRows / kBlockRows * kScales <= kProducerThreads);
    const int slot = thread_ / kScales, i = thread_ % kScales, k = step * S::kTileK + i * Slots::kGroup;
    if (slot >= S::kRows / kBlockRows) return;
    const long long row = (first + slot / S::kSlotsOfUnit) * kBlockRows +
                          static_cast<long long>(slot % S::kSlotsOfUnit) * S::kOut;
    copy<4>(to + slot * S::kSlotBytes + 4 * i,
            static_cast<const unsigned char*>(args_.scales) +
                4 * scale_index(Slots::kWeights, Slots::kGroup, S::kIn, row, k),
            slot < slots * S::kSlotsOfUnit && k < S::kIn);
  }
  template <int kVector>
  static __device__ __forceinline__ void copy(unsigned char* to, const unsigned char* from, bool valid) {
    if constexpr (kVector == 16)
      cp_async_16(to, from, valid);
    else
      cp_async_narrow<kVector>(to, from, valid);
  }

  const QuantizedLinearArgs& args_;
  const int thread_;
};

/// The weights of a warp as operands: packed blocks, converted to T.
template <class S>
class PackedOperands {
 public:
  __device__ __forceinline__ PackedOperands(const QuantizedLinearArgs& args, int warp_m, int fragment, int)
      : args_(args),
        slot_(warp_m * 2 * S::kRowTiles),
        block_(fragment / Slots::kFragments),
        fragment_(fragment % Slots::kFragments) {}

  __device__ __forceinline__ void begin_group(int first_output) {
    first_output_ = first_output;
#pragma unroll
    for (int i = 0; i < 2 * S::kRowTiles; ++i) {
      scales_[i] = 1;
      if constexpr (kRowScales)
        scales_[i] = row_scale<Slots::kWeights, Slots::kGroup>(args_, row(i)) * Word::kScale;
      if constexpr (Slots::kConvertsScaled) scales_[i] = Converter::kScale;
    }
  }
  /// sums += weights . x of a stage; see PlainOperands.
  __device__ __forceinline__ void multiply(SkinnySums<S>& sums, const SkinnyShared<S>& shared, int stage,
                                           int step, unsigned b_lane,
                                           const unsigned (&norm)[S::kFragments][2], bool count_squares) {
    const unsigned x = shared_address(shared.x(stage, step)) + b_lane;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block)
#pragma unroll
      for (int first = 0; first < S::kRowTiles; first += kRowTilesAtOnce) {
        PackedRow rows[kRowTilesAtOnce][2];
#pragma unroll
        for (int i = 0; i < 2 * kRowTilesAtOnce; ++i)
          if (2 * first + i < 2 * S::kRowTiles)
            read(rows[i / 2][i % 2], shared.stage(stage), block, 2 * first + i);
#pragma unroll
        for (int pair = 0; pair < kFragments / 2; ++pair) {
          if constexpr (Slots::kScalesSums)
            if (2 * pair % kScaleFragments == 0)
#pragma unroll
              for (int i = 0; i < 2 * kRowTilesAtOnce; ++i)
                if (2 * first + i < 2 * S::kRowTiles)
                  rescale(sums.d[first + i / 2], rows[i / 2][i % 2], 2 * first + i,
                          2 * pair / kScaleFragments);
          unsigned weights[kRowTilesAtOnce][2][4];
#pragma unroll
          for (int m = 0; m < kRowTilesAtOnce; ++m)
            if (first + m < S::kRowTiles)
#pragma unroll
              for (int half = 0; half < 2; ++half) convert(weights[m][half], rows[m][half], pair);
#pragma unroll
          for (int f = 0; f < 2; ++f)
            for_x_fragments<S>(sums, x, block * kFragments + 2 * pair + f, norm, shared.scale(),
                               count_squares && first == 0, [&](int n, unsigned b0, unsigned b1) {
#pragma unroll
                                 for (int m = 0; m < kRowTilesAtOnce; ++m)
                                   if (first + m < S::kRowTiles)
                                     mma_m16n8k16<T>(sums.d[first + m][n],
                                                     {weights[m][0][2 * f], weights[m][1][2 * f],
                                                      weights[m][0][2 * f + 1], weights[m][1][2 * f + 1]},
                                                     b0, b1);
                               });
        }
      }
  }
  /// Multiplies the sums by their scales.
  __device__ __forceinline__ void end_group(SkinnySums<S>& sums) const {
    if constexpr (kRowScales || Slots::kScalesSums || Slots::kConvertsScaled)
#pragma unroll
      for (int m = 0; m < S::kRowTiles; ++m)
#pragma unroll
        for (int n = 0; n < S::kTokenTiles; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) sums.d[m][n][i] *= scales_[2 * m + i / 2];
  }

 private:
  using T = typename S::T;
  using Slots = typename S::Slots;
  using Word = typename Slots::Word;
  using Converter = GroupConverter<T, Slots::kWeights, Slots::kZeros>;
  /// What a warp has of a stage: blocks, or the part of one.
  static constexpr int kBlocks = ceil_div(S::kFragments, Slots::kFragments),
                       kFragments = min_of(S::kFragments, Slots::kFragments),
                       kWords = kFragments / Word::kFragments,
                       kScales = ceil_div(Slots::kScales * kFragments, Slots::kFragments),
                       kScaleFragments = kFragments / kScales;
  static constexpr int kRowTilesAtOnce = min_of(S::kRowTiles, 2);
  static constexpr bool kRowScales = kHasRowScales<Slots::kWeights, Slots::kGroup>;

  static_assert(S::kFragments == kBlocks * kFragments && kFragments % 2 == 0);
  static_assert(kFragments == Slots::kFragments ||
                !(is_fp4(Slots::kWeights) || has_super_blocks(Slots::kWeights)));

  /// A lane's part of a block.
  struct PackedRow {
    unsigned words[kWords];
    BlockScales<Slots::kWeights, Slots::kGroup, kScales> scales;
    signed char zeros[kScales];

    /// Makes the weights of a group 0.
    __device__ __forceinline__ void clear(int group) {
#pragma unroll
      for (int i = 0; i < kWords; ++i)
        if (i * kScales / kWords == group) words[i] = 0;
    }
  };

  /// The row of weights of this lane in slot i of the warp.
  __device__ __forceinline__ long long row(int i) const {
    const int in_slot = threadIdx.x % 32 / 4, slot = slot_ + i;
    const int output = min_of(first_output_ + slot / S::kSlotsOfUnit * kBlockRows + in_slot, S::kOut - 1);
    return output + static_cast<long long>(slot % S::kSlotsOfUnit) * S::kOut;
  }
  __device__ __forceinline__ void read(PackedRow& to, const unsigned char* stage, int block, int i) const {
    const int lane = threadIdx.x % 32, column = (block_ + block) * Slots::kColumns + fragment_ * 16;
    const unsigned char* const slot = stage + (slot_ + i) * S::kSlotBytes;
    const unsigned char* const scales = slot + Slots::block_bytes(S::kTileK);
    const auto words = load_vec<kWords>(
        reinterpret_cast<const unsigned*>(slot + (block_ + block) * kBlockBytes + lane * 16) +
        fragment_ / Word::kFragments);
#pragma unroll
    for (int w = 0; w < kWords; ++w) to.words[w] = words[w];
    if constexpr (Slots::kHasScales) to.scales.read(scales, column, lane / 4);
    if constexpr (Slots::kZeros)
#pragma unroll
      for (int g = 0; g < kScales; ++g)
        to.zeros[g] = reinterpret_cast<const signed char*>(
            scales)[Slots::scale_bytes(S::kTileK) + (column / Slots::kGroup + g) * kBlockRows + lane / 4];
  }
  /// The pairs of fragments 2 * pair and the next.
  __device__ __forceinline__ void convert(unsigned (&pairs)[4], const PackedRow& row, int pair) const {
    constexpr int kPairs = Word::kPairs;
#pragma unroll
    for (int i = 0; i < 4 / kPairs; ++i) {
      const int word = pair * (4 / kPairs) + i;
      convert_word<T, Slots::kWeights, Slots::kGroup, Slots::kZeros, kScaleFragments, Slots::kScalesSums>(
          reinterpret_cast<unsigned(&)[kPairs]>(pairs[i * kPairs]), row.words[word], row.scales, row.zeros,
          word);
    }
  }
  /// Rescales the sums of slot i from the scale of a group to that of the next group, before its products are
  /// added. Where the next scale is 0 it is taken as 1 and the weights as 0.
  __device__ __forceinline__ void rescale(float (&sums)[S::kTokenTiles][4], PackedRow& row, int i,
                                          int group) {
    float scale = row.scales[group];
    // Keeps the ratio finite where scales have the range of fp32. Beside others, such small scales add
    // nothing to a sum, and with such large ones it overflows T.
    if constexpr (Slots::kWeights == kWeightsMxfp4)
      scale = copysignf(fminf(fmaxf(fabsf(scale), scale == 0 ? 0 : 0x1p-60f), 0x1p60f), scale);
    if (scale == 0) {
      scale = 1;
      row.clear(group);
    }
    scale *= Word::kScale;
    const float ratio = __fdividef(scales_[i], scale);
    scales_[i] = scale;
#pragma unroll
    for (int n = 0; n < S::kTokenTiles; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j) sums[n][i % 2 * 2 + j] *= ratio;
  }

  const QuantizedLinearArgs& args_;
  const int slot_, block_, fragment_;  // the first of this warp, and of the block
  int first_output_ = 0;               // the group's
  float scales_[2 * S::kRowTiles];     // what the sums of each slot are still to be multiplied by
};

template <class T, int kTokens, int kIn, int kOut, int kBias, int kPrologue, int kEpilogue, int kWeights,
          int kGroup, int kZeros, int kBlocksPerSm, int kWarpsM, int kWarpsK, int kRows, int kTileK,
          int kStages, int kResidentX, int kOneGroup, int kSplits, int kPartialOffset>
__global__ void __launch_bounds__(32 * kWarpsM * kWarpsK + kProducerThreads, kBlocksPerSm)
    linear_mma_packed_cp_async(QuantizedLinearArgs args) {
  using S =
      SkinnyGemm<T, kTokens, kIn, kOut, kBias, kPrologue, kEpilogue, kWarpsM, kWarpsK, kRows, kTileK, kStages,
                 kResidentX != 0, 1, kSplits, kOneGroup != 0, PackedSlots<T, kWeights, kGroup, kZeros != 0>>;
  [[maybe_unused]] static constexpr int kSharedBytes = S::kSharedBytes;
  extern __shared__ __align__(1024) unsigned char memory[];
  const SkinnyShared<S> shared{memory};
  if (threadIdx.x == 0) shared.init_barriers(kProducerThreads);
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.x) - S::kThreads;
  pdl_launch_dependents();
  if (thread >= 0) {
    SkinnyProducer<S, PackedLoader<S>> producer({args, thread}, shared);
#if __CUDA_ARCH__ >= 900
    producer.load_first_weights(ceil_div(kStages, 2));
#endif
    pdl_wait();
    producer.load_rest();
  } else {
    pdl_wait();
    consume<S, kPartialOffset, PackedOperands<S>>(args, shared);
  }
}

}  // namespace warptune
