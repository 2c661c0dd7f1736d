#pragma once
// The end of a group of the streaming tensor-core GEMM (streaming_mma.cuh): the sums of the warps and blocks
// that split K are added in a fixed order, then come the scale of RMSNorm, bias, residual, the squares for
// the next norm, SwiGLU, argmax.
#include "kernels/linear/skinny_gemm.cuh"

namespace warptune {

/// Writes the sums of a warp to shared memory: D as [token][row of the group].
template <class S>
__device__ __forceinline__ void store_partial(const SkinnyShared<S>& shared, const SkinnySums<S>& sums,
                                              int warp_m, int warp_k, int lane) {
  float* const to = shared.partial() + warp_k * S::kPartial + lane % 4 * 2 * S::kPitch +
                    warp_m * (16 * S::kRowTiles) + lane / 4;
#pragma unroll
  for (int m = 0; m < S::kRowTiles; ++m)
#pragma unroll
    for (int n = 0; n < S::kTokenTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) to[(n * 8 + i % 2) * S::kPitch + m * 16 + i / 2 * 8] = sums.d[m][n][i];
}
template <class S>
__device__ __forceinline__ void store_squares(const SkinnyShared<S>& shared, const SkinnySums<S>& sums,
                                              int warp_k, int lane) {
#pragma unroll
  for (int n = 0; n < S::kTokenTiles; ++n) {
    const float squares = warp_reduce<Sum, 4>(sums.squares[n]);
    if (lane % 4 == 0) shared.squares()[warp_k * S::kPaddedTokens + n * 8 + lane / 4] = squares;
  }
}

/// Adds, in place, the partial results of the warps that split K; `of_warp` elements lie between two warps.
template <class S>
__device__ __forceinline__ void add_warps(float* partial, int of_warp, int count) {
  for (int i = threadIdx.x; i < count; i += S::kThreads) {
    float sum = partial[i];
#pragma unroll
    for (int w = 1; w < S::kWarpsK; ++w) sum += partial[w * of_warp + i];
    partial[i] = sum;
  }
}

/// Adds the partial sums of the blocks that split K: each writes its own to the workspace, and the last one
/// to do so adds all of them in the order of the blocks, in shared memory. Whether this block is the last.
/// Workspace: unsigned counters[ranges][groups], then from byte kPartialOffset
///   float partial[ranges][groups][kSplits][kTokens][kPitch].
template <class S, int kPartialOffset>
__device__ __forceinline__ bool add_blocks(const typename S::Args& args, const SkinnyShared<S>& shared,
                                           int group) {
  constexpr int kVectors = S::kTokens * S::kPitch / 4;
  const int ranges = static_cast<int>(gridDim.x) / S::kSplits,
            tile = static_cast<int>(blockIdx.x) / S::kSplits *
                       ceil_div(ceil_div(S::kOut, ranges), S::kGroupOutputs) +
                   group;
  auto* const own = reinterpret_cast<float4*>(shared.partial());
  auto* const all = reinterpret_cast<float4*>(static_cast<unsigned char*>(args.workspace) + kPartialOffset) +
                    static_cast<long long>(tile) * S::kSplits * kVectors;
  const auto add = [](float4& sum, const float4& v) {
    sum = {sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w};
  };
  for (int i = threadIdx.x; i < kVectors; i += S::kThreads) {
    float4 sum = own[i];
#pragma unroll
    for (int w = 1; w < S::kWarpsK; ++w) add(sum, own[w * (S::kPartial / 4) + i]);
    __stcg(all + SkinnyWork<S>::rank_in_range() * kVectors + i, sum);
  }
  if (!is_last_block<S::kThreads>(static_cast<unsigned*>(args.workspace) + tile, S::kSplits)) return false;
  for (int i = threadIdx.x; i < kVectors; i += S::kThreads) {
    float4 sum = __ldcg(all + i);
#pragma unroll
    for (int block = 1; block < S::kSplits; ++block) add(sum, __ldcg(all + block * kVectors + i));
    own[i] = sum;
  }
  named_barrier_sync(1, S::kThreads);
  return true;
}

/// The sum of one partial result over the warps that split K, or over the cluster after add_warps(). After
/// add_blocks() it is the sum of all.
template <class S>
__device__ __forceinline__ float sum_partial(const float* partial, int of_warp) {
  constexpr int kCount = S::kSplits > 1 ? 1 : S::kCluster > 1 ? S::kCluster : S::kWarpsK;
  float parts[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    if constexpr (S::kCluster > 1)
      parts[i] = cluster_load(partial, i);
    else
      parts[i] = partial[i * of_warp];
#pragma unroll
  for (int i = 1; i < kCount; ++i) parts[0] += parts[i];
  return parts[0];
}

/// Arrives at the barrier of every block of the cluster, once per warp.
template <class S>
__device__ __forceinline__ void arrive_in_cluster(Mbarrier* barrier, int lane) {
  __syncwarp();
  if (lane < S::kCluster) mbarrier_arrive_cluster(barrier, lane);
}

/// The scale of RMSNorm of every token, from the squares.
template <class S>
__device__ __forceinline__ void compute_scales(const typename S::Args& args, const SkinnyShared<S>& shared) {
  if constexpr (S::kAddsSquares) {
    for (int t = threadIdx.x; t < S::kTokens; t += S::kThreads)
      shared.scale()[t] = rsqrtf(sum_partial<S>(shared.squares() + t, S::kPaddedTokens) / S::kIn + args.eps);
    named_barrier_sync(1, S::kThreads);
  }
}

/// Epilogue of a group whose K is not split: a warp stores its fragments.
template <class S>
__device__ __forceinline__ void store_fragments(const typename S::Args& args, const SkinnyShared<S>& shared,
                                                const SkinnySums<S>& sums, int first, int outputs, int warp_m,
                                                int lane) {
#pragma unroll
  for (int n = 0; n < S::kTokenTiles; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int token = n * 8 + lane % 4 * 2 + i;
      if (S::kTokens % 8 != 0 && token >= S::kTokens) continue;
      const float scale = S::kScalesSums ? shared.scale()[token] : 1;
      [[maybe_unused]] typename S::Key::Word key = 0;
#pragma unroll
      for (int m = 0; m < S::kRowTiles; ++m)
#pragma unroll
        for (int half = 0; half < 2 / S::kSlotsOfUnit; ++half) {
          const int output = ((warp_m * S::kRowTiles + m) * (2 / S::kSlotsOfUnit) + half) * 8 + lane / 4;
          float y = scale * sums.d[m][n][i + 2 * half];
          if constexpr (S::kSwiglu) y = silu(y) * (scale * sums.d[m][n][i + 2]);
          if (output < outputs) {
            const auto rounded = store_output<typename S::T, S::kOut, S::kBias, S::kEpilogue>(
                args, token, first + output, y,
                load_residual<typename S::T, S::kOut, S::kEpilogue>(args, token, first + output));
            if constexpr (S::kArgmax) key = max_key(key, S::Key::make(rounded, first + output));
          }
        }
      if constexpr (S::kArgmax) put_largest_key<4, 32>(args, token, key, 0x11111111u << lane % 4);
    }
}

/// Whether a thread stores four outputs at once: where ranges begin at slots of eight outputs.
template <class S>
inline constexpr bool kStoresVectors = (S::Slots::kPacked || S::kAddRms) && !S::kArgmax && S::kOut % 4 == 0;

/// The outputs of a thread, in vectors of four. load() requests the residuals, and with add_rms the weights
/// of the next norm, before the sums are there: a load per vector in store() would cost its latency each
/// time.
template <class S>
class VectorOutputs {
 public:
  __device__ __forceinline__ void load(const typename S::Args& args, int first, int outputs) {
    if constexpr (kHasResidual)
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        if (!is_valid(j, outputs)) continue;
        residual_[j] = load_vec<kVec>(static_cast<const T*>(args.residual) + index(j, first));
        if constexpr (S::kAddRms)
          norm_weight_[j] = load_vec<kVec>(static_cast<const T*>(args.norm_weight) + first + output(j));
      }
  }
  /// Adds the partial sums of the warps that split K, scales, and stores.
  __device__ __forceinline__ void store(const typename S::Args& args, const SkinnyShared<S>& shared,
                                        int first, int outputs) const {
    // Residuals in registers need constant indices. Without them an unrolled loop only takes more registers.
#pragma unroll(kHasResidual ? kCount : 1)
    for (int j = 0; j < kCount; ++j) {
      if (!is_valid(j, outputs)) continue;
      const int output = this->output(j);
      const float scale = S::kScalesSums ? shared.scale()[token(j)] : 1;
      const int row = S::kSwiglu ? output / 8 * 16 + output % 8 : output;
      const float* const at = shared.partial() + token(j) * S::kPitch + row;
      auto y = sum(at);
#pragma unroll
      for (int i = 0; i < kVec; ++i) y[i] *= scale;
      if constexpr (S::kSwiglu) {
        const auto up = sum(at + 8);
#pragma unroll
        for (int i = 0; i < kVec; ++i) y[i] = silu(y[i]) * (scale * up[i]);
      }
      const auto rounded = store_outputs<T, S::kOut, S::kBias, S::kEpilogue>(
          args, token(j), first + output, y, residual_[kHasResidual ? j : 0]);
      if constexpr (S::kAddRms) store_scaled(args, rounded, norm_weight_[j], index(j, first));
    }
  }

 private:
  using T = typename S::T;
  static constexpr bool kHasResidual = kAddsResidual<S::kEpilogue>;
  static constexpr int kVec = 4, kVectors = S::kGroupOutputs / kVec,  // per token
      kCount = ceil_div(S::kTokens * kVectors, S::kThreads);

  static __device__ __forceinline__ int vector(int j) {
    return static_cast<int>(threadIdx.x) + j * S::kThreads;
  }
  static __device__ __forceinline__ int token(int j) { return vector(j) / kVectors; }
  static __device__ __forceinline__ int output(int j) { return vector(j) % kVectors * kVec; }
  static __device__ __forceinline__ bool is_valid(int j, int outputs) {
    return vector(j) < S::kTokens * kVectors && output(j) < outputs;
  }
  static __device__ __forceinline__ long long index(int j, int first) {
    return static_cast<long long>(token(j)) * S::kOut + first + output(j);
  }
  static __device__ __forceinline__ Vec<float, kVec> sum(const float* partial) {
    constexpr int kParts = S::kSplits > 1 ? 1 : S::kWarpsK;
    auto total = load_vec<kVec>(partial);
#pragma unroll
    for (int warp = 1; warp < kParts; ++warp) {
      const auto part = load_vec<kVec>(partial + warp * S::kPartial);
#pragma unroll
      for (int i = 0; i < kVec; ++i) total[i] += part[i];
    }
    return total;
  }
  /// Epilogue add_rms, for rounded outputs from index `at` of all: y times the weight of the next norm and,
  /// with the three lanes beside it, the sum of the squares of kSquaresGroup outputs.
  static __device__ __forceinline__ void store_scaled(const typename S::Args& args, const Vec<T, kVec>& y,
                                                      const Vec<T, kVec>& norm_weight, long long at) {
    static_assert(kSquaresGroup == 4 * kVec);
    auto v = to_float(y);
    const auto weight = to_float(norm_weight);
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      squares = fmaf(v[i], v[i], squares);
      v[i] *= weight[i];
    }
    const unsigned lanes = 0xfu << (threadIdx.x & 28);
#pragma unroll
    for (int offset = 1; offset < 4; offset *= 2) squares += __shfl_xor_sync(lanes, squares, offset);
    store_vec<kVec>(static_cast<T*>(args.scaled) + at, from_float<T>(v));
    if (at % kSquaresGroup == 0) args.squares_out[at / kSquaresGroup] = squares;
  }

