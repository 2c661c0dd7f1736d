// Streaming wgmma GEMM on quantized weights (packed_weights.h) on Hopper (sm_90a), for 2 tokens and more.
// Operands: weight rows are the M operand of wgmma (m64nNk16), converted in registers; tokens are N, in
//   shared memory.
// Grid, roles, sync, multicast of x, epilogues: as wgmma_streaming.cu (streaming_wgmma.cuh). With kTokens 0 a
//   work tile is kRows weight rows x kN tokens, for prompts. With SwiGLU gate and up share m64 tiles. Then,
//   and with split K, outputs pass through shared memory (output_exchange.cuh).
// Pipeline: kStages stages of kTileK columns: x in column tiles of 64 columns with the 128-byte swizzle, then
//   weights as they are packed, and their scales. One TMA loads each, as a thread issues one in about 80
//   cycles: a copy per slot or column tile would bind. Half of the stages have weights before pdl_wait();
//   memory serves x after them. Lanes of the producer load the few scales of blocks of fp8, by cp.async.
//   Consumers load zero points from the L2.
// Split K: by kClusterK blocks of a cluster, and by kWarpgroupsK warpgroups of a block, each with its part of
//   the columns of a stage; split_k_reduction.cuh adds the sums.
// Arithmetic: wgmma_packed_mainloop.cuh.
// Act-order: permute_columns.cu writes x to the workspace, whose tensor map takes the place of that of x.
// Wins: 9 tokens and more on most shapes.
// `in` is a multiple of kTileK, `out` of 8. Source: Marlin (Frantar et al., "MARLIN: Mixed-Precision
// Auto-Regressive Parallel Inference on Large Language Models", 2024) and CUTLASS, mixed-input GEMM of sm_90.
#include "kernels/common/cp_async.cuh"
#include "kernels/linear/packed/wgmma_packed_mainloop.cuh"

namespace warptune {

template <class S>
struct PromptSchedule;

template <class T_, int kTokens_, int kIn_, int kOut_, int kBias_, int kPrologue_, int kEpilogue_,
          int kWeights_, int kGroup_, int kZeros_, int kN_, int kRows_, int kTileK_, int kStages_,
          int kWarpgroups_, int kWarpgroupsK_, int kClusterK_, int kClusterM_>
struct PackedWgmma {
  using Mainloop = PackedMainloop<PackedWgmma>;
  using Schedule =
      typename Conditional<kTokens_ == 0, PromptSchedule<PackedWgmma>, StreamingSchedule<PackedWgmma>>::type;
  using T = T_;
  using Args = QuantizedLinearArgs;
  using State = PipelineState<kStages_>;
  using Word = WeightWord<T, kWeights_>;
  static constexpr int kTokens = kTokens_, kIn = kIn_, kOut = kOut_, kBias = kBias_, kEpilogue = kEpilogue_,
                       kWeights = kWeights_, kGroup = kGroup_, kN = kN_, kRows = kRows_, kTileK = kTileK_,
                       kStages = kStages_, kEarlyStages = max_of(kStages / 2, 1), kWarpgroups = kWarpgroups_,
                       kWarpgroupsK = kWarpgroupsK_, kWarpgroupsM = kWarpgroups / kWarpgroupsK,
                       kClusterK = kClusterK_, kClusterM = kClusterM_, kCluster = kClusterK * kClusterM;
  static constexpr bool kRmsScale = kPrologue_ == kPrologueRmsScale, kSwiglu = kEpilogue == kEpilogueSwiglu,
                        kAdd = kAddsResidual<kEpilogue>, kAddRms = kEpilogue == kEpilogueAddRms,
                        kArgmax = kEpilogue == kEpilogueArgmax, kZeros = kZeros_ != 0;
  /// Gate and up share m64 tiles: of 16 rows of a warp 8 are of gate, and 8 the same of up.
  static constexpr int kMatrices = kSwiglu ? 2 : 1, kSumMatrices = 1, kTileOutputs = 64 / kMatrices;
  static constexpr int kOutputs = kRows / kMatrices,                // per work tile
      kSubtiles = ceil_div(kOutputs, kTileOutputs) / kWarpgroupsM;  // m64 tiles of a warpgroup
  /// Whether a block has one work tile, whose sums warpgroups or the blocks of a cluster add.
  static constexpr bool kSplitsK = kWarpgroupsK * kClusterK > 1, kExchangesOutputs = kSplitsK || kSwiglu;
  /// The producer and the warps that add squares are one warpgroup at most.
  static constexpr int kConsumers = 128 * kWarpgroups, kScaleWarps = kRmsScale ? 3 : 0,
                       kProducerWarps = kTokens == 0 ? 4 : 1;
  static constexpr int kProducer = kConsumers + 32 * kScaleWarps, kThreads = kProducer + 32 * kProducerWarps;
  static constexpr int kSteps = kIn / kTileK;

