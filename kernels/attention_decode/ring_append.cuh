#pragma once
// The fused step before attention for the ring variants, in parts that follow what they wait for: bias and
// the table of frequencies at once, angles before or while the fused qkv row comes, when the kernel before
// has ended (bias added, q and k rotated, half-split RoPE as in Su et al., "RoFormer", 2021; k and v rounded,
// or quantised, as the cache holds them). The new key takes its place behind the old ones of the last chunk.
#include "kernels/attention_decode/cache.cuh"
#include "kernels/attention_decode/query_pieces.cuh"
#include "kernels/common/barrier.cuh"
#include "kernels/common/numeric.cuh"
#include "kernels/common/reduce.cuh"

namespace warptune {

/// The rotation of the new position and the new rows, in shared memory: of K, V and kHeads query heads, as
/// elements of Q. Where lanes rotate their own pieces of a query (turn()) kHeads is 0.
template <class P, int kHeads, int kBlock, class Q>
struct RingAppend {
  using T = typename P::T;
  using C = typename P::C;
  static constexpr int kHeadDim = P::kHeadDim, kHalf = kHeadDim / 2;
  static constexpr int kVec = 4, kPerRow = kHalf / kVec;                   // threads per row
  static constexpr int kTrips = ceil_div((kHeads + 2) * kPerRow, kBlock);  // of the block, to all rows
  /// Elements from a row of q to the next: lanes that read two rows at once meet no bank twice.
  static constexpr int kStride = kHeadDim + 64 / static_cast<int>(sizeof(Q));
  static_assert(kHalf % kVec == 0 && kHalf <= kBlock);

  float2 rotation[kHalf];  // cosine, sine
  alignas(16) Q q[max_of(kHeads, 1)][kHeads ? kStride : 1];
  alignas(16) C k[kHeadDim], v[kHeadDim];
  float scales[2];  // of the new rows of K and V, where rows have scales

  /// What no kernel before has written, for take(): to be asked for before everything else.
  struct Weights {
    float frequency = 0;                // of this thread's angle; the last threads have one
    Vec<T, kVec> bias[kTrips][2] = {};  // of both halves of a row

    /// For the query heads from first_head on; `attends`: as take() is told.
    __device__ __forceinline__ Weights(const AttentionDecodeArgs& args, int first_head, bool attends) {
      if constexpr (!P::kAppend) return;
      if (angle() < kHalf) frequency = __ldg(args.inv_freq + angle());
      if (args.bias) load(static_cast<const T*>(args.bias), first_head, attends, bias);
    }
  };

  /// The angles of a position. A kernel whose keys are there long before its queries does so before
  /// pdl_wait(); otherwise take() does, while the fused row comes. All threads call.
  __device__ __forceinline__ void rotate(int position, const Weights& weights) {
    if (angle() < kHalf)
      rotation[angle()] = cos_sin_fast(__fmul_rn(static_cast<float>(position), weights.frequency));
    named_barrier_sync<kBlock>();
  }

