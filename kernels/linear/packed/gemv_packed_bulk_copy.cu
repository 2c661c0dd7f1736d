// GEMV on quantized weights (packed_weights.h) for 1 to 16 tokens, with a deep pipeline of bulk copies
// (sm_90) that goes on while a block waits for x. Products: packed_dot.cuh and
// packed_digits.cuh.
// Grid: persistent blocks. A cluster of kClusterK blocks, each with its part of K and so of x, computes a
//   share of the work tiles of kTiles tiles of 16 rows.
// Roles: the producer, a thread of the last warp, loads stages of kWarps blocks of weights of each row, with
//   their scales, by TMA (a copy per slot would delay the first stages: a thread issues one in about 80
//   cycles), and zero points; each of kWarps consumer warps multiplies one block of each stage, so that they
//   split K, and loads the x that it multiplies.
// PDL: the producer does not wait for the dependency. Few copies are in flight until it has filled all
//   stages: an SM's loads are served in order, and x comes after them. It prefetches some of the next GEMM's
//   weights to the L2 when the stages are filled (o and down), or when its own loads are issued, so that
//   memory is busy until the next kernel.
// Sync: full and empty mbarrier per stage; one barrier of the consumers per work tile, when they have stored
//   their sums in one of two buffers.
// Combine: block 0 of a cluster gets the sums of the others asynchronously (st.async) and stores the outputs
//   of kBatchTiles work tiles at once, so that no tile waits for another block.
// `in` is a multiple of the columns of a block of weights.
#include "kernels/common/cluster.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/pipeline_state.cuh"
#include "kernels/common/tma.cuh"
#include "kernels/linear/packed/packed_gemv_mainloop.cuh"

namespace warptune {

inline constexpr int kBatchTiles = 4;

/// The sums of a batch of work tiles of each block of the cluster, in the shared memory of block 0.
template <class S, int kClusterK = S::kClusterK>
struct ClusterSums {
  ResultSums<S> sums[kClusterK][kBatchTiles][S::kResults];
  Mbarrier sums_full, sums_empty;  // block 0 waits for the first, the others for the second
};
template <class S>
struct ClusterSums<S, 1> {};

/// The shared memory of a block. A stage has the part of 2 * kTiles slots of eight rows.
template <class S, int kStages_, int kBlocksPerSm>
struct PackedStages {
  static constexpr int kStages = kStages_;
  /// A stage has kWarps blocks of each slot. Groups of two blocks have one scale.
  static constexpr int kSlotGroups = S::kStageScales ? S::kWarps * S::kColumns / S::kGroup : 0,
                       kSlotBytes = S::kWarps * kBlockBytes,
                       kGroupScaleBytes =
                           S::kStageScales ? slot_scale_bytes(S::kWeights, S::kGroup, S::kGroup) : 0,
                       kScaleBytes = kSlotGroups * kGroupScaleBytes,
                       kZeroBytes = S::kZeros ? kSlotGroups * kBlockRows : 0;
  static constexpr int kMatrices = S::kSwiglu ? 2 : 1, kMatrixSlots = 2 * S::kTiles / kMatrices;
  /// A TMA box of scales has 512 bytes of a slot at most; of Q4_K and Q6_K one or two super-blocks.
  static constexpr int kChunks = max_of(ceil_div(kScaleBytes, has_super_blocks(S::kWeights) ? 320 : 512), 1),
                       kChunkWarps = S::kWarps / kChunks, kChunkBytes = kScaleBytes / kChunks;
  struct alignas(128) ScaleChunk {
    unsigned char slots[kMatrixSlots][max_of(kChunkBytes, 16)];
  };
  struct Stage {
    alignas(128) unsigned char weights[2 * S::kTiles][kSlotBytes];
    ScaleChunk scales[kMatrices][kChunks];
    signed char zeros[2 * S::kTiles][max_of(kZeroBytes, 16)];
  };
  /// Where a stage has half `half` of a tile: with SwiGLU all gates, then all ups.
  static constexpr __device__ __forceinline__ int slot(int tile, int half) {
    return S::kSwiglu ? half * S::kTiles + tile : 2 * tile + half;
  }
  /// Stages in flight until each has been filled once: 48 KB per SM keep memory busy.
  static constexpr int kBytesInFlight = 48 * 1024 / kBlocksPerSm, kStageBytes = sizeof(Stage),
                       kStagesInFlight = ceil_div(kBytesInFlight, kStageBytes);
  struct Storage : ClusterSums<S> {
    Stage stages[kStages];
    typename WarpActivations<S>::Shared x;
    PackedPartials<S> partials[2];
    Mbarrier full[kStages], empty[kStages];
  };
  static_assert(S::kGroup == 0 || S::kWarps * S::kColumns % S::kGroup == 0);
  static_assert(!S::kZeros || (S::kGroup != 0 && S::kIn / S::kGroup % 2 == 0 && kSlotGroups % 2 == 0));
};

/// One thread: fills the stages. What a tensor map has beyond the last row or column is zeros.
template <class S, class P>
class PackedProducer {
 public:
  __device__ __forceinline__ PackedProducer(const QuantizedLinearArgs& args, const TensorMap& weight,
                                            const TensorMap& scales, typename P::Storage& shared)
      : args_(args), weight_map_(weight), scale_map_(scales), shared_(shared) {}

