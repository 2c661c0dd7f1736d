#pragma once
// Fused RoPE and KV cache append, overlapped with the loads that it waits for: bias and frequencies are
// loaded first, weights of norms are prefetched to the L2, the angles are computed before or while the fused
// qkv row arrives. The lanes of a head reduce the squares of its norm by shuffles. The new key is then placed
// after the cached keys of the last KV tile. Source: Su et al., "RoFormer", 2021.
#include "kernels/attention_decode/problem.cuh"
#include "kernels/common/barrier.cuh"
#include "kernels/common/head_norm.cuh"
#include "kernels/common/numeric.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/rope.cuh"
#include "kernels/common/tma.cuh"

namespace warptune {

/// The rotation of the new position and the new rows, in shared memory: k, v and kHeads query heads as
/// elements of type Q. kHeads is 0 where lanes rotate their own fragments of a query (rotate_fragment()).
template <class P, int kHeads, int kBlock, class Q>
struct OverlappedAppend {
  using T = typename P::T;
  using C = typename P::C;
  using Args = typename P::Args;
  static constexpr int kHeadDim = P::kHeadDim, kHalf = kHeadDim / 2;
  static constexpr int kVec = 4, kPerRow = kHalf / kVec;                   // threads per row
  static constexpr int kTrips = ceil_div((kHeads + 2) * kPerRow, kBlock);  // iterations of the block
  /// Elements between rows of q; the padding avoids bank conflicts of lanes that read two rows at once.
  static constexpr int kStride = kHeadDim + 64 / static_cast<int>(sizeof(Q));
  static_assert(kHalf % kVec == 0 && kHalf <= kBlock);
  static_assert(!P::kNorm || (kHeads > 0 && 32 % kPerRow == 0));

  float2 rotation[kHalf];  // cosine, sine
  alignas(16) Q q[max_of(kHeads, 1)][kHeads ? kStride : 1];
  alignas(16) C k[kHeadDim], v[kHeadDim];
  float scales[2];  // of the new rows of k and v, where rows have scales

  /// Inputs that no kernel of this step writes: they are loaded before pdl_wait().
  struct Constants {
    float frequency = 0;                // of this thread's angle; the last kHalf threads have one
    Vec<T, kVec> bias[kTrips][2] = {};  // lower and upper half of a row

    /// For the query heads from first_head on; `needs_kv`: as in append().
    __device__ __forceinline__ Constants(const Args& args, int first_head, bool needs_kv) {
      if constexpr (!P::kAppend) return;
      if (angle() < kHalf) frequency = __ldg(args.inv_freq + angle());
      if (args.bias) load(static_cast<const T*>(args.bias), first_head, needs_kv, bias);
      if constexpr (P::kNorm) prefetch_norm_weights(static_cast<const T*>(args.qk_norm));
    }
  };

  /// Computes the angles of a position. A kernel whose keys arrive long before its queries calls it before
  /// pdl_wait(); otherwise append() calls it while the fused row arrives. All threads call.
  __device__ __forceinline__ void compute_angles(const Args& args, int position, const Constants& constants) {
    if (angle() < kHalf) {
      float frequency = constants.frequency;
      if constexpr (P::kDynamicNtk)
        frequency = ntk_inv_freq(args, position + 1, angle(), kHeadDim, frequency);
      rotation[angle()] = cos_sin<T, P::kFar>(__fmul_rn(static_cast<float>(position), frequency));
    }
    named_barrier_sync<kBlock>();
  }

  /// Computes the new rows of sequence b for the query heads from first_head on. `needs_kv`: this block
  /// attends to the new key, which it finds in `k` and `v`; `writes`: it also stores the key in the cache.
  /// kHasAngles: compute_angles() was called. All threads call.
  template <bool kHasAngles>
  __device__ __forceinline__ void append(const Args& args, const KvCache<P>& cache, int b, int first_head,
                                         int position, const Constants& constants, bool needs_kv,
                                         bool writes) {
    Vec<T, kVec> x[kTrips][2] = {};  // lower and upper half of a row
    load(query_row<P>(args, b, 0), first_head, needs_kv, x);
    [[maybe_unused]] Vec<T, kVec> norm[P::kNorm ? kTrips : 1][2];
    if constexpr (P::kNorm) load_norm_weights(static_cast<const T*>(args.qk_norm), needs_kv, norm);
    if constexpr (!kHasAngles) compute_angles(args, position, constants);
    const long long to = writes ? cache.row(position) : 0;
    if (kHeads == 0 && !needs_kv) return;

#pragma unroll
    for (int trip = 0; trip < kTrips; ++trip) {
      const int row = row_of(trip), i = column_of(trip), which = row - kHeads;  // 0: k, 1: v, negative: q
      Vec<float, kVec> y[2];
      if constexpr (P::kNorm) {
        constexpr Vec<T, kVec> kNoBias[2] = {};
        Vec<float, kVec> normalized[2];
        normalize(x[trip], constants.bias[trip], norm[trip], args.eps, which, normalized);
        rotate(normalized, kNoBias, which, i, y);
      } else {
        rotate(x[trip], constants.bias[trip], which, i, y);
      }
      if (which < 0) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
          store_vec<kVec>(q[row] + i + half * kHalf, from_float<Q>(y[half]));
      }
      const float scale = round_and_scale(cache, which, y);
      const float inverse = !P::kQuantized ? 1.0f : scale == 0.0f ? 0.0f : 1.0f / scale;
      if (which < 0 || row >= rows(needs_kv)) continue;
      store_kv(cache, which, i, y, inverse, to, writes);
      if (P::kRowScales && i == 0) {
        scales[which] = scale;
        if (writes) (which == 0 ? cache.k_scales : cache.v_scales)[to] = scale;
      }
    }
    named_barrier_sync<kBlock>();
  }

