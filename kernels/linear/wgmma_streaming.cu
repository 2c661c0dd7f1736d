// Streaming wgmma GEMM on Hopper (TMA, sm_90a), for 2 to 64 tokens (skinny GEMM).
// Operands: weight rows are the M operand of wgmma (m64nNk16), tokens are N; both lie in shared memory.
// Grid: persistent blocks, one per SM, or a block per work tile, in clusters of kClusterK x kClusterM. A work
//   tile is kRows rows of weight. The kClusterM blocks of a cluster take adjacent work tiles and multicast x
//   to each other; the kClusterK blocks split K of one work tile. With split K a block has one work tile.
// Roles: one thread of a producer warp issues all TMA loads; kWarpgroups consumer warpgroups take the m64
//   tiles of a work tile round-robin. With the prologue rms_scale one more warpgroup adds the squares of the
//   rows of x, and ends.
// Pipeline: kStages stages of kTileK columns of weight and x in column tiles of 64 columns, 128-byte swizzle.
//   Weights of the first kEarlyStages stages are loaded before pdl_wait(), x after it. The copies of an SM
//   queue in order, so x arrives sooner with fewer early stages. Work tiles start at different columns.
// PDL: the producer prefetches some of the next GEMM's weights to the L2, before pdl_wait() (o) or after it
//   (down); see gemv_bulk_copy.cu.
// Sync: full/empty mbarrier per stage. Multicast writes to all blocks that share x, so an empty barrier
//   counts the consumer warps of all.
// Epilogue: from registers (StreamingEpilogue). With split K the stages, which are empty then, take partial
//   sums [token][row]; each block adds the sums of some of the outputs through distributed shared memory, in
//   a fixed order. add_rms also leaves y times the weight of the next norm, and sums of 16 squares. With
//   argmax a thread keeps the largest keys of its tokens. With SwiGLU half of a work tile are gate rows (a
//   matrix), half the up rows of the same outputs: both sums lie in one thread.
// Wins: 2 to 64 tokens on most shapes. `in` and `out` are multiples of 8.
// Source: DeepGEMM (persistent blocks, TMA and wgmma by hand); weights as M, since tokens are few.
#include "kernels/linear/streaming_wgmma.cuh"

namespace warptune {

template <class S>
struct WgmmaMainloop;

template <class T_, int kTokens_, int kIn_, int kOut_, int kBias_, int kPrologue_, int kEpilogue_, int kRows_,
          int kTileK_, int kStages_, int kWarpgroups_, int kClusterK_, int kClusterM_, int kEvictFirst_,
          int kEarlyStages_>
struct StreamingWgmma {
  using Mainloop = WgmmaMainloop<StreamingWgmma>;
  using Schedule = StreamingSchedule<StreamingWgmma>;
  using T = T_;
  using Args = LinearArgsOf<kPrologue_, kEpilogue_>;
  using State = PipelineState<kStages_>;
  static constexpr int kTokens = kTokens_, kIn = kIn_, kOut = kOut_, kBias = kBias_, kEpilogue = kEpilogue_,
                       kRows = kRows_, kTileK = kTileK_, kStages = kStages_, kWarpgroups = kWarpgroups_,
                       kWarpgroupsM = kWarpgroups, kWarpgroupsK = 1, kClusterK = kClusterK_,
                       kClusterM = kClusterM_, kCluster = kClusterK * kClusterM,
                       kEarlyStages = kEarlyStages_ ? kEarlyStages_ : kStages;
  static constexpr bool kRmsScale = kPrologue_ == kPrologueRmsScale, kSwiglu = kEpilogue == kEpilogueSwiglu,
                        kAdd = kAddsResidual<kEpilogue>, kAddRms = kEpilogue == kEpilogueAddRms,
                        kArgmax = kEpilogue == kEpilogueArgmax, kEvictFirst = kEvictFirst_ != 0,
                        kExchangesOutputs = false;
  static constexpr int kMatrices = kSwiglu ? 2 : 1, kSumMatrices = kMatrices;  // gate and up
  static constexpr int kOutputs = kRows / kMatrices, kTileOutputs = 64;  // of a work tile, of an m64 tile
  static constexpr int kSubtiles =
      ceil_div(kOutputs, kTileOutputs) / kWarpgroups;    // per warpgroup and matrix
  static constexpr int kN = 16 * ceil_div(kTokens, 16);  // tokens, padded
  static constexpr int kConsumers = 128 * kWarpgroups, kScaleWarps = kRmsScale ? 4 : 0;
  static constexpr int kProducer = kConsumers + 32 * kScaleWarps, kThreads = kProducer + 32;
  static constexpr int kSteps = ceil_div(kIn, kTileK), kColumnTiles = kTileK / 64;
  static constexpr int kWeightColumnTile = kRows * 128, kXColumnTile = kN * 128;  // bytes
  static constexpr int kXOffset = kColumnTiles * kWeightColumnTile,
                       kStageBytes = kColumnTiles * (kWeightColumnTile + kXColumnTile);
  /// The last m64 tile of a stage may read rows beyond it, whose sums are not stored.
  static constexpr int kPadding = 128 * (64 * kSubtiles * kWarpgroups - kOutputs);
  static constexpr int kPitch = kRows + 4;  // floats of a token's partial sums: stores without bank conflicts

