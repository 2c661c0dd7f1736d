#pragma once
// Layout and schedule of the streaming tensor-core GEMM (streaming_mma.cuh): its configuration, the shared
// memory of a block, the outputs and columns that it computes, and the sums of a warp.
#include "kernels/common/barrier.cuh"
#include "kernels/common/cluster.cuh"
#include "kernels/linear/argmax.cuh"
#include "kernels/linear/fused.cuh"

namespace warptune {

/// Producers of the kernels that load by cp.async.
inline constexpr int kProducerThreads = 128;

/// Weights of 16 bits in a stage: slots of 8 rows.
struct PlainSlots {
  template <int kPrologue, int kEpilogue>
  using Args = LinearArgsOf<kPrologue, kEpilogue>;
  /// Bytes of a slot with that many columns.
  static WARPTUNE_HOST_DEVICE constexpr int bytes(int columns) { return 16 * columns; }
  /// Whether slots are blocks of packed weights: then ranges of outputs begin at slots.
  static constexpr bool kPacked = false;
};

/// The problem, the configuration and the layout of the shared memory, which
/// variants/linear/streaming_mma.cpp repeats.
template <class T_, int kTokens_, int kIn_, int kOut_, int kBias_, int kPrologue_, int kEpilogue_,
          int kWarpsM_, int kWarpsK_, int kRows_, int kTileK_, int kStages_, bool kResidentX_, int kCluster_,
          int kSplits_ = 1, bool kOneGroup_ = false, class Slots_ = PlainSlots>
struct SkinnyGemm {
  using T = T_;
  using Slots = Slots_;
  using Args = typename Slots::template Args<kPrologue_, kEpilogue_>;
  using Key = SortKey<T, kOut_>;
  static constexpr int kTokens = kTokens_, kIn = kIn_, kOut = kOut_, kBias = kBias_, kEpilogue = kEpilogue_;
  static constexpr int kWarpsM = kWarpsM_, kWarpsK = kWarpsK_, kRows = kRows_, kTileK = kTileK_,
                       kStages = kStages_;
  /// Blocks that split K: of a cluster, or any, which add their sums in the workspace.
  static constexpr int kCluster = kCluster_, kSplits = kSplits_, kBlocksK = kCluster * kSplits;
  static constexpr bool kNorm = kPrologue_ == kPrologueRmsNorm, kRmsScale = kPrologue_ == kPrologueRmsScale,
                        kSwiglu = kEpilogue == kEpilogueSwiglu, kArgmax = kEpilogue == kEpilogueArgmax,
                        kAddRms = kEpilogue == kEpilogueAddRms, kResidentX = kResidentX_;
  /// Whether a block has one group: its sums then take the place of the stages.
  static constexpr bool kOneGroup = kOneGroup_;
  /// Whether the tokens of x, or the sums, are multiplied by 1 / RMS; whether the squares of x are added.
  static constexpr bool kScalesX = kNorm && kScalesBeforeRounding<T>, kAddsSquares = kNorm && !kScalesX,
                        kScalesSums = kAddsSquares || kRmsScale;
  static constexpr int kWarps = kWarpsM * kWarpsK, kThreads = 32 * kWarps;  // consumers
  /// Whether sums go through shared memory: those of warps or blocks that split K, and those of one group.
  static constexpr bool kSharedSums = kWarpsK * kBlocksK > 1 || kOneGroup;
  static constexpr int kTokenTiles = ceil_div(kTokens, 8), kPaddedTokens = 8 * kTokenTiles;
  static constexpr int kRowTiles = kRows / kWarpsM / 16;    // m16 tiles of a warp
  static constexpr int kFragments = kTileK / 16 / kWarpsK;  // k16 fragments of a warp and stage
  static constexpr int kSlotsOfUnit = kSwiglu ? 2 : 1;      // 8 outputs: gate rows, up rows
  static constexpr int kGroupOutputs = kRows / kSlotsOfUnit;
  static constexpr int kSteps = ceil_div(kIn, kTileK), kMaxSteps = ceil_div(kSteps, kBlocksK);

  // Bytes.
  static constexpr int kColumnTiles = kTileK / 64, kSlotBytes = Slots::bytes(kTileK),
                       kXColumnTileBytes = 128 * kPaddedTokens;
  static constexpr int kWeightBytes = 128 * ceil_div(kRows / 8 * kSlotBytes, 128),
                       kXBytes = kColumnTiles * kXColumnTileBytes;
  static constexpr int kStageBytes = kWeightBytes + (kResidentX ? 0 : kXBytes);
  static constexpr int kXOffset = kStages * kStageBytes,
                       kStagesEnd = kXOffset + (kResidentX ? kMaxSteps * kXBytes : 0);
  static constexpr int kPartialOffset = kOneGroup ? 0 : kStagesEnd;
  static constexpr int kPitch = kRows + 4;  // floats of a token's partial sums: stores without bank conflicts
  static constexpr int kPartial = kPaddedTokens * kPitch;  // floats of a warp that splits K
  static constexpr int kSquaresOffset =
      max_of(kStagesEnd, kPartialOffset + (kSharedSums ? 4 * kWarpsK * kPartial : 0));
  static constexpr int kScaleOffset = kSquaresOffset + 4 * kWarpsK * kPaddedTokens;
  static constexpr int kBarrierOffset = kScaleOffset + 4 * kPaddedTokens;
  static constexpr int kSharedBytes = kBarrierOffset + 8 * (2 * kStages + 2);

