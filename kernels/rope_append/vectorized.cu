// Vectorized RoPE and KV cache append.
// Grid: a thread owns kPairs pairs of a head and rotates them in kHeadsPerThread heads of its token, so
//   that sines and cosines are computed once and stay in registers; neighboring threads own neighboring
//   vectors of a head. half_split: two vectors of kVec elements per head, half a head apart; interleaved:
//   one vector.
// Loads: inverse frequencies and weights of norms before pdl_wait(); all vectors before the angles are
//   computed. Sizes that are no multiple of kMaxVec take narrower vectors. kStreaming: loads without an L1
//   line, streaming stores.
// Sync: none; the threads of a head reduce its squares (kNorm), and those of a row of a quantized cache its
//   largest magnitude, by shuffles.
#include "kernels/common/head_norm.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/rope.cuh"
#include "kernels/common/vec.cuh"
#include "kernels/rope_append/kv_cache.cuh"
#include "kernels/rope_append/vec_width.h"

namespace warptune {

/// Combines x over groups of kWidth neighboring lanes (a power of two); all lanes of a group call it.
template <int kWidth, class Combine>
__device__ __forceinline__ float group_reduce(float x, Combine combine) {
  constexpr unsigned kGroup = kWidth == 32 ? ~0u : (1u << kWidth % 32) - 1;
  const unsigned group = kGroup << (threadIdx.x % 32 / kWidth * kWidth);
#pragma unroll
  for (int offset = kWidth / 2; offset > 0; offset /= 2) x = combine(x, __shfl_xor_sync(group, x, offset));
  return x;
}
template <int kWidth>
__device__ __forceinline__ float group_max(float x) {
  return group_reduce<kWidth>(x, [](float a, float b) { return fmaxf(a, b); });
}
template <int kWidth>
__device__ __forceinline__ float group_sum(float x) {
  return group_reduce<kWidth>(x, [](float a, float b) { return a + b; });
}

/// Stores N elements; kStreaming: with a streaming hint from 8 bytes on.
template <bool kStreaming, class To, int N>
__device__ __forceinline__ void store_as(To* to, const Vec<float, N>& x) {
  if constexpr (kStreaming && sizeof(To) * N >= 8)
    store_vec_streaming<N>(to, from_float<To>(x));
  else
    store_vec<N>(to, from_float<To>(x));
}

/// Sines and cosines of pairs [first_pair, first_pair + kPairs) at a position.
template <bool kDynamic, bool kFar, int kRotaryDim, int kPairs>
__device__ __forceinline__ void compute_angles(const RopeAppendArgs& args, int position, int sequence,
                                               int first_pair, float (&inv_freq)[kPairs],
                                               float (&sine)[kPairs], float (&cosine)[kPairs]) {
  if constexpr (kDynamic) {
    const double theta_log2 = ntk_theta_log2(args, args.lengths[sequence], kRotaryDim);
    if (theta_log2 != 0 && first_pair < kRotaryDim / 2) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) inv_freq[i] = ntk_inv_freq(theta_log2, first_pair + i, kRotaryDim);
    }
  }
#pragma unroll
  for (int i = 0; i < kPairs; ++i)
    sin_cos<kFar>(__fmul_rn(static_cast<float>(position), inv_freq[i]), sine[i], cosine[i]);
}

/// Rotates pairs: (x[2i], x[2i+1]) if kInterleaved, else (x[i], x[i + kPairs]).
template <bool kInterleaved, int kPairs>
__device__ __forceinline__ void rotate(float (&x)[2 * kPairs], const float (&sine)[kPairs],
                                       const float (&cosine)[kPairs]) {
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    float& x0 = x[kInterleaved ? 2 * i : i];
    float& x1 = x[kInterleaved ? 2 * i + 1 : i + kPairs];
    const float rotated = x0 * cosine[i] - x1 * sine[i];
    x1 = x0 * sine[i] + x1 * cosine[i];
    x0 = rotated;
  }
}

/// Rounds a thread's elements of a row to T and divides them by the row's scale, which it returns. kThreads
/// neighboring lanes share the row.
template <class T, class Cache, int kThreads, int kVectors, int kVec>
__device__ __forceinline__ float quantize_row(Vec<float, kVec> (&y)[kVectors]) {
  float amax = 0.0f;
#pragma unroll
  for (int i = 0; i < kVectors * kVec; ++i) {
    float& value = y[i / kVec][i % kVec];
    value = to_float(from_float<T>(value));
    amax = fmaxf(amax, fabsf(value));
  }
  const float scale = Cache::scale(group_max<kThreads>(amax)), inverse = Cache::inverse(scale);
#pragma unroll
  for (int i = 0; i < kVectors * kVec; ++i) y[i / kVec][i % kVec] *= inverse;
  return scale;
}

template <class T, class Cache, int kQHeads, int kKvHeads, int kHeadDim, int kRotaryDim, bool kInterleaved,
          bool kDynamic, bool kBias, bool kFar, bool kNorm, int kBlock, int kMaxVec, int kHeadsPerThread,
          bool kStreaming>