  /// Fills each stage once.
  __device__ __forceinline__ void fill() {
    for (; loaded_ < min_of(P::kStages, total_); ++loaded_) {
      if (loaded_ >= P::kStagesInFlight) mbarrier_wait(&shared_.full[loaded_ - P::kStagesInFlight], 0);
      load_stage();
    }
  }
  /// Fills the stages again as the consumers release them.
  __device__ __forceinline__ void refill() {
    for (; loaded_ < total_; ++loaded_) {
      mbarrier_wait(&shared_.empty[stage_], loaded_ / P::kStages % 2 ^ 1);
      fence_proxy_async();  // after the consumers' reads
      load_stage();
    }
  }

 private:
  __device__ __forceinline__ void load_stage() {
    const int tile = work_.tile(number_);
    typename P::Stage& stage = shared_.stages[stage_];
    Mbarrier* const full = &shared_.full[stage_];
    const int blocks = min_of(S::kWarps, S::kBlocks - step_ * S::kWarps);
    const int block = work_.rank * S::kBlocks + step_ * S::kWarps;
    const int group = block * S::kColumns / max_of(S::kGroup, 1);
    const int zero_bytes = S::kZeros ? blocks * S::kColumns / max_of(S::kGroup, 1) * kBlockRows : 0;
    mbarrier_arrive_expect_tx(full, 2 * S::kTiles * (P::kSlotBytes + P::kScaleBytes + zero_bytes));
#pragma unroll
    for (int matrix = 0; matrix < P::kMatrices; ++matrix) {
      const int slot = matrix * (S::kSlots / 2) + tile * P::kMatrixSlots;
      tma_load_3d(stage.weights[matrix * P::kMatrixSlots], weight_map_, 0, block, slot, full, policy_);
      if constexpr (S::kStageScales)
#pragma unroll
        for (int chunk = 0; chunk < P::kChunks; ++chunk)
          tma_load_2d(stage.scales[matrix][chunk].slots, scale_map_,
                      (group * P::kGroupScaleBytes + chunk * P::kChunkBytes) / 2, slot, full, policy_);
    }
    if constexpr (S::kZeros)
#pragma unroll
      for (int i = 0; i < 2 * S::kTiles; ++i)
        bulk_copy_evict_first(
            stage.zeros[P::slot(i / 2, i % 2)],
            args_.zeros +
                (S::slot(tile * S::kTiles + i / 2, i % 2) * (S::kIn / S::kGroup) + group) * kBlockRows,
            zero_bytes, full);
    if (++step_ == PackedWork<S>::kSteps) {
      step_ = 0;
      ++number_;
    }
    if (++stage_ == P::kStages) stage_ = 0;
  }