  /// Takes the new rows of sequence b for the query heads from first_head on. A block that attends to the new
  /// key finds it in `k` and `v`; one that writes it puts it into the cache, too. kRotated: after rotate().
  /// All threads call.
  template <bool kRotated>
  __device__ __forceinline__ void take(const AttentionDecodeArgs& args, const KvCache<P>& cache, int b,
                                       int first_head, int position, const Weights& weights, bool attends,
                                       bool writes) {
    Vec<T, kVec> x[kTrips][2] = {};  // of both halves of a row
    load(query_row<P>(args, b, 0), first_head, attends, x);
    if constexpr (!kRotated) rotate(position, weights);
    const long long to = writes ? cache.row(position) : 0;
    if (kHeads == 0 && !attends) return;

#pragma unroll
    for (int trip = 0; trip < kTrips; ++trip) {
      const int row = row_of(trip), i = column_of(trip), which = row - kHeads;  // 0: k, 1: v, below: q
      Vec<float, kVec> y[2];
#pragma unroll
      for (int j = 0; j < kVec; ++j) {
        const float2 turn = which < 1 ? rotation[i + j] : float2{1.0f, 0.0f};
        const float low = to_float(x[trip][0][j]) + to_float(weights.bias[trip][0][j]),
                    high = to_float(x[trip][1][j]) + to_float(weights.bias[trip][1][j]);
        y[0][j] = low * turn.x - high * turn.y;
        y[1][j] = high * turn.x + low * turn.y;
      }
      if (which < 0) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
          store_vec<kVec>(q[row] + i + half * kHalf, from_float<Q>(y[half]));
      }
      float scale = 1.0f, inverse = 1.0f;
      if constexpr (P::kQuantized) {
        scale = which == 0 ? cache.head_k_scale() : cache.head_v_scale();
        float largest = 0.0f;
#pragma unroll
        for (int j = 0; j < 2 * kVec; ++j) {
          float& value = y[j / kVec][j % kVec];
          value = to_float(from_float<T>(value));
          largest = fmaxf(largest, fabsf(value));
        }
        if constexpr (P::kRowScales) {  // the lanes of a row are neighbours
          static_assert(32 % kPerRow == 0);
          scale = warp_reduce<Max, kPerRow>(largest) / (is_same<C, signed char> ? 127.0f : 448.0f);
        }
        inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
      }
      if (which < 0 || row >= rows(attends)) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = i + half * kHalf;
#pragma unroll
        for (int j = 0; j < kVec; ++j) y[half][j] *= inverse;
        const auto rounded = from_float<C>(y[half]);
        store_vec<kVec>((which == 0 ? k : v) + at, rounded);
        if (writes) store_vec<kVec>(which == 0 ? cache.k_at(to, at) : cache.v_at(to, at), rounded);
      }
      if (P::kRowScales && i == 0) {
        scales[which] = scale;
        if (writes) (which == 0 ? cache.k_scales : cache.v_scales)[to] = scale;
      }
    }
    named_barrier_sync<kBlock>();
  }

  /// Adds the bias to a lane's pieces of a query row and rotates them. Piece i begins at column(i); piece
  /// i + kCount / 2 half a row before or behind. After take().
  template <int kCount, int kPiece, class Column>
  __device__ __forceinline__ void turn(Vec<float, kPiece> (&x)[kCount], const Vec<T, kPiece> (&bias)[kCount],
                                       Column column) const {
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      const int at = column(i);
      const float sign = at < kHalf ? 1.0f : -1.0f;
      auto &a = x[i], &b = x[i + kCount / 2];
#pragma unroll
      for (int j = 0; j < kPiece; ++j) {
        const float2 turn = rotation[at % kHalf + j];
        const float from = a[j] + to_float(bias[i][j]), other = b[j] + to_float(bias[i + kCount / 2][j]);
        a[j] = from * turn.x - other * (sign * turn.y);
        b[j] = other * turn.x + from * (sign * turn.y);
      }
    }
  }

  /// Puts the new key and value into rows of a chunk in shared memory. One warp.
  __device__ __forceinline__ void put(C* k_row, C* v_row) const {
    constexpr int kX = kVec16<C>;
    for (int i = threadIdx.x % 32 * kX; i < kHeadDim; i += 32 * kX) {
      store_vec<kX>(k_row + i, load_vec<kX>(k + i));
      store_vec<kX>(v_row + i, load_vec<kX>(v + i));
    }
    __syncwarp();
  }

 private:
  static __device__ __forceinline__ int angle() { return kBlock - 1 - static_cast<int>(threadIdx.x); }
  /// The row (q of each head, k, v) and the first of four columns of its lower half that a trip is about.
  static __device__ __forceinline__ int row_of(int trip) {
    return (trip * kBlock + static_cast<int>(threadIdx.x)) / kPerRow;
  }
  static __device__ __forceinline__ int column_of(int trip) {
    return (trip * kBlock + static_cast<int>(threadIdx.x)) % kPerRow * kVec;
  }
  /// Rows that a block takes.
  static __device__ __forceinline__ int rows(bool attends) { return attends ? kHeads + 2 : kHeads; }
  /// This thread's columns of a fused row.
  static __device__ __forceinline__ void load(const T* fused, int first_head, bool attends,
                                              Vec<T, kVec> (&x)[kTrips][2]) {
#pragma unroll
    for (int trip = 0; trip < kTrips; ++trip) {
      const int row = row_of(trip), which = row - kHeads;
      if (row >= rows(attends)) continue;
      const int head =
          which < 0 ? first_head + row : P::kQHeads + which * P::kKvHeads + first_head / P::kGroup;
#pragma unroll
      for (int half = 0; half < 2; ++half)
        x[trip][half] = load_vec<kVec>(fused + head * kHeadDim + column_of(trip) + half * kHalf);
    }
  }
};

}  // namespace warptune