  static_assert(kRows <= 256 && kOutputs % 8 == 0 && ceil_div(kOutputs, 64) % kWarpgroups == 0 &&
                kOut % 8 == 0);
  static_assert(kN % (8 * kClusterM) == 0 && kCluster <= 8);
  static_assert(kClusterK == 1 || !kArgmax);
  static_assert(!kAddRms || kOutputs % kSquaresGroup == 0);
  static_assert(kClusterK == 1 || 4 * kN * kPitch <= kStages * kStageBytes);

  struct Storage {
    unsigned char stages[kStages * kStageBytes + kPadding];
    Mbarrier full[kStages], empty[kStages];
  };
};

/// Issues all loads of a block. One thread.
template <class S>
struct WgmmaProducer {
  const TensorMap &weight_map, &x_map;
  typename S::Storage& shared;
  const unsigned long long weight_policy;
  StreamingSchedule<S> work;
  typename S::State state;

  __device__ __forceinline__ WgmmaProducer(const TensorMap& weight, const TensorMap& x,
                                           typename S::Storage& shared)
      : weight_map(weight),
        x_map(x),
        shared(shared),
        weight_policy(l2_evict_first_policy()),
        work(S::kTokens) {}

  /// Begins a stage and loads its weights.
  __device__ __forceinline__ void load_weights(int step) const {
    Mbarrier* const full = &shared.full[state.index];
    mbarrier_wait(&shared.empty[state.index], state.phase ^ 1);
    mbarrier_arrive_expect_tx(full, S::kStageBytes);
    const int column = work.column(step);
    unsigned char* to = shared.stages + state.index * S::kStageBytes;
#pragma unroll
    for (int i = 0; i < S::kColumnTiles; ++i)
#pragma unroll
      for (int matrix = 0; matrix < S::kMatrices; ++matrix, to += S::kOutputs * 128) {
        const int row = matrix * S::kOut + work.tile * S::kOutputs;
        if constexpr (S::kEvictFirst)
          tma_load_2d(to, weight_map, column + i * 64, row, full, weight_policy);
        else
          tma_load_2d(to, weight_map, column + i * 64, row, full);
      }
  }
  /// Loads this block's rows of x, and ends the stage.
  __device__ __forceinline__ void load_x(int step) {
    constexpr unsigned kMulticastMask = (1 << S::kClusterM) - 1;
    const int token = work.rank_m * (S::kN / S::kClusterM);
    Mbarrier* const full = &shared.full[state.index];
    unsigned char* const to = shared.stages + state.index * S::kStageBytes + S::kXOffset + token * 128;
#pragma unroll
    for (int i = 0; i < S::kColumnTiles; ++i) {
      const int column = work.column(step) + i * 64;
      if constexpr (S::kClusterM == 1)
        tma_load_2d(to + i * S::kXColumnTile, x_map, column, token, full);
      else
        tma_load_2d_multicast(to + i * S::kXColumnTile, x_map, column, token, full,
                              static_cast<unsigned short>(kMulticastMask << work.rank_k * S::kClusterM));
    }
    state.advance();
  }
  /// Weights of the first stages, which no kernel writes: before pdl_wait(), and before the barrier that
  /// makes the mbarriers visible to other threads.
  __device__ __forceinline__ void load_first_weights() {
    const auto first = state;
    for (int i = 0; i < first_steps(); ++i, state.advance()) load_weights(work.first_step + i);
    state = first;
  }
  /// The rest; calls `behind_x` once x of the first stages is on its way.
  template <class Call>
  __device__ __forceinline__ void load_rest(Call behind_x) {
    for (int i = 0; i < first_steps(); ++i) load_x(work.first_step + i);
    behind_x();
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
  __device__ __forceinline__ int first_steps() const {
    return min(S::kEarlyStages, work.end_step - work.first_step);
  }
};

/// The main loop of a consumer warpgroup.
template <class S>
struct WgmmaMainloop {
  /// Issues sum += weights . x^T of a stage.
  template <class Consumer>
  static __device__ __forceinline__ void issue(Consumer& c, bool accumulate) {
    const unsigned long long a = wgmma_descriptor_swizzle_128b(c.weights + c.state.index * S::kStageBytes),
                             b = wgmma_descriptor_swizzle_128b(c.x + c.state.index * S::kStageBytes);
    c.fence_sums();
    warpgroup_arrive();
#pragma unroll
    for (int k = 0; k < S::kTileK / 16; ++k)
#pragma unroll
      for (int matrix = 0; matrix < S::kMatrices; ++matrix)
#pragma unroll
        for (int m = 0; m < S::kSubtiles; ++m)
          wgmma<typename S::T, S::kN>(
              c.sum[matrix][m],
              wgmma_descriptor_advance(a, k / 4 * S::kWeightColumnTile + matrix * S::kOutputs * 128 +
                                              m * S::kWarpgroups * 64 * 128 + k % 4 * 32),
              wgmma_descriptor_advance(b, k / 4 * S::kXColumnTile + k % 4 * 32), accumulate || k > 0);
    warpgroup_commit_batch();
  }
  /// Issues all steps of a work tile; a stage is released once the step after it is issued. Returns the last
  /// stage, whose wgmma are in flight.
  template <class Consumer>
  static __device__ __forceinline__ int run(Consumer& c, const typename S::Args&) {
    int last = 0;
    for (int step = c.work.first_step; step < c.work.end_step; ++step) {
      mbarrier_wait(&c.shared.full[c.state.index], c.state.phase);
      issue(c, step > c.work.first_step);
      if (step > c.work.first_step) {
        warpgroup_wait<1>();
        c.release(last);
      }
      last = c.state.index;
      c.state.advance();
    }
    return last;
  }
};

template <class T, int kTokens, int kIn, int kOut, int kBias, int kPrologue, int kEpilogue, int kRows,
          int kTileK, int kStages, int kWarpgroups, int kClusterK, int kClusterM, int kEvictFirst,
          int kEarlyStages, int kPrefetch, int kLatePrefetch>
__global__ void __launch_bounds__(128 * kWarpgroups + (kPrologue == kPrologueRmsScale ? 128 : 0) + 32, 1)
    linear_wgmma_streaming(LinearArgsOf<kPrologue, kEpilogue, kPrefetch + kLatePrefetch> args,
                           const __grid_constant__ TensorMap weight, const __grid_constant__ TensorMap x) {
  using S = StreamingWgmma<T, kTokens, kIn, kOut, kBias, kPrologue, kEpilogue, kRows, kTileK, kStages,
                           kWarpgroups, kClusterK, kClusterM, kEvictFirst, kEarlyStages>;
  [[maybe_unused]] static constexpr int kSharedBytes =
      sizeof(typename S::Storage) + (S::kRmsScale ? 4 * S::kN : 0);
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<typename S::Storage*>(memory);
  const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
  const bool produces = threadIdx.x == S::kProducer;
  WgmmaProducer<S> producer(weight, x, shared);
  if (produces) {
    tma_prefetch_descriptor(weight);
    tma_prefetch_descriptor(x);
    for (int i = 0; i < kStages; ++i)
      mbarrier_init(&shared.full[i], 1), mbarrier_init(&shared.empty[i], 4 * kWarpgroups * kClusterM);
    mbarrier_init_fence();
    producer.load_first_weights();
  }
  __syncwarp();
  if constexpr (S::kCluster > 1)
    cluster_barrier();
  else
    __syncthreads();
  pdl_launch_dependents();
  if (produces) prefetch_next_weight<kPrefetch>(args);
  pdl_wait();
  if (S::kRmsScale && warpgroup == kWarpgroups) {
    if constexpr (S::kRmsScale) compute_scales<S>(args, scales_of<S>(shared));
    if constexpr (kClusterK > 1) cluster_barrier();
  } else if (warpgroup == S::kProducer / 128) {
    if (produces) producer.load_rest([&] { prefetch_next_weight<kLatePrefetch>(args); });
    __syncwarp();
    if constexpr (kClusterK > 1) cluster_barrier();
  } else {
    StreamingConsumer<S> consumer(shared, warpgroup, kTokens);
    if constexpr (kClusterK == 1) {
      consumer.run(args);
      if constexpr (S::kArgmax) write_ids<T, kOut, S::kConsumers>(args);
    } else {
      const auto make_epilogue = [&] {
        return StreamingSplitEpilogue<S>(args, consumer.work, reinterpret_cast<float*>(shared.stages),
                                         scales_of<S>(shared));
      };
      const auto residual = make_epilogue().load_residual();
      consumer.store_partial(args);
      const auto epilogue = make_epilogue();
      cluster_barrier();
      wait_scales<S>();
      epilogue.add_and_store(residual);
    }
  }
  // No block exits while another reads its partial sums or arrives at its barriers. An arrival completes
  // later than its instruction, so this barrier has release semantics.
  if constexpr (S::kCluster > 1) cluster_barrier();
}

}  // namespace warptune
