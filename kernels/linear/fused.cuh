#pragma once
// What the GEMMs fuse: RMSNorm of x before them, bias, residual and SwiGLU after them (argmax:
// argmax.cuh), the halves of an RMSNorm that is split between two GEMMs, and the prefetch of the next
// GEMM's weights.
#include "kernels/common/pairs.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/tma.cuh"
#include "kernels/common/vec.cuh"
#include "kernels/linear/args.h"
#include "kernels/swiglu/silu.cuh"

namespace warptune {

template <bool kFused, bool kArgmax, bool kSplitNorm, bool kPrefetches>
struct LinearArgsType {
  using type = PrefetchLinearArgs;
};
template <>
struct LinearArgsType<false, false, false, false> {
  using type = LinearArgs;
};
template <>
struct LinearArgsType<true, false, false, false> {
  using type = FusedLinearArgs;
};
template <>
struct LinearArgsType<true, true, false, false> {
  using type = ArgmaxLinearArgs;
};
template <bool kArgmax>
struct LinearArgsType<true, kArgmax, true, false> {
  using type = SplitNormLinearArgs;
};
/// The struct that a kernel takes: the shortest prefix of PrefetchLinearArgs with all that it reads.
/// `kPrefetch`: not 0 in a kernel that prefetches the next GEMM's weights.
template <int kPrologue, int kEpilogue, int kPrefetch = 0>
using LinearArgsOf = typename LinearArgsType<
    kPrologue != kPrologueNone || kEpilogue != kEpilogueNone, kEpilogue == kEpilogueArgmax,
    kPrologue == kPrologueRmsScale || kEpilogue == kEpilogueAddRms, kPrefetch != 0>::type;

/// Prefetches about kMib MiB of the next GEMM's weights to the L2; 0: nothing. One thread of each block.
template <int kMib, class Args>
__device__ __forceinline__ void prefetch_next_weight(const Args& args) {
  if constexpr (kMib != 0) bulk_prefetch_rows_l2<kMib>(args.next_weight, args.next_rows, args.next_row_bytes);
}

/// Prefetches the first kMib MiB of the next GEMM's weights to the L2 as a grid ends, so that memory stays
/// busy until the next kernel has started: for GPUs without dependent launch. All kThreads threads of the
/// last 1024 blocks, about as many as run at a time, when they have consumed their own weights.
template <int kMib, int kThreads, class Args>
__device__ __forceinline__ void prefetch_next_weight_at_end(const Args& args) {
  if constexpr (kMib != 0) {
    constexpr int kLine = 128;  // bytes
    const int last = min_of(gridDim.x, 1024), part = static_cast<int>(blockIdx.x + last - gridDim.x);
    const int count = ceil_div(kMib << 20, kLine * last);
    const long long lines = static_cast<long long>(args.next_rows) * args.next_row_bytes / kLine;
    const auto end = static_cast<int>(min(lines, (part + 1LL) * count));
    if (part >= 0)
      for (int i = part * count + threadIdx.x; i < end; i += kThreads)
        prefetch_l2(static_cast<const char*>(args.next_weight) + static_cast<long long>(i) * kLine);
  }
}

/// Whether an epilogue adds a residual.
template <int kEpilogue>
inline constexpr bool kAddsResidual = kEpilogue == kEpilogueAdd || kEpilogue == kEpilogueAddRms;

/// The row of the weight matrix for row r of kRows rows that compute the outputs from `first` on: with SwiGLU
/// half of the rows are gates, the other half ups.
template <int kOut, int kEpilogue, int kRows>
__device__ __forceinline__ long long weight_row(long long first, int r) {
  if constexpr (kEpilogue == kEpilogueSwiglu)
    return r < kRows / 2 ? first + r : kOut + first + r - kRows / 2;
  else
    return first + r;
}

/// The residual of one output, 0 without that epilogue. Load it before the main loop: after it, its latency
/// would end every group of rows.
template <class T, int kOut, int kEpilogue, class Args>
__device__ __forceinline__ float load_residual(const Args& args, int token, int o) {
  if constexpr (kAddsResidual<kEpilogue>)
    return to_float(static_cast<const T*>(args.residual)[static_cast<long long>(token) * kOut + o]);
  else
    return 0;
}

/// Epilogue of one output: adds bias and residual, and stores. Returns what it stores.
template <class T, int kOut, int kBias, int kEpilogue, class Args>
__device__ __forceinline__ T store_output(const Args& args, int token, int o, float y, float residual) {
  if constexpr (kBias != 0) y += to_float(static_cast<const T*>(args.bias)[o]);
  if constexpr (kAddsResidual<kEpilogue>) y += residual;
  const T rounded = from_float<T>(y);
  static_cast<T*>(args.y)[static_cast<long long>(token) * kOut + o] = rounded;
  return rounded;
}

/// Epilogue of N adjacent outputs from `o` on: adds bias and residual, and stores. Returns what it stores.
template <class T, int kOut, int kBias, int kEpilogue, int N, class Args>
__device__ __forceinline__ Vec<T, N> store_outputs(const Args& args, int token, int o, Vec<float, N> y,
                                                   const Vec<T, N>& residual) {
  Vec<float, N> bias = {};
  if constexpr (kBias != 0) bias = to_float(load_vec<N>(static_cast<const T*>(args.bias) + o));
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if constexpr (kBias != 0) y[i] += bias[i];
    if constexpr (kAddsResidual<kEpilogue>) y[i] += to_float(residual[i]);
  }
  const auto rounded = from_float<T>(y);
  store_vec<N>(static_cast<T*>(args.y) + static_cast<long long>(token) * kOut + o, rounded);
  return rounded;
}

