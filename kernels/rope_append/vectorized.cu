// Idea: a thread keeps the sines and cosines of its few pairs in registers and turns those pairs in several
// heads of its token; all loads are issued before the angles are worked out. half_split: two accesses of kVec
// elements per head, half a head apart; interleaved: one access of kVec / 2 pairs. Neighbouring threads take
// neighbouring pieces of a head. Sizes that are no multiple of kVec take narrower accesses. kStream: loads
// and stores that leave the caches first. The threads of a row that is quantised find its largest element by
// shuffles.
#include "kernels/common/pdl.cuh"
#include "kernels/common/vec.cuh"
#include "kernels/rope_append/cache.cuh"
#include "kernels/rope_append/rotation.cuh"

namespace warptune {

/// The largest x of the group of kWidth neighbouring lanes (a power of two), of which all must call it.
template <int kWidth>
__device__ __forceinline__ float largest_of_group(float x) {
  constexpr unsigned kGroup = kWidth == 32 ? ~0u : (1u << kWidth % 32) - 1;
  const unsigned group = kGroup << (threadIdx.x % 32 / kWidth * kWidth);
#pragma unroll
  for (int offset = kWidth / 2; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(group, x, offset));
  return x;
}

/// Stores N elements; kStream: with a streaming hint from 8 bytes on.
template <bool kStream, class To, int N>
__device__ __forceinline__ void store_as(To* to, const Vec<float, N>& x) {
  if constexpr (kStream && sizeof(To) * N >= 8)
    store_vec_streaming<N>(to, from_float<To>(x));
  else
    store_vec<N>(to, from_float<To>(x));
}

template <class T, class Cache, int kQHeads, int kKvHeads, int kHeadDim, bool kInterleaved, bool kDynamic,
          bool kBias, int kBlock, int kVecWanted, int kHeadsPerThread, bool kStream>
__global__ void __launch_bounds__(kBlock, 1) rope_append_vectorized(RopeAppendArgs args) {
  constexpr int kHeads = kQHeads + 2 * kKvHeads, kHalf = kHeadDim / 2;
  constexpr int kVec = vec_width(kVecWanted, kInterleaved ? kHeadDim : kHalf);
  constexpr int kParts = kInterleaved ? 1 : 2;  // accesses per head
  constexpr int kPairs = kVec * kParts / 2;     // pairs per thread and head
  constexpr int kPieces = kHalf / kPairs;       // threads that share a head
  constexpr int kGroups = ceil_div(kHeads, kHeadsPerThread);
  const unsigned index = blockIdx.x * kBlock + threadIdx.x;  // the op keeps tokens * heads * pairs below 2^31
  const int piece = static_cast<int>(index % kPieces);
  const int first_head = static_cast<int>(index / kPieces % kGroups) * kHeadsPerThread;
  const long long token = index / (kPieces * kGroups);
  float inv_freq[kPairs];  // a table: does not depend on the kernel before
#pragma unroll
  for (int i = 0; i < kPairs; ++i) inv_freq[i] = args.inv_freq[piece * kPairs + i];
  pdl_launch_dependents();
  pdl_wait();
  if (token >= args.tokens) return;

  const T* row = static_cast<const T*>(args.qkv) + token * kHeads * kHeadDim + piece * kVec;
  Vec<T, kVec> in[kHeadsPerThread][kParts];
#pragma unroll
  for (int j = 0; j < kHeadsPerThread; ++j)
#pragma unroll
    for (int part = 0; part < kParts; ++part)
      if (first_head + j < kHeads) {
        const T* from = row + (first_head + j) * kHeadDim + part * kHalf;
        in[j][part] = kStream ? load_vec_nc<kVec>(from) : load_vec<kVec>(from);
      }
  const int position = args.position[token], sequence = args.sequence[token];
  if (position < 0) return;

  float sine[kPairs], cosine[kPairs];
#pragma unroll
  for (int i = 0; i < kPairs; ++i) sine[i] = 0, cosine[i] = 1;
  if (first_head < kQHeads + kKvHeads) {
    if constexpr (kDynamic) {
      const double theta_log2 = grown_theta_log2(args, args.lengths[sequence], kHeadDim);
      if (theta_log2 != 0) {
#pragma unroll
        for (int i = 0; i < kPairs; ++i)
          inv_freq[i] = grown_inv_freq(theta_log2, piece * kPairs + i, kHeadDim);
      }
    }
#pragma unroll
    for (int i = 0; i < kPairs; ++i)
      sine_cosine(__fmul_rn(static_cast<float>(position), inv_freq[i]), sine[i], cosine[i]);
  }

#pragma unroll
  for (int j = 0; j < kHeadsPerThread; ++j) {
    const int head = first_head + j;
    if (head >= kHeads) continue;
    float x[kParts * kVec];
#pragma unroll
    for (int i = 0; i < kParts * kVec; ++i) x[i] = to_float(in[j][i / kVec][i % kVec]);
    if constexpr (kBias) {
      const T* bias = static_cast<const T*>(args.bias) + head * kHeadDim + piece * kVec;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const auto b = to_float(load_vec<kVec>(bias + part * kHalf));
#pragma unroll
        for (int i = 0; i < kVec; ++i) x[part * kVec + i] += b[i];
      }
    }
    if (head < kQHeads + kKvHeads) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        float& x0 = x[kInterleaved ? 2 * i : i];
        float& x1 = x[kInterleaved ? 2 * i + 1 : i + kPairs];
        const float turned = x0 * cosine[i] - x1 * sine[i];
        x1 = x0 * sine[i] + x1 * cosine[i];
        x0 = turned;
      }
    }
    Vec<float, kVec> y[kParts];
#pragma unroll
    for (int i = 0; i < kParts * kVec; ++i) y[i / kVec][i % kVec] = x[i];
    if (head < kQHeads) {
      T* q = static_cast<T*>(args.q) + (token * kQHeads + head) * kHeadDim + piece * kVec;
#pragma unroll
      for (int part = 0; part < kParts; ++part) store_as<kStream>(q + part * kHalf, y[part]);
      continue;
    }
    const bool is_k = head < kQHeads + kKvHeads;
    const long long row = Cache::row(args, sequence, (head - kQHeads) % kKvHeads, position);
    if constexpr (Cache::kQuantized) {
      float largest = 0.0f;
#pragma unroll
      for (int i = 0; i < kParts * kVec; ++i) {
        float& value = y[i / kVec][i % kVec];
        value = to_float(from_float<T>(value));
        largest = fmaxf(largest, fabsf(value));
      }
      const float scale = Cache::scale(largest_of_group<kPieces>(largest)), inverse = Cache::inverse(scale);
#pragma unroll
      for (int i = 0; i < kParts * kVec; ++i) y[i / kVec][i % kVec] *= inverse;
      if (piece == 0) (is_k ? args.k_scale : args.v_scale)[row] = scale;
    }
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const int d = piece * kVec + part * kHalf;
      store_as<kStream>(is_k ? Cache::k(args, row, d) : Cache::v(args, row, d), y[part]);
    }
  }
}

}  // namespace warptune