  const QuantizedLinearArgs& args_;
  const TensorMap &weight_map_, &scale_map_;
  typename P::Storage& shared_;
  const PackedWork<S> work_;
  const unsigned long long policy_ = l2_evict_first_policy();
  const int total_ = work_.count * PackedWork<S>::kSteps;
  int loaded_ = 0, number_ = 0, step_ = 0, stage_ = 0;
};

/// The stages as a consumer warp sees them.
template <class S, class P>
class StageReader {
 public:
  __device__ __forceinline__ StageReader(typename P::Storage& shared, const QuantizedLinearArgs& args,
                                         const PackedWork<S>& work)
      : shared_(shared), warp_scales_(args, work) {}

  __device__ __forceinline__ void wait() { mbarrier_wait(&shared_.full[state_.index], state_.phase); }
  /// Reads this lane's part.
  __device__ __forceinline__ void read(PackedBlock<S> (&weights)[S::kTiles][2]) const {
    const typename P::Stage& stage = shared_.stages[state_.index];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < 2 * S::kTiles; ++i) {
      PackedBlock<S>& to = weights[i / 2][i % 2];
      const int slot = P::slot(i / 2, i % 2);
      to.bytes = *reinterpret_cast<const uint4*>(stage.weights[slot] + warp * kBlockBytes + lane * 16);
      if constexpr (S::kWarpScales) to.scales.values[0] = warp_scales_.get(i / 2, i % 2);
      if constexpr (S::kStageScales)
        read_scales(to,
                    stage.scales[slot / P::kMatrixSlots][warp / P::kChunkWarps].slots[slot % P::kMatrixSlots],
                    warp % P::kChunkWarps * S::kColumns);
      if constexpr (S::kZeros) read_zeros(to, stage.zeros[slot], warp * S::kColumns);
    }
  }
  __device__ __forceinline__ void release() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(&shared_.empty[state_.index]);
    state_.advance();
    warp_scales_.advance();
  }

 private:
  typename P::Storage& shared_;
  PipelineState<P::kStages> state_;
  WarpScales<S> warp_scales_;
};

/// Adds the sums of the blocks of a cluster. A consumer thread.
template <class S>
class ClusterCombine {
 public:
  __device__ __forceinline__ ClusterCombine(ClusterSums<S>& shared, const PackedWork<S>& work)
      : shared_(shared), work_(work) {}

  /// Gives block 0 the sums of result i of work tile `n`.
  __device__ __forceinline__ void give(int n, int i, const ResultSums<S>& sums) {
    ResultSums<S>& to = shared_.sums[work_.rank][n % kBatchTiles][i];
    if (work_.rank == 0)
      to = sums;
    else
      cluster_store_async(sums, &to, &shared_.sums_full, 0);
  }
  /// After work tile `n`. Block 0 stores the outputs of a whole batch, and the last ones.
  __device__ __forceinline__ void end_tile(const QuantizedLinearArgs& args, int n) {
    const int tiles = n % kBatchTiles + 1;
    const bool is_last = n + 1 == work_.count;
    if (tiles < kBatchTiles && !is_last) return;
    if (work_.rank == 0) {
      if (threadIdx.x == 0)
        mbarrier_arrive_expect_tx(&shared_.sums_full, (S::kClusterK - 1) * tiles * S::kResults *
                                                          static_cast<int>(sizeof(ResultSums<S>)));
      store(args, n + 1 - tiles, tiles);
    }
    if (!is_last) {  // block 0 has read the batch
      if (work_.rank == 0) {
        named_barrier_sync(1, S::kThreads);
        if (threadIdx.x > 0 && threadIdx.x < S::kClusterK)
          mbarrier_arrive_cluster(&shared_.sums_empty, threadIdx.x);
      } else {
        mbarrier_wait_cluster(&shared_.sums_empty, phase_);
      }
    }
    phase_ ^= 1;
  }