  // A stage has slots of eight rows, and blocks of weights in each; a block has kBlockScales scales per row.
  static constexpr int kSlots = kRows / kBlockRows, kColumns = block_columns(kWeights),
                       kTileBlocks = kTileK / kColumns, kSlotBytes = kTileBlocks * kBlockBytes;
  static constexpr int kBlockScales = kGroup == 0 || kGroup >= kColumns ? 1 : kColumns / kGroup;
  /// A stage holds the scales of kScaleColumns columns, kSlotScaleBytes per slot. TMA loads them; lanes of
  /// the producer load scales that rows share.
  static constexpr bool kStageScales = kGroup != 0, kLaneScales = kRowsShareScales<kWeights, kGroup>;
  static constexpr int kMatrixSlots = kSlots / kMatrices,
                       kScaleColumns =
                           max_of(max_of(kTileK, kGroup), has_super_blocks(kWeights) ? kSuperColumns : 0),
                       kSlotScaleBytes =
                           kStageScales ? slot_scale_bytes(kWeights, max_of(kGroup, 1), kScaleColumns) : 0,
                       kMatrixScaleBytes = 128 * ceil_div(kMatrixSlots * kSlotScaleBytes, 128);
  static constexpr int kXOffset = 0, kXColumnTile = kN * 128, kWeightOffset = kTileK / 64 * kXColumnTile,
                       kScaleOffset = kWeightOffset + kSlots * kSlotBytes,
                       kLoadedBytes = kScaleOffset + (kLaneScales ? 0 : kSlots * kSlotScaleBytes),
                       kStageBytes = 1024 * ceil_div(kScaleOffset + kMatrices * kMatrixScaleBytes, 1024);

  static constexpr bool kConvertsScaled = warptune::kConvertsScaled<T, kWeights, kGroup>;
  static constexpr bool kScalesSums = kGroup != 0 && !kConvertsScaled && !kScaledWeightsAreExact<T, kWeights>;
  static constexpr int kBatchColumns = kScalesSums ? min_of(kGroup, kColumns) : 64,
                       kBatchFragments = kBatchColumns / 16, kBatchWords = kBatchFragments / Word::kFragments,
                       kBlockBatches = kColumns / kBatchColumns,
                       kBatches = kTileBlocks / kWarpgroupsK * kSubtiles * kBlockBatches;  // in a stage

  static_assert(kRows % 16 == 0 && kRows <= 256 && kOutputs % 8 == 0 && kOut % 8 == 0);
  static_assert(ceil_div(kOutputs, kTileOutputs) % kWarpgroupsM == 0 && kWarpgroups % kWarpgroupsK == 0 &&
                kTileBlocks % kWarpgroupsK == 0);
  static_assert(kIn % kTileK == 0 && kTileK % kColumns == 0 && !(kZeros && kGroup == 0));
  static_assert(kN % 16 == 0 && kTileK % (64 * kClusterM) == 0 && kCluster <= 8);
  static_assert(kTokens <= kN && (!kSplitsK || (kTokens != 0 && !kArgmax)));
  static_assert(!kAddRms || kOutputs % kSquaresGroup == 0);