  /// Adds the bias to a lane's vectors of a query row and rotates them. Vector i begins at column(i), which
  /// is even; vector i + kCount / 2 is half a row away. After append().
  template <int kCount, int kWidth, class Column>
  __device__ __forceinline__ void rotate_fragment(Vec<float, kWidth> (&x)[kCount],
                                                  const Vec<T, kWidth> (&bias)[kCount], Column column) const {
    if constexpr (P::kInterleaved) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
#pragma unroll
        for (int j = 0; j < kWidth; ++j) x[i][j] += to_float(bias[i][j]);
        rotate_neighbors(x[i], column(i));
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      const int at = column(i);
      const float sign = at < kHalf ? 1.0f : -1.0f;
      auto &a = x[i], &b = x[i + kCount / 2];
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        const float2 turn = rotation[at % kHalf + j];
        const float from = a[j] + to_float(bias[i][j]), other = b[j] + to_float(bias[i + kCount / 2][j]);
        a[j] = from * turn.x - other * (sign * turn.y);
        b[j] = other * turn.x + from * (sign * turn.y);
      }
    }
  }

  /// Copies the new key and value to rows of a KV tile in shared memory. One warp.
  __device__ __forceinline__ void copy_to_tile(C* k_row, C* v_row) const {
    constexpr int kX = kVec16<C>;
    for (int i = threadIdx.x % 32 * kX; i < kHeadDim; i += 32 * kX) {
      store_vec<kX>(k_row + i, load_vec<kX>(k + i));
      store_vec<kX>(v_row + i, load_vec<kX>(v + i));
    }
    __syncwarp();
  }

 private:
  static __device__ __forceinline__ int angle() { return kBlock - 1 - static_cast<int>(threadIdx.x); }
  /// The row (query heads, k, v) of this thread in a trip, and the first of its four columns.
  static __device__ __forceinline__ int row_of(int trip) {
    return (trip * kBlock + static_cast<int>(threadIdx.x)) / kPerRow;
  }
  static __device__ __forceinline__ int column_of(int trip) {
    return (trip * kBlock + static_cast<int>(threadIdx.x)) % kPerRow * kVec;
  }
  /// Rows that the block computes.
  static __device__ __forceinline__ int rows(bool needs_kv) { return needs_kv ? kHeads + 2 : kHeads; }
  /// Loads this thread's columns of a fused row.
  static __device__ __forceinline__ void load(const T* fused, int first_head, bool needs_kv,
                                              Vec<T, kVec> (&x)[kTrips][2]) {
#pragma unroll
    for (int trip = 0; trip < kTrips; ++trip) {
      const int row = row_of(trip), which = row - kHeads;
      if (row >= rows(needs_kv)) continue;
      const int head =
          which < 0 ? first_head + row : P::kQHeads + which * P::kKvHeads + first_head / P::kGroup;
#pragma unroll
      for (int half = 0; half < 2; ++half)
        x[trip][half] = load_vec<kVec>(fused + head * kHeadDim + column_of(trip) + half * kHalf);
    }
  }
  /// Prefetches the weights of the norms of q and k to the L2: registers would hold them for too long.
  static __device__ __forceinline__ void prefetch_norm_weights(const T* weights) {
    constexpr int kLine = 128 / static_cast<int>(sizeof(T));
    if (const int at = static_cast<int>(threadIdx.x) * kLine; at < 2 * kHeadDim) prefetch_l2(weights + at);
  }
  /// Loads the weights of the norms of this thread's columns; v has none.
  static __device__ __forceinline__ void load_norm_weights(const T* weights, bool needs_kv,
                                                           Vec<T, kVec> (&x)[kTrips][2]) {
#pragma unroll
    for (int trip = 0; trip < kTrips; ++trip) {
      const int row = row_of(trip), which = row - kHeads;
      if (row >= rows(needs_kv) || which > 0) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half)
        x[trip][half] = load_vec<kVec>(weights + (which < 0 ? 0 : kHeadDim) + column_of(trip) + half * kHalf);
    }
  }
  /// Rotates the pairs of neighbors (x[0], x[1]), .. of a vector whose first column is `at`.
  template <int kWidth>
  __device__ __forceinline__ void rotate_neighbors(Vec<float, kWidth>& x, int at) const {
    static_assert(kWidth % 2 == 0);
#pragma unroll
    for (int j = 0; j < kWidth; j += 2) {
      const float2 turn = rotation[(at + j) / 2];
      const float first = x[j];
      x[j] = first * turn.x - x[j + 1] * turn.y;
      x[j + 1] = first * turn.y + x[j + 1] * turn.x;
    }
  }
  /// Adds the bias; normalizes heads of q and k. All lanes of a row call.
  static __device__ __forceinline__ void normalize(const Vec<T, kVec> (&x)[2], const Vec<T, kVec> (&bias)[2],
                                                   const Vec<T, kVec> (&weights)[2], float eps, int which,
                                                   Vec<float, kVec> (&y)[2]) {
    float head[2 * kVec];
#pragma unroll
    for (int i = 0; i < 2 * kVec; ++i) {
      const int half = i / kVec, j = i % kVec;
      y[half][j] = head[i] = to_float(x[half][j]) + to_float(bias[half][j]);
    }
    normalize_head<kHeadDim>(
        head, eps, [](float squares) { return warp_reduce<Sum, kPerRow>(squares); },
        [&](int i) { return to_float(weights[i / kVec][i % kVec]); });
#pragma unroll
    for (int i = 0; i < 2 * kVec; ++i)
      if (which < 1) y[i / kVec][i % kVec] = head[i];
  }
  /// Adds the bias and rotates; v is not rotated.
  template <class X>
  __device__ __forceinline__ void rotate(const Vec<X, kVec> (&x)[2], const Vec<T, kVec> (&bias)[2], int which,
                                         int i, Vec<float, kVec> (&y)[2]) const {
    if constexpr (P::kInterleaved) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int j = 0; j < kVec; ++j) y[half][j] = to_float(x[half][j]) + to_float(bias[half][j]);
        if (which < 1) rotate_neighbors(y[half], i + half * kHalf);
      }
      return;
    }
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      const float2 turn = which < 1 ? rotation[i + j] : float2{1.0f, 0.0f};
      const float low = to_float(x[0][j]) + to_float(bias[0][j]),
                  high = to_float(x[1][j]) + to_float(bias[1][j]);
      y[0][j] = low * turn.x - high * turn.y;
      y[1][j] = high * turn.x + low * turn.y;
    }
  }
  /// With a quantized cache: rounds a row to dtype and returns its scale. All lanes of a row call.
  static __device__ __forceinline__ float round_and_scale(const KvCache<P>& cache, int which,
                                                          Vec<float, kVec> (&y)[2]) {
    if constexpr (!P::kQuantized) return 1.0f;
    float scale = which == 0 ? cache.head_k_scale() : cache.head_v_scale();
    float largest = 0.0f;
#pragma unroll
    for (int j = 0; j < 2 * kVec; ++j) {
      float& value = y[j / kVec][j % kVec];
      value = to_float(from_float<T>(value));
      largest = fmaxf(largest, fabsf(value));
    }
    if constexpr (P::kRowScales) {  // the lanes of a row are neighbors
      static_assert(32 % kPerRow == 0);
      scale = warp_reduce<Max, kPerRow>(largest) / (is_same<C, signed char> ? 127.0f : 448.0f);
    }
    return scale;
  }
  /// Quantizes or rounds a thread's columns of k or v and stores them in shared memory and the cache.
  __device__ __forceinline__ void store_kv(const KvCache<P>& cache, int which, int i,
                                           Vec<float, kVec> (&y)[2], float inverse, long long to,
                                           bool writes) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = i + half * kHalf;
#pragma unroll
      for (int j = 0; j < kVec; ++j) y[half][j] *= inverse;
      const auto rounded = from_float<C>(y[half]);
      store_vec<kVec>((which == 0 ? k : v) + at, rounded);
      if (writes) store_vec<kVec>(which == 0 ? cache.k_at(to, at) : cache.v_at(to, at), rounded);
    }
  }
};

}  // namespace warptune
