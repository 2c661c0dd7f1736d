#pragma once
// Register pipeline of the GEMVs: dot products of kRows weight rows with kTokens tokens by a group of
// kLanes threads. A thread keeps kUnroll vectors of each row in flight: when it has consumed a vector, its
// registers take the load of the vector kUnroll steps further. load_prologue() is a function of its own, so
// that the first weights can be loaded before the activations exist.
#include "kernels/common/reduce.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

template <class T, int kIn, int kTokens, int kRows, int kUnroll, int kLanes>
struct GemvRows {
  static constexpr int kVec = vec_width<T>(kIn);
  static constexpr int kVectors = kIn / kVec;  // of a row

  const T* row[kRows];
  int lane, first, end;  // thread among kLanes; the vectors [first, end) of a row that the group reduces
  Vec<T, kVec> w[kUnroll][kRows];
  float sum[kRows][kTokens];

  /// `row0`: the first of kRows output rows. Rows past the last are read as the last one.
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

  __device__ __forceinline__ void load(int u, int vector) {
    if (vector < end) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) w[u][r] = load_vec_nc<kVec>(row[r] + vector * kVec);
    }
  }

  __device__ __forceinline__ void load_prologue() {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) load(u, first + lane + u * kLanes);
  }

  __device__ __forceinline__ void consume(int u, int vector, const T* x) {
    if (vector < end) {
      Vec<float, kVec> f[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if constexpr (is_same<T, bf16>)
          f[r] = to_float(Vec<T, kVec>(w[u][r]));  // the copy keeps w in registers
        else
          f[r] = to_float(w[u][r]);
      }
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        const auto g = to_float(load_vec<kVec>(x + t * kIn + vector * kVec));
#pragma unroll
        for (int r = 0; r < kRows; ++r)
#pragma unroll
          for (int i = 0; i < kVec; ++i) sum[r][t] = fmaf(f[r][i], g[i], sum[r][t]);
      }
    }
  }

  /// Comes after load_prologue(). x: [kTokens, kIn]. Leaves the sums of a warp in all of its lanes.
  __device__ __forceinline__ void main_loop(const T* x) {
    for (int base = first + lane; base < end; base += kUnroll * kLanes) {
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        consume(u, base + u * kLanes, x);
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