  /// The matrix, gate (0) or up (1), that has half `half` of the 16 rows that a warp has of an m64 tile, and
  /// the slot of that matrix in a stage; of a last tile that is not full, at most the last slot.
  static constexpr __device__ __forceinline__ int matrix(int half) { return kMatrices == 2 ? half : 0; }
  static __device__ __forceinline__ int slot(int tile, int warp, int half) {
    const int at = kMatrices == 2 ? 4 * tile + warp : 8 * tile + 2 * warp + half;
    return kOutputs % kTileOutputs == 0 ? at : min_of(at, kMatrixSlots - 1);
  }
  /// The address of the weights of these eight rows in a stage, in the columns of warpgroup `split` of
  /// kWarpgroupsK.
  static __device__ __forceinline__ unsigned char* weights(unsigned char* stage, int tile, int warp, int half,
                                                           int split) {
    return stage + kWeightOffset + (matrix(half) * kMatrixSlots + slot(tile, warp, half)) * kSlotBytes +
           split * (kTileBlocks / kWarpgroupsK) * kBlockBytes;
  }

  struct Storage {
    unsigned char stages[kStages * kStageBytes];
    [[no_unique_address]] typename SplitKReduction<PackedWgmma>::OptionalBuffer received;
    Mbarrier full[kStages], empty[kStages];
  };
};

/// Tiles of tokens too: work tiles along the weight rows first.
template <class S>
struct PromptSchedule : StreamingSchedule<S> {
  using Base = StreamingSchedule<S>;
  using Base::tile;
  int token_tile = 0;
  const int token_tiles;

  __device__ __forceinline__ explicit PromptSchedule(int tokens)
      : Base(tokens), token_tiles(ceil_div(tokens, S::kN)) {
    wrap();
  }
  __device__ __forceinline__ bool has_work() const { return token_tile < token_tiles; }
  __device__ __forceinline__ void advance() {
    Base::advance();
    wrap();
  }
  __device__ __forceinline__ int first_token() const { return token_tile * S::kN; }

 private:
  __device__ __forceinline__ void wrap() {
    constexpr int kClusterRowTiles = ceil_div(Base::kRowTiles, S::kClusterM) * S::kClusterM;
    token_tile += tile / kClusterRowTiles;
    tile %= kClusterRowTiles;
  }
};

/// The producer warp.
template <class S>
struct PackedProducer {
  const QuantizedLinearArgs& args;
  const TensorMap &weight_map, &scale_map, &x_map;
  typename S::Storage& shared;
  const unsigned long long weight_policy;
  typename S::Schedule work;
  typename S::State state;

  __device__ __forceinline__ PackedProducer(const QuantizedLinearArgs& args, const TensorMap& weight,
                                            const TensorMap& scales, const TensorMap& x,
                                            typename S::Storage& shared)
      : args(args),
        weight_map(weight),
        scale_map(scales),
        x_map(x),
        shared(shared),
        weight_policy(l2_evict_first_policy()),
        work(args.tokens) {}

  /// Initializes the barriers and loads weights of the first stages, which no kernel writes: before
  /// pdl_wait(), and before the barrier that makes the mbarriers visible to other warps.
  __device__ __forceinline__ void load_first_weights() {
    if (is_leader()) {
      tma_prefetch_descriptor(weight_map);
      if constexpr (S::kStageScales && !S::kLaneScales) tma_prefetch_descriptor(scale_map);
      tma_prefetch_descriptor(x_map);
      for (int i = 0; i < S::kStages; ++i)
        mbarrier_init(&shared.full[i], kArrivals),
            mbarrier_init(&shared.empty[i], 4 * S::kWarpgroups * S::kClusterM);
      shared.received.init();
      mbarrier_init_fence();
    }
    const auto first = state;
    for (int i = 0; i < first_steps(); ++i, state.advance()) load_weights(work.first_step + i);
    state = first;
  }
  /// The rest.
  template <int kLatePrefetch>
  __device__ __forceinline__ void load_rest() {
    for (int i = 0; i < first_steps(); ++i) load_x(work.first_step + i);
    if (is_leader()) prefetch_next_weight<kLatePrefetch>(args);
    for (int step = work.first_step + first_steps();; step = work.first_step) {
      for (; step < work.end_step; ++step) {
        load_weights(step);
        load_x(step);
      }
      work.advance();
      if (!work.has_work()) return;
    }
  }