/// Whether x is scaled by 1 / RMS before it is rounded to T. Else the outputs are: x is then read once, but x
/// times the weight of the norm must fit T, which fp16 is too narrow for.
template <class T>
inline constexpr bool kScalesBeforeRounding = is_same<T, fp16>;

/// RMSNorm of x [kTokens, kIn] by a block, in one pass where the outputs are scaled: shared memory takes x *
/// weight, rounded to T, and the outputs of token t are multiplied by scales[t].
/// Threads keep the weights of the norm in registers.
template <class T, int kTokens, int kIn, int kThreads>
class BlockNorm {
 public:
  float scales[kTokens];  // after load_x(): what the outputs of a token are multiplied by

  /// No kernel writes the weights: before pdl_wait().
  __device__ __forceinline__ void load_weights(const void* weight) {
#pragma unroll
    for (int j = 0; j < kPerThread; ++j)
      if (const int i = vector(j); i < kVectors)
        weights_[j] = load_vec<kVec>(static_cast<const T*>(weight) + i * kVec);
  }
  /// All threads of the block call, once; it ends with a barrier.
  __device__ __forceinline__ void load_x(T* shared, const void* x, float eps) {
    constexpr int kWarps = kThreads / 32;
    __shared__ float partial[kTokens][kWarps];
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      const float squares =
          warp_reduce<Sum>(read_row<!kScalesBeforeRounding<T>>(shared, static_cast<const T*>(x), t, 1));
      if (lane == 0) partial[t][threadIdx.x / 32] = squares;
    }
    __syncthreads();
#pragma unroll
    for (int t = 0; t < kTokens; ++t)
      scales[t] = rsqrtf(warp_reduce<Sum>(lane < kWarps ? partial[t][lane] : 0) / kIn + eps);
    if constexpr (kScalesBeforeRounding<T>) {
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        read_row<true>(shared, static_cast<const T*>(x), t, scales[t]);
        scales[t] = 1;
      }
      __syncthreads();
    }
  }

 private:
  static constexpr int kVec = vec_width<T>(kIn), kVectors = kIn / kVec,
                       kPerThread = ceil_div(kVectors, kThreads);
  static __device__ __forceinline__ int vector(int j) { return static_cast<int>(threadIdx.x) + j * kThreads; }
  /// The squares of this thread's vectors of a token; kStores: shared memory takes x * weight * scale.
  template <bool kStores>
  __device__ __forceinline__ float read_row(T* shared, const T* x, int t, float scale) const {
    float squares = 0;
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      const int i = vector(j);
      if (i >= kVectors) break;
      auto v = to_float(load_vec<kVec>(x + t * kIn + i * kVec));
      const auto w = to_float(weights_[j]);
#pragma unroll
      for (int e = 0; e < kVec; ++e) {
        squares = fmaf(v[e], v[e], squares);
        v[e] *= w[e] * scale;
      }
      if constexpr (kStores) store_vec<kVec>(shared + t * kIn + i * kVec, from_float<T>(v));
    }
    return squares;
  }

  Vec<T, kVec> weights_[kPerThread];
};

/// Prologue rms_scale: the sums of squares of a token, which the GEMM before has stored. A warp loads them
/// early, and adds them when they have come.
template <int kIn>
class TokenSquares {
 public:
  /// `is_valid`: whether the token exists; else the sum is 0.
  __device__ __forceinline__ void load(const float* squares, int token, bool is_valid) {
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      const int i = j * 32 + static_cast<int>(threadIdx.x) % 32;
      values_[j] = {};
      if (is_valid && i < kVectors) values_[j] = load_vec<4>(squares + (token * kVectors + i) * 4);
    }
  }
  /// The sum, in every lane.
  __device__ __forceinline__ float sum() const { return warp_reduce<Sum>(lane_sum()); }
  /// This lane's part of it.
  __device__ __forceinline__ float lane_sum() const {
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j)
      sum += (values_[j][0] + values_[j][1]) + (values_[j][2] + values_[j][3]);
    return sum;
  }

 private:
  static_assert(kIn % (4 * kSquaresGroup) == 0);
  static constexpr int kVectors = kIn / kSquaresGroup / 4, kPerLane = ceil_div(kVectors, 32);
  Vec<float, 4> values_[kPerLane];
};

/// 1 / RMS of the tokens from `begin` to `end` from their squares, by kWarps warps. A warp has the squares of
/// several tokens in flight.
template <int kTokens, int kIn, int kWarps>
__device__ __forceinline__ void compute_token_scales(const float* squares, float eps, float* scales, int warp,
                                                     int begin = 0, int end = kTokens) {
  constexpr int kBatch = min_of(kIn <= 4096 ? 8 : 4, next_power_of_two(ceil_div(kTokens, kWarps)));
  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int first = begin + warp; first < end; first += kBatch * kWarps) {
    TokenSquares<kIn> of_tokens[kBatch];
    float sums[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i)
      of_tokens[i].load(squares, min_of(first + i * kWarps, kTokens - 1), true);
#pragma unroll
    for (int i = 0; i < kBatch; ++i) sums[i] = of_tokens[i].lane_sum();
    const float sum = warp_reduce_rows<Sum>(sums);
    const int token = first + lane * kWarps;
    if (lane < kBatch && token < end) scales[token] = rsqrtf(sum / kIn + eps);
  }
}

}  // namespace warptune