  Vec<T, kVec> residual_[kHasResidual ? kCount : 1], norm_weight_[S::kAddRms ? kCount : 1];
};

/// Epilogue of a group whose sums lie in shared memory: adds the partial sums, scales, and stores `outputs`
/// outputs from `first` on. The blocks of a cluster share them; of kSplits blocks the last stores all.
template <class S, int kPartialOffset>
__device__ __forceinline__ void store_group(const typename S::Args& args, const SkinnyShared<S>& shared,
                                            int group, int first, int outputs, bool last, int lane) {
  const float* const partial = shared.partial();
  [[maybe_unused]] VectorOutputs<S> vectors;
  if constexpr (kStoresVectors<S>) vectors.load(args, first, outputs);
  named_barrier_sync(1, S::kThreads);
  if constexpr (S::kCluster > 1) {
    if constexpr (S::kWarpsK > 1) {
      add_warps<S>(shared.partial(), S::kPartial, S::kTokens * S::kPitch);
      if (S::kAddsSquares && group == 0) add_warps<S>(shared.squares(), S::kPaddedTokens, S::kTokens);
    }
    arrive_in_cluster<S>(shared.partial_full(), lane);
    mbarrier_wait_cluster(shared.partial_full(), group % 2);
  }
  if constexpr (S::kSplits > 1)
    if (!add_blocks<S, kPartialOffset>(args, shared, group)) return;
  if (S::kAddsSquares && group == 0) compute_scales<S>(args, shared);
  if constexpr (kStoresVectors<S>) return vectors.store(args, shared, first, outputs);
  const int rank = S::kCluster > 1 ? SkinnyWork<S>::rank_in_range() : 0;
#pragma unroll 2
  for (int i = rank * S::kThreads + threadIdx.x; i < S::kTokens * S::kGroupOutputs;
       i += S::kCluster * S::kThreads) {
    const int token = i / S::kGroupOutputs, output = i % S::kGroupOutputs;
    if (!S::kArgmax && output >= outputs) continue;
    const float scale = S::kScalesSums ? shared.scale()[token] : 1;
    const int row = S::kSwiglu ? output / 8 * 16 + output % 8 : output;
    const float* const at = partial + token * S::kPitch + row;
    float y = scale * sum_partial<S>(at, S::kPartial);
    if constexpr (S::kSwiglu) y = silu(y) * (scale * sum_partial<S>(at + 8, S::kPartial));
    if constexpr (S::kArgmax) {
      typename S::Key::Word key = 0;
      if (output < outputs)
        key = S::Key::make(
            store_output<typename S::T, S::kOut, S::kBias, S::kEpilogue>(args, token, first + output, y, 0),
            first + output);
      // A group is a multiple of 16 outputs, so these lanes have one token, and all or none of them are here.
      constexpr int kLanes = S::kGroupOutputs % 32 == 0 ? 32 : 16;
      put_largest_key<1, kLanes>(args, token, key, kLanes == 32 ? ~0u : 0xffffu << (lane & 16));
    } else {
      store_output<typename S::T, S::kOut, S::kBias, S::kEpilogue>(
          args, token, first + output, y,
          load_residual<typename S::T, S::kOut, S::kEpilogue>(args, token, first + output));
    }
  }
  // The last arrival is not waited for, and may reach a block that has exited.
  if (S::kCluster > 1 && !last) arrive_in_cluster<S>(shared.partial_empty(), lane);
}

}  // namespace warptune
