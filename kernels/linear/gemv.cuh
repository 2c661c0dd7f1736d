#pragma once
// Dot products of kRows weight rows with kTokens tokens by a group of kLanes threads. Every thread keeps
// kUnroll pieces of each row in flight: as soon as a piece is used, its register takes the load of the piece
// kUnroll steps further on. The loads of the first pieces are a function of their own, so that they can be
// issued before the activations exist.
#include "kernels/common/reduce.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

/// Pieces [kFirst, kFirst + kCount) of kVec elements of a row of kIn elements.
template <class T, int kIn, int kTokens, int kRows, int kUnroll, int kLanes>
struct GemvRows {
  static constexpr int kVec = vec_width<T>(kIn);
  static constexpr int kPieces = kIn / kVec;

  const T* row[kRows];
  int lane, first, end;  // of this thread's group: its lane, and the pieces it shares
  Vec<T, kVec> w[kUnroll][kRows];
  float sum[kRows][kTokens];

  /// `row0`: the first of kRows rows; rows past the last are read as the last one.
  __device__ __forceinline__ GemvRows(const T* weight, int row0, int rows, int lane, int first, int end)
      : lane(lane), first(first), end(end) {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      row[r] = weight + static_cast<long long>(min_of(row0 + r, rows - 1)) * kIn;
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int t = 0; t < kTokens; ++t) sum[r][t] = 0;
  }

  __device__ __forceinline__ void load(int u, int piece) {
    if (piece < end) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) w[u][r] = load_vec_nc<kVec>(row[r] + piece * kVec);
    }
  }

  __device__ __forceinline__ void load_first() {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) load(u, first + lane + u * kLanes);
  }

  __device__ __forceinline__ void use(int u, int piece, const T* x) {
    if (piece < end) {
      Vec<float, kVec> f[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const Vec<T, kVec> v = w[u][r];  // the copy keeps w in registers
        f[r] = to_float(v);
      }
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        const auto g = to_float(load_vec<kVec>(x + t * kIn + piece * kVec));
#pragma unroll
        for (int r = 0; r < kRows; ++r)
#pragma unroll
          for (int i = 0; i < kVec; ++i) sum[r][t] = fmaf(f[r][i], g[i], sum[r][t]);
      }
    }
  }

  /// After load_first(). x: [kTokens, kIn].
  __device__ __forceinline__ void run(const T* x) {
    for (int base = first + lane; base < end; base += kUnroll * kLanes) {
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        use(u, base + u * kLanes, x);
        load(u, base + (u + kUnroll) * kLanes);
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int t = 0; t < kTokens; ++t) sum[r][t] = warp_reduce<Sum>(sum[r][t]);
  }
};

}  // namespace warptune
