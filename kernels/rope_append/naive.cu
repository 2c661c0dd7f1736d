// Idea: one thread per pair of one head of one token, element by element: the readable baseline. The threads
// of v heads move their pair unturned.
#include "common/pdl.cuh"
#include "rope_append/rotation.cuh"

namespace warptune {

template <class T, int kQHeads, int kKvHeads, int kHeadDim, bool kInterleaved, bool kDynamic, bool kBias,
          bool kSplit, int kBlock>
__global__ void __launch_bounds__(kBlock) rope_append_naive(RopeAppendArgs args) {
  constexpr int kHeads = kQHeads + 2 * kKvHeads, kPairs = kHeadDim / 2;
  pdl_wait();
  const long long index = static_cast<long long>(blockIdx.x) * kBlock + threadIdx.x;
  const int pair = static_cast<int>(index % kPairs);
  const int head = static_cast<int>(index / kPairs % kHeads);
  const long long token = index / (kPairs * kHeads);
  if (token >= args.tokens) return;
  const int position = args.position[token];
  if (position < 0) return;
  const int sequence = args.sequence[token];

  const int d0 = kInterleaved ? 2 * pair : pair, d1 = kInterleaved ? 2 * pair + 1 : pair + kPairs;
  const T* row = static_cast<const T*>(args.qkv) + (token * kHeads + head) * kHeadDim;
  float x0 = to_float(row[d0]), x1 = to_float(row[d1]);
  if constexpr (kBias) {
    const T* bias = static_cast<const T*>(args.bias) + head * kHeadDim;
    x0 += to_float(bias[d0]);
    x1 += to_float(bias[d1]);
  }
  if (head < kQHeads + kKvHeads) {
    float inv_freq = args.inv_freq[pair];
    if constexpr (kDynamic) {
      const double theta_log2 = grown_theta_log2(args, args.lengths[sequence], kHeadDim);
      if (theta_log2 != 0) inv_freq = grown_inv_freq(theta_log2, pair, kHeadDim);
    }
    float sine, cosine;
    sine_cosine(__fmul_rn(static_cast<float>(position), inv_freq), sine, cosine);
    const float turned = x0 * cosine - x1 * sine;
    x1 = x0 * sine + x1 * cosine;
    x0 = turned;
  }
  const T y0 = from_float<T>(x0), y1 = from_float<T>(x1);
  if (head < kQHeads) {
    T* q = static_cast<T*>(args.q) + (token * kQHeads + head) * kHeadDim;
    q[d0] = y0;
    q[d1] = y1;
  } else if (head < kQHeads + kKvHeads) {
    T* k = static_cast<T*>(args.k_cache);
    const int h = head - kQHeads;
    k[cache_offset<T, kKvHeads, kHeadDim, kSplit>(sequence, h, args.capacity, position, d0)] = y0;
    k[cache_offset<T, kKvHeads, kHeadDim, kSplit>(sequence, h, args.capacity, position, d1)] = y1;
  } else {
    T* v = static_cast<T*>(args.v_cache);
    const int h = head - kQHeads - kKvHeads;
    v[cache_offset<T, kKvHeads, kHeadDim, false>(sequence, h, args.capacity, position, d0)] = y0;
    v[cache_offset<T, kKvHeads, kHeadDim, false>(sequence, h, args.capacity, position, d1)] = y1;
  }
}

}  // namespace warptune