  static_assert(kTileK % 64 == 0 && kTileK % (16 * kWarpsK) == 0 && kRows % (16 * kWarpsM) == 0);
  static_assert((kFragments & (kFragments - 1)) == 0 && kStages >= 2 && kTokens <= 64);
  static_assert(kSplits == 1 || (kCluster == 1 && !kNorm && !kArgmax && !kSwiglu));
  static_assert(!kAddRms || (kSharedSums && kCluster == 1 && kOut % kSquaresGroup == 0));
};

/// What a block computes: outputs in groups, and steps of kTileK columns. The kBlocksK blocks that split K
/// have the same range of outputs. Ranges are even to one output, or to one slot where they begin at slots,
/// or to kSquaresGroup outputs with add_rms. Else the last tile of a range is whole slots of 8 rows: it
/// overlaps the first rows of the next range. Every second range is computed in reverse order, so that both
/// read these rows at about the same time, once from memory.
template <class S>
struct SkinnyWork {
  /// Products of outputs and ranges, or of slots and groups, need 64 bits.
  static constexpr bool kManyOutputs = S::kOut >= 1 << 21;
  /// Groups begin at multiples of this within their range, and ranges with packed weights or add_rms.
  static constexpr int kAlignment = S::kAddRms ? kSquaresGroup : 8;

  int first, outputs, groups, first_step, steps;
  bool reverse;

  __device__ __forceinline__ SkinnyWork() {
    const unsigned ranges = gridDim.x / S::kBlocksK, range = blockIdx.x / S::kBlocksK;
    const int rank = rank_in_range();
    using Product = typename Conditional<kManyOutputs, unsigned long long, unsigned>::type;
    const auto begin = [=](unsigned of) {
      if constexpr (S::Slots::kPacked || S::kAddRms)
        return min_of(kAlignment * static_cast<int>(Product{ceil_div(S::kOut, kAlignment)} * of / ranges),
                      S::kOut);
      else
        return static_cast<int>(Product{S::kOut} * of / ranges);
    };
    first = begin(range);
    outputs = begin(range + 1) - first;
    groups = ceil_div(outputs, S::kGroupOutputs);
    first_step = S::kSteps * rank / S::kBlocksK;
    steps = S::kSteps * (rank + 1) / S::kBlocksK - first_step;
    reverse = range % 2 != 0;
  }
  static __device__ __forceinline__ int rank_in_range() { return static_cast<int>(blockIdx.x) % S::kBlocksK; }

  struct Group {
    int begin, end;  // outputs
  };
  /// Groups differ by at most kAlignment outputs, so that no stage is nearly empty.
  __device__ __forceinline__ Group group(int i) const {
    if (reverse) i = groups - 1 - i;
    const typename Conditional<kManyOutputs, long long, int>::type count = ceil_div(outputs, kAlignment);
    return {first + kAlignment * static_cast<int>(count * i / groups),
            first + min(outputs, kAlignment * static_cast<int>(count * (i + 1) / groups))};
  }
};

/// The shared memory of a block.
template <class S>
struct SkinnyShared {
  unsigned char* base;

  __device__ __forceinline__ unsigned char* stage(int i) const { return base + i * S::kStageBytes; }
  /// The x tile of a step; with kResidentX `stage` does not matter, else `step`.
  __device__ __forceinline__ unsigned char* x(int stage_index, int step) const {
    return S::kResidentX ? base + S::kXOffset + step * S::kXBytes : stage(stage_index) + S::kWeightBytes;
  }
  __device__ __forceinline__ float* partial() const {
    return reinterpret_cast<float*>(base + S::kPartialOffset);
  }
  __device__ __forceinline__ float* squares() const {
    return reinterpret_cast<float*>(base + S::kSquaresOffset);
  }
  __device__ __forceinline__ float* scale() const { return reinterpret_cast<float*>(base + S::kScaleOffset); }
  __device__ __forceinline__ Mbarrier* full() const {
    return reinterpret_cast<Mbarrier*>(base + S::kBarrierOffset);
  }
  __device__ __forceinline__ Mbarrier* empty() const { return full() + S::kStages; }
  /// Whether all blocks of the cluster have written their partial sums, and have read those of the others.
  __device__ __forceinline__ Mbarrier* partial_full() const { return full() + 2 * S::kStages; }
  __device__ __forceinline__ Mbarrier* partial_empty() const { return partial_full() + 1; }

  /// One thread; `full_arrivals` of the producers.
  __device__ __forceinline__ void init_barriers(int full_arrivals) const {
    for (int i = 0; i < S::kStages; ++i) {
      mbarrier_init(full() + i, full_arrivals);
      mbarrier_init(empty() + i, S::kWarps);
    }
    mbarrier_init(partial_full(), S::kWarps * S::kCluster);
    mbarrier_init(partial_empty(), S::kWarps * S::kCluster);
  }
};

/// The sums of a consumer warp: D fragments, and of the tokens lane / 4 of each n8 tile the squares of x.
template <class S>
struct SkinnySums {
  float d[S::kRowTiles][S::kTokenTiles][4];
  float squares[S::kTokenTiles];
};

}  // namespace warptune
