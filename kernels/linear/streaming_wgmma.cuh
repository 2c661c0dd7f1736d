#pragma once
// What the streaming wgmma GEMMs share (weight rows are the M operand of wgmma, tokens its N): the scales of
// tokens with the prologue rms_scale, the consumer warpgroups around their main loop, and the roles of a
// block.
#include "kernels/common/cluster.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/pipeline_state.cuh"
#include "kernels/common/tma.cuh"
#include "kernels/common/wgmma.cuh"
#include "kernels/linear/output_exchange.cuh"
#include "kernels/linear/split_k_reduction.cuh"
#include "kernels/linear/streaming_epilogue.cuh"

namespace warptune {

/// With the prologue rms_scale, 1 / RMS of the tokens [kN], after the Storage.
template <class S>
__device__ __forceinline__ float* scales_of(typename S::Storage& shared) {
  return reinterpret_cast<float*>(&shared + 1);
}
/// Computes the scales, from the sums of squares that the GEMM before has left.
/// The scale warps call; the consumers wait with wait_scales().
template <class S>
__device__ __forceinline__ void compute_scales(const typename S::Args& args, float* scales) {
  constexpr int kGroups = S::kIn / kSquaresGroup, kVec = vec_width<float>(kGroups), kVectors = kGroups / kVec;
  const int warp = threadIdx.x / 32 % S::kScaleWarps, lane = threadIdx.x % 32;
#pragma unroll 4
  for (int token = warp; token < S::kTokens; token += S::kScaleWarps) {
    float sum = 0;
    for (int i = lane; i < kVectors; i += 32) {
      const auto squares = load_vec<kVec>(args.squares + token * kGroups + i * kVec);
#pragma unroll
      for (int j = 0; j < kVec; ++j) sum += squares[j];
    }
    sum = warp_reduce<Sum>(sum);
    if (lane == 0) scales[token] = rsqrtf(sum / S::kIn + args.eps);
  }
  named_barrier_arrive(2, S::kConsumers + 32 * S::kScaleWarps);
}
template <class S>
__device__ __forceinline__ void wait_scales() {
  if constexpr (S::kRmsScale) named_barrier_sync(2, S::kConsumers + 32 * S::kScaleWarps);
}

/// What a block computes: work tiles, and steps of kTileK columns.
template <class S>
struct StreamingSchedule {
  int tile, rank_m, rank_k, first_step, end_step;

  __device__ __forceinline__ explicit StreamingSchedule(int /*tokens*/) {
    const int rank = blockIdx.x % S::kCluster;
    rank_m = rank % S::kClusterM;
    rank_k = rank / S::kClusterM;
    tile = static_cast<int>(blockIdx.x) / S::kCluster * S::kClusterM + rank_m;
    first_step = S::kSteps * rank_k / S::kClusterK;
    end_step = S::kSteps * (rank_k + 1) / S::kClusterK;
  }
  /// The first column of a step. Adjacent work tiles (of clusters that share x) start kStartStride steps
  /// apart and wrap around. All rows have the same pitch, and reading the same columns on all SMs at a time
  /// is 1 to 3 % slower (docs/lessons/linear.md).
  __device__ __forceinline__ int column(int step) const {
    constexpr int kStartStride = 21;
    step += tile / S::kClusterM * kStartStride % (S::kSteps / S::kClusterK);
    return (step < end_step ? step : step - (end_step - first_step)) * S::kTileK;
  }
  /// Whether a block of the cluster has work: then all of them take part, as they share x.
  __device__ __forceinline__ bool has_work() const { return tile - rank_m < kRowTiles; }
  __device__ __forceinline__ void advance() {
    tile += static_cast<int>(gridDim.x) / S::kCluster * S::kClusterM;
  }
  /// The first token of the work tiles.
  static constexpr __device__ __forceinline__ int first_token() { return 0; }

  static constexpr int kRowTiles = ceil_div(S::kOut, S::kOutputs);
};

/// A consumer warpgroup: m64 tiles `index`, index + kWarpgroupsM and so on of each work tile, and of each of
/// kSumMatrices matrices with m64 tiles of their own. kWarpgroupsK warpgroups share an m64 tile and split its
/// columns.
template <class S>
struct StreamingConsumer {
  typename S::Storage& shared;
  const int index, lane;
  const unsigned weights, x;
  typename S::Schedule work;
  typename S::State state;
  float sum[S::kSumMatrices][S::kSubtiles][S::kN / 2];

  __device__ __forceinline__ StreamingConsumer(typename S::Storage& shared, int warpgroup, int tokens)
      : shared(shared),
        index(S::kWarpgroupsK == 1 ? warpgroup : warpgroup % S::kWarpgroupsM),
        lane(threadIdx.x % 32),
        weights(shared_address(shared.stages) + index * 64 * 128),
        x(shared_address(shared.stages) + S::kXOffset),
        work(tokens) {}