 private:
  __device__ __forceinline__ void store(const QuantizedLinearArgs& args, int first, int tiles) {
    named_barrier_sync(1, S::kThreads);  // this block's sums
    bool is_waited = false;
    for (int i = threadIdx.x; i < tiles * S::kResults; i += S::kThreads) {
      const int tile = i / S::kResults, result = i % S::kResults;
      const PackedOutput<S> output(args, work_.tile(first + tile) * S::kOutputs, result);
      if (!is_waited) mbarrier_wait_cluster(&shared_.sums_full, phase_);
      is_waited = true;
      ResultSums<S> sums = shared_.sums[0][tile][result];
#pragma unroll
      for (int block = 1; block < S::kClusterK; ++block)
#pragma unroll
        for (int r = 0; r < S::kResultRows; ++r) sums[r] += shared_.sums[block][tile][result][r];
      if (output.is_valid) output.store(args, sums, S::kSumScale);
    }
  }

  ClusterSums<S>& shared_;
  const PackedWork<S>& work_;
  unsigned phase_ = 0;
};

/// A consumer warp.
template <class S, class P>
__device__ __forceinline__ void consume(const QuantizedLinearArgs& args, const PackedWork<S>& work,
                                        typename P::Storage& shared, WarpActivations<S>& x) {
  StageReader<S, P> pipeline(shared, args, work);
  if constexpr (S::kClusterK == 1) {
    multiply_tiles<S>(args, work, shared.partials, x, pipeline);
  } else {
    ClusterCombine<S> combine(shared, work);
    for (int n = 0; n < work.count; ++n) {
      multiply_tile(shared.partials, x, pipeline, n);
      for (int i = first_result<S>(n); i < S::kResults; i += S::kThreads)
        combine.give(n, i, add_partials<S>(shared.partials[n % 2], i));
      combine.end_tile(args, n);
    }
  }
}

template <class T, int kTokens, int kIn, int kOut, int kBias, int kPrologue, int kEpilogue, int kWeights,
          int kGroup, int kZeros, int kActOrder, int kBlocksPerSm, int kWarps, int kTiles, int kStages,
          int kClusterK, int kPrefetch, int kTailPrefetch>
__global__ void __launch_bounds__(kWarps * 32 + 32, kBlocksPerSm)
    linear_gemv_packed_bulk_copy(QuantizedLinearArgs args, const __grid_constant__ TensorMap weight,
                                 const __grid_constant__ TensorMap scales) {
  using S = PackedGemv<T, kTokens, kIn, kOut, kBias, kPrologue, kEpilogue, kWeights, kGroup, kZeros,
                       kActOrder, kWarps, kTiles, kClusterK>;
  using P = PackedStages<S, kStages, kBlocksPerSm>;
  using Keys = BlockKeys<T, kOut, kEpilogue, kTokens>;
  constexpr int kAllThreads = S::kThreads + 32;
  [[maybe_unused]] static constexpr int kSharedBytes = sizeof(typename P::Storage);
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<typename P::Storage*>(memory);
  const bool is_producer = threadIdx.x == S::kThreads;
  if (is_producer) {
    tma_prefetch_descriptor(weight);
    if constexpr (S::kStageScales) tma_prefetch_descriptor(scales);
    for (int s = 0; s < kStages; ++s) {
      mbarrier_init(&shared.full[s]);
      mbarrier_init(&shared.empty[s], kWarps);
    }
    if constexpr (kClusterK > 1) mbarrier_init(&shared.sums_full), mbarrier_init(&shared.sums_empty);
    mbarrier_init_fence();
  }
  Keys::clear();
  if constexpr (kClusterK > 1)
    cluster_barrier();
  else
    __syncthreads();
  if (threadIdx.x >= S::kThreads) {
    PackedProducer<S, P> producer(args, weight, scales, shared);
    pdl_launch_dependents();
    if (is_producer) {
      producer.fill();
      prefetch_next_weight<kPrefetch>(args);
      producer.refill();
      prefetch_next_weight<kTailPrefetch>(args);
    }
    __syncwarp();
    pdl_wait();
  } else {
    WarpActivations<S> x(shared.x, args, threadIdx.x / 32, S::kBlocks, S::kWarps);
    const PackedWork<S> work;  // its division must not follow the loads of x
    pdl_launch_dependents();
    pdl_wait();
    x.load(work.rank * S::kPartIn, [] {});
    consume<S, P>(args, work, shared, x);
  }
  Keys::template write<kAllThreads>(args);
}

}  // namespace warptune