__global__ void __launch_bounds__(kBlock, 1)
    rope_append_vectorized(typename RopeAppendArgsOf<kNorm>::Type args) {
  constexpr int kHeads = kQHeads + 2 * kKvHeads, kHalf = kHeadDim / 2;
  constexpr int kVec = rope_vec_width(kMaxVec, kHeadDim, kRotaryDim, kInterleaved);
  constexpr int kVectors = kInterleaved ? 1 : 2;  // per thread and head
  constexpr int kPairs = kVec * kVectors / 2;     // per thread and head
  constexpr int kThreadsPerHead = kHalf / kPairs;
  constexpr int kGroups = ceil_div(kHeads, kHeadsPerThread);
  const unsigned index = blockIdx.x * kBlock + threadIdx.x;  // the op keeps tokens * heads * pairs below 2^31
  const int part = static_cast<int>(index % kThreadsPerHead);  // of the head
  const int first_head = static_cast<int>(index / kThreadsPerHead % kGroups) * kHeadsPerThread;
  const long long token = index / (kThreadsPerHead * kGroups);
  // The vectors of this thread in a head: the first element, and the distance to the second vector.
  const int first = kInterleaved ? part * kVec : half_split_first<kHeadDim, kRotaryDim>(part * kVec);
  const int distance = half_split_distance<kHeadDim, kRotaryDim>(part * kVec);

  // Loads.
  float inv_freq[kPairs];
#pragma unroll
  for (int i = 0; i < kPairs; ++i) inv_freq[i] = args.inv_freq[part * kPairs + i];
  Vec<T, kVec> norm[2][kVectors];  // the weights of q, and of k
  if constexpr (kNorm) {
#pragma unroll
    for (int i = 0; i < 2 * kVectors; ++i)
      norm[i / kVectors][i % kVectors] = load_vec<kVec>(
          static_cast<const T*>(args.qk_norm) + i / kVectors * kHeadDim + first + i % kVectors * distance);
  }
  pdl_launch_dependents();
  pdl_wait();
  if (token >= args.tokens) return;
  const T* row = static_cast<const T*>(args.qkv) + token * kHeads * kHeadDim + first;
  Vec<T, kVec> in[kHeadsPerThread][kVectors];
#pragma unroll
  for (int j = 0; j < kHeadsPerThread; ++j)
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
      if (first_head + j < kHeads) {
        const T* from = row + (first_head + j) * kHeadDim + v * distance;
        in[j][v] = kStreaming ? load_vec_nc<kVec>(from) : load_vec<kVec>(from);
      }
  const int position = args.position[token], sequence = args.sequence[token];
  if (position < 0) return;

  float sine[kPairs], cosine[kPairs];
#pragma unroll
  for (int i = 0; i < kPairs; ++i) sine[i] = 0, cosine[i] = 1;
  if (first_head < kQHeads + kKvHeads)
    compute_angles<kDynamic, kFar, kRotaryDim>(args, position, sequence, part * kPairs, inv_freq, sine,
                                               cosine);

    // Rotation and stores, head by head.
#pragma unroll
  for (int j = 0; j < kHeadsPerThread; ++j) {
    const int head = first_head + j;
    if (head >= kHeads) continue;
    float x[kVectors * kVec];
#pragma unroll
    for (int i = 0; i < kVectors * kVec; ++i) x[i] = to_float(in[j][i / kVec][i % kVec]);
    if constexpr (kBias) {
      const T* bias = static_cast<const T*>(args.bias) + head * kHeadDim + first;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const auto b = to_float(load_vec<kVec>(bias + v * distance));
#pragma unroll
        for (int i = 0; i < kVec; ++i) x[v * kVec + i] += b[i];
      }
    }
    if constexpr (kNorm) {
      if (head < kQHeads + kKvHeads)
        normalize_head<kHeadDim>(
            x, args.eps, [](float squares) { return group_sum<kThreadsPerHead>(squares); },
            [&](int i) {
              const float of_q = to_float(norm[0][i / kVec][i % kVec]),
                          of_k = to_float(norm[1][i / kVec][i % kVec]);
              return head < kQHeads ? of_q : of_k;
            });
    }
    if (head < kQHeads + kKvHeads) rotate<kInterleaved>(x, sine, cosine);
    Vec<float, kVec> y[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors * kVec; ++i) y[i / kVec][i % kVec] = x[i];
    if (head < kQHeads) {
      T* q = static_cast<T*>(args.q) + (token * kQHeads + head) * kHeadDim + first;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) store_as<kStreaming>(q + v * distance, y[v]);
      continue;
    }
    const bool is_k = head < kQHeads + kKvHeads;
    const long long row = Cache::row(args, sequence, (head - kQHeads) % kKvHeads, position);
    if constexpr (Cache::kQuantized) {
      const float scale = quantize_row<T, Cache, kThreadsPerHead>(y);
      if (part == 0) (is_k ? args.k_scale : args.v_scale)[row] = scale;
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int d = first + v * distance;
      store_as<kStreaming>(is_k ? Cache::k(args, row, d) : Cache::v(args, row, d), y[v]);
    }
  }
}

}  // namespace warptune