 private:
  /// At the full barrier of a stage: of the leader, and of all lanes that load scales.
  static constexpr int kArrivals = S::kLaneScales ? 33 : 1;

  static __device__ __forceinline__ bool is_leader() { return threadIdx.x % 32 == 0; }
  __device__ __forceinline__ int first_steps() const {
    return min(S::kEarlyStages, work.end_step - work.first_step);
  }
  /// Begins a stage and loads its weights and their scales; prefetches zero points to the L2.
  __device__ __forceinline__ void load_weights(int step) const {
    constexpr int kRowSlots = S::kOut / kBlockRows;
    Mbarrier* const full = &shared.full[state.index];
    __syncwarp();  // the leader has initialized the barriers, or loaded x
    mbarrier_wait(&shared.empty[state.index], state.phase ^ 1);
    fence_proxy_async();  // after the consumers' reads
    const int column = work.column(step);
    if (is_leader()) {
      mbarrier_arrive_expect_tx(full, S::kLoadedBytes);
      unsigned char* const stage = shared.stages + state.index * S::kStageBytes;
#pragma unroll
      for (int matrix = 0; matrix < S::kMatrices; ++matrix) {
        const int slot = matrix * kRowSlots + work.tile * S::kMatrixSlots;
        tma_load_3d(stage + S::kWeightOffset + matrix * S::kMatrixSlots * S::kSlotBytes, weight_map, 0,
                    column / S::kColumns, slot, full, weight_policy);
        if constexpr (S::kStageScales && !S::kLaneScales)
          tma_load_2d(stage + S::kScaleOffset + matrix * S::kMatrixScaleBytes, scale_map,
                      column / S::kScaleColumns * S::kSlotScaleBytes / 2, slot, full, weight_policy);
      }
    }
    if constexpr (S::kZeros || S::kLaneScales) {
      const int at = static_cast<int>(threadIdx.x) % 32;
      if (at < S::kSlots) {
        const long long slot = at / S::kMatrixSlots * kRowSlots +
                               min_of(work.tile * S::kMatrixSlots + at % S::kMatrixSlots, kRowSlots - 1);
        const long long index = scale_index(S::kWeights, S::kGroup, S::kIn, kBlockRows * slot, column);
        if constexpr (S::kZeros)
          prefetch_l2(args.zeros + index);
        else
          load_scales(at, static_cast<const float*>(args.scales) + index);
      }
    }
    if constexpr (S::kLaneScales) cp_async_mbarrier_arrive(full);
  }
  /// Loads the scales of slot `slot` of a stage.
  __device__ __forceinline__ void load_scales(int slot, const float* from) const {
    constexpr int kScales = S::kSlotScaleBytes / 4;
    unsigned char* const to = shared.stages + state.index * S::kStageBytes + S::kScaleOffset +
                              slot / S::kMatrixSlots * S::kMatrixScaleBytes +
                              slot % S::kMatrixSlots * S::kSlotScaleBytes;
#pragma unroll
    for (int i = 0; i < kScales; ++i) cp_async_4(to + 4 * i, from + i);
  }
  /// Loads this block's column tiles of x, and ends the stage.
  __device__ __forceinline__ void load_x(int step) {
    constexpr unsigned kMulticastMask = (1 << S::kClusterM) - 1;
    const int first = work.rank_m * (S::kTileK / 64 / S::kClusterM), tile = work.column(step) / 64 + first;
    Mbarrier* const full = &shared.full[state.index];
    unsigned char* const to =
        shared.stages + state.index * S::kStageBytes + S::kXOffset + first * S::kXColumnTile;
    if (is_leader()) {
      if constexpr (S::kClusterM == 1)
        tma_load_3d(to, x_map, 0, work.first_token(), tile, full);
      else
        tma_load_3d_multicast(to, x_map, 0, work.first_token(), tile, full,
                              static_cast<unsigned short>(kMulticastMask << work.rank_k * S::kClusterM));
    }
    state.advance();
  }
};

template <class T, int kTokens, int kIn, int kOut, int kBias, int kPrologue, int kEpilogue, int kWeights,
          int kGroup, int kZeros, int kTileTokens, int kRows, int kTileK, int kStages, int kWarpgroups,
          int kWarpgroupsK, int kClusterK, int kClusterM, int kPrefetch, int kLatePrefetch>
__global__ void __launch_bounds__(128 * kWarpgroups + (kPrologue == kPrologueRmsScale ? 96 : 0) +
                                      (kTokens == 0 ? 128 : 32),
                                  1)
    linear_wgmma_packed(QuantizedLinearArgs args, const __grid_constant__ TensorMap weight,
                        const __grid_constant__ TensorMap scales, const __grid_constant__ TensorMap x) {
  using S = PackedWgmma<T, kTokens, kIn, kOut, kBias, kPrologue, kEpilogue, kWeights, kGroup, kZeros,
                        kTileTokens, kRows, kTileK, kStages, kWarpgroups, kWarpgroupsK, kClusterK, kClusterM>;
  [[maybe_unused]] static constexpr int kSharedBytes =
      sizeof(typename S::Storage) + (S::kRmsScale ? 4 * S::kN : 0);
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<typename S::Storage*>(memory);
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), warpgroup = warp / 4;
  const bool produces = warp == S::kProducer / 32;
  PackedProducer<S> producer(args, weight, scales, x, shared);
  if (produces) producer.load_first_weights();
  if constexpr (S::kCluster > 1)
    cluster_barrier();
  else
    __syncthreads();
  pdl_launch_dependents();
  if (threadIdx.x == S::kProducer) prefetch_next_weight<kPrefetch>(args);
  pdl_wait();
  if (warpgroup == kWarpgroups) {
    if constexpr (S::kProducerWarps == 4) warpgroup_reg_dealloc<40>();
    if (produces) {
      producer.template load_rest<kLatePrefetch>();
    } else if constexpr (S::kRmsScale) {
      // A block needs the scales of the tokens that its splits own. (wgmma_streaming has compute_scales()
      // until its winners are timed anew.)
      constexpr int kOwned = SplitKReduction<S>::kOwners > 1 ? S::kN / kClusterK : S::kN;
      const int begin = producer.work.rank_k * kOwned;
      compute_token_scales<kTokens, kIn, S::kScaleWarps>(args.squares, args.eps, scales_of<S>(shared),
                                                         warp % S::kScaleWarps, begin,
                                                         min_of(begin + kOwned, kTokens));
      named_barrier_arrive(2, S::kConsumers + 32 * S::kScaleWarps);
    }
  } else {
    if constexpr (S::kProducerWarps == 4) warpgroup_reg_alloc<232>();
    StreamingConsumer<S> consumer(shared, warpgroup, args.tokens);
    if constexpr (!S::kSplitsK) {
      consumer.run(args);
      if constexpr (S::kArgmax) write_ids<T, kOut, S::kConsumers>(args);
    } else {
      consumer.run_split(args, shared.received);
    }
  }
  // No block exits while another arrives at its barriers. An arrival completes later than its instruction, so
  // this barrier has release semantics.
  if constexpr (kClusterM > 1) cluster_barrier();
}

}  // namespace warptune