  /// The part of the columns that this warpgroup has.
  static __device__ __forceinline__ int rank_k() {
    if constexpr (S::kWarpgroupsK == 1) return 0;
    return __shfl_sync(~0u, threadIdx.x / 128, 0) / S::kWarpgroupsM;
  }
  __device__ __forceinline__ unsigned char* stage(int number) const {
    return shared.stages + number * S::kStageBytes;
  }
  __device__ __forceinline__ void release(int stage) const {
    __syncwarp();
    if constexpr (S::kClusterM == 1) {
      if (lane == 0) mbarrier_arrive(&shared.empty[stage]);
    } else {
      if (lane < S::kClusterM)
        mbarrier_arrive_remote(&shared.empty[stage], work.rank_k * S::kClusterM + lane);
    }
  }
  __device__ __forceinline__ void wait_sums() {
    warpgroup_wait<0>();
    fence_sums();
  }
  __device__ __forceinline__ void fence_sums() {
#pragma unroll
    for (int matrix = 0; matrix < S::kSumMatrices; ++matrix)
#pragma unroll
      for (int m = 0; m < S::kSubtiles; ++m) warpgroup_fence_operand(sum[matrix][m]);
  }
  /// The first of this warp's outputs of subtile m, within the work tile: a quarter of those of an m64 tile.
  __device__ __forceinline__ int first_output(int m) const {
    return (index + m * S::kWarpgroupsM) * S::kTileOutputs +
           static_cast<int>(threadIdx.x) % 128 / 32 * (S::kTileOutputs / 4);
  }

  __device__ __forceinline__ StreamingEpilogue<S> epilogue_of(const typename S::Args& args) const {
    if constexpr (S::kTokens == 0)
      return {args, nullptr, work.tile * S::kOutputs, lane, work.first_token(), args.tokens};
    else
      return {args, scales_of<S>(shared), work.tile * S::kOutputs, lane};
  }
  /// All work tiles, where K is not split.
  __device__ __forceinline__ void run(const typename S::Args& args) {
    StreamingKeys<S> keys;
    for (bool is_first = true; work.has_work(); is_first = false, work.advance()) {
      StreamingResidual<S> residual;
      // After the main loop the latency of the residual would end the kernel.
      residual.load(epilogue_of(args), first_output(0));
      const int last = S::Mainloop::run(*this, args);
      const StreamingEpilogue<S> epilogue = epilogue_of(args);
      wait_sums();
      if constexpr (!S::kExchangesOutputs) release(last);
      if (is_first) wait_scales<S>();
#pragma unroll
      for (int m = 0; m < S::kSubtiles; ++m) {
        if (m > 0) residual.load(epilogue, first_output(m));
        if constexpr (S::kExchangesOutputs)
          OutputExchange<S>(epilogue, index, 0).store(sum[0][m], residual, m, stage(last));
        else
          epilogue.store(sum[0][m], sum[S::kSumMatrices - 1][m], residual, keys, first_output(m));
      }
      if constexpr (S::kExchangesOutputs) release(last);
    }
    if constexpr (S::kArgmax) {
      named_barrier_sync(1, S::kConsumers);  // all wgmma of the block have read their stages
      keys.write(args, shared.stages, lane);
    }
  }
  /// The block's only work tile, with split K (split_k_reduction.cuh).
  __device__ __forceinline__ void run_split(const typename S::Args& args,
                                            typename SplitKReduction<S>::ReceiveBuffer& buffer) {
    using Reduction = SplitKReduction<S>;
    using Owned = OwnedTokens<S>;
    const int split = work.rank_k * S::kWarpgroupsK + rank_k(), first_token = split * Owned::kN;
    const bool is_owner = split < Reduction::kOwners;
    const StreamingEpilogue<Owned> epilogue{args, scales_of<S>(shared) + first_token, work.tile * S::kOutputs,
                                            lane, first_token};
    OutputExchange<Owned> exchange(epilogue, index, rank_k());
    StreamingResidual<Owned> residual;
    const auto load = [&](int m) {
      residual.load(epilogue, first_output(m));
      exchange.load(m);
    };
    if (is_owner) load(0);
    const int last = S::Mainloop::run(*this, args);
    wait_sums();
    Reduction::send(sum, buffer, split, index, work.rank_m);
    wait_scales<S>();
    if (!is_owner) return;
    typename Reduction::OwnSums total;
    Reduction::receive(total, sum, buffer, split);
#pragma unroll
    for (int m = 0; m < S::kSubtiles; ++m) {
      if (m > 0) load(m);
      exchange.store(total[0][m], residual, m, stage(last));
    }
  }
  /// Partial sums of the block's only work tile, to the memory of the stages: [token][row].
  __device__ __forceinline__ void store_partial(const typename S::Args& args) {
    S::Mainloop::run(*this, args);
    wait_sums();
    named_barrier_sync(1, S::kConsumers);  // all wgmma of the block have read their stages
    float* const partial = reinterpret_cast<float*>(shared.stages);
#pragma unroll
    for (int m = 0; m < S::kSubtiles; ++m) {
      const int output = first_output(m) + lane / 4;
#pragma unroll
      for (int i = 0; i < S::kN / 2; ++i) {
        const int row = output + i / 2 % 2 * 8, token = i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (row < S::kOutputs) {
#pragma unroll
          for (int matrix = 0; matrix < S::kSumMatrices; ++matrix)
            partial[token * S::kPitch + matrix * S::kOutputs + row] = sum[matrix][m][i];
        }
      }
    }
  }
};

}  // namespace warptune
