// Naive RoPE and KV cache append: the readable baseline.
// Grid: one thread per pair of one head of one token; elements are read one by one. Threads of v heads copy
//   their pair without rotation. With a quantized cache every thread computes the whole row for its largest
//   magnitude, with a norm for its root mean square.
#include "kernels/common/head_norm.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/rope.cuh"
#include "kernels/rope_append/kv_cache.cuh"

namespace warptune {

template <class T, class Cache, int kQHeads, int kKvHeads, int kHeadDim, int kRotaryDim, bool kInterleaved,
          bool kDynamic, bool kBias, bool kFar, bool kNorm, int kBlock>
__global__ void __launch_bounds__(kBlock) rope_append_naive(typename RopeAppendArgsOf<kNorm>::Type args) {
  using Element = typename Cache::Element;
  constexpr int kHeads = kQHeads + 2 * kKvHeads, kPairs = kHeadDim / 2;
  pdl_wait();
  const long long index = static_cast<long long>(blockIdx.x) * kBlock + threadIdx.x;
  const int own_pair = static_cast<int>(index % kPairs);
  const int head = static_cast<int>(index / kPairs % kHeads);
  const long long token = index / (kPairs * kHeads);
  if (token >= args.tokens) return;
  const int position = args.position[token];
  if (position < 0) return;
  const int sequence = args.sequence[token];

  const auto first = [](int pair) {
    return kInterleaved ? 2 * pair : half_split_first<kHeadDim, kRotaryDim>(pair);
  };
  const auto second = [&](int pair) {
    return first(pair) + (kInterleaved ? 1 : half_split_distance<kHeadDim, kRotaryDim>(pair));
  };
  [[maybe_unused]] float norm_scale = 1.0f;
  if constexpr (kNorm) {
    float sum = 0.0f;
    for (int d = 0; d < kHeadDim; ++d) {
      float x = to_float(static_cast<const T*>(args.qkv)[(token * kHeads + head) * kHeadDim + d]);
      if constexpr (kBias) x += to_float(static_cast<const T*>(args.bias)[head * kHeadDim + d]);
      sum += x * x;
    }
    norm_scale = inverse_rms<kHeadDim>(sum, args.eps);
  }
  struct Pair {
    T y0, y1;
  };
  const auto rotated = [&](int pair) -> Pair {
    const int d0 = first(pair), d1 = second(pair);
    const T* row = static_cast<const T*>(args.qkv) + (token * kHeads + head) * kHeadDim;
    float x0 = to_float(row[d0]), x1 = to_float(row[d1]);
    if constexpr (kBias) {
      const T* bias = static_cast<const T*>(args.bias) + head * kHeadDim;
      x0 += to_float(bias[d0]);
      x1 += to_float(bias[d1]);
    }
    if (head < kQHeads + kKvHeads) {
      if constexpr (kNorm) {
        const T* weight = static_cast<const T*>(args.qk_norm) + (head < kQHeads ? 0 : kHeadDim);
        x0 *= norm_scale * to_float(weight[d0]);
        x1 *= norm_scale * to_float(weight[d1]);
      }
      float inv_freq = args.inv_freq[pair];
      if constexpr (kDynamic) {
        const double theta_log2 = ntk_theta_log2(args, args.lengths[sequence], kRotaryDim);
        if (theta_log2 != 0 && pair < kRotaryDim / 2) inv_freq = ntk_inv_freq(theta_log2, pair, kRotaryDim);
      }
      float sine, cosine;
      sin_cos<kFar>(__fmul_rn(static_cast<float>(position), inv_freq), sine, cosine);
      const float low = x0 * cosine - x1 * sine;
      x1 = x0 * sine + x1 * cosine;
      x0 = low;
    }
    return {from_float<T>(x0), from_float<T>(x1)};
  };

  const int d0 = first(own_pair), d1 = second(own_pair);
  const auto [y0, y1] = rotated(own_pair);
  if (head < kQHeads) {
    T* q = static_cast<T*>(args.q) + (token * kQHeads + head) * kHeadDim;
    q[d0] = y0;
    q[d1] = y1;
    return;
  }
  const bool is_k = head < kQHeads + kKvHeads;
  const long long row = Cache::row(args, sequence, (head - kQHeads) % kKvHeads, position);
  float inverse = 1.0f;
  if constexpr (Cache::kQuantized) {
    float amax = 0.0f;
    for (int pair = 0; pair < kPairs; ++pair) {
      const Pair y = rotated(pair);
      amax = fmaxf(amax, fmaxf(fabsf(to_float(y.y0)), fabsf(to_float(y.y1))));
    }
    const float scale = Cache::scale(amax);
    inverse = Cache::inverse(scale);
    if (own_pair == 0) (is_k ? args.k_scale : args.v_scale)[row] = scale;
  }
  *(is_k ? Cache::k(args, row, d0) : Cache::v(args, row, d0)) = from_float<Element>(to_float(y0) * inverse);
  *(is_k ? Cache::k(args, row, d1) : Cache::v(args, row, d1)) = from_float<Element>(to_float(y1) * inverse);
}

}  // namespace warptune
