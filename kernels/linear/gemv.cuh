#pragma once
// Register pipeline of the GEMVs: dot products of kRows weight rows with kTokens tokens by a group of
// kLanes threads. A thread keeps kUnroll vectors of each row in flight: when it has consumed a vector, its
// registers take the load of the vector kUnroll steps further. load_prologue() is a function of its own, so
// that the first weights can be loaded before the activations exist. With kNorm, x is multiplied by the
// weight of an RMSNorm on the way, and its squares are summed.
#include "kernels/common/reduce.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

template <class T, int kIn, int kTokens, int kRows, int kUnroll, int kLanes, bool kNorm = false>
struct GemvRows {
  static constexpr int kVec = vec_width<T>(kIn);
  static constexpr int kVectors = kIn / kVec;  // of a row

  const T* row[kRows];
  int lane, first, end;  // thread among kLanes; the vectors [first, end) of a row that the group reduces
  Vec<T, kVec> w[kUnroll][kRows];
  float sum[kRows][kTokens];
  float squares[kTokens];  // of x, with kNorm

  /// `source_row(r)`: the weight row of row r.
  template <class SourceRow>
  __device__ __forceinline__ GemvRows(const T* weight, const SourceRow& source_row, int lane, int first,
                                      int end)
      : lane(lane), first(first), end(end) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) row[r] = weight + static_cast<long long>(source_row(r)) * kIn;
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int t = 0; t < kTokens; ++t) sum[r][t] = 0;
#pragma unroll
    for (int t = 0; t < kTokens; ++t) squares[t] = 0;
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

  __device__ __forceinline__ void consume(int u, int vector, const T* x, const T* norm_weight) {
    if (vector < end) {
      [[maybe_unused]] Vec<float, kVec> scale;
      if constexpr (kNorm) scale = to_float(load_vec<kVec>(norm_weight + vector * kVec));
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
        auto g = to_float(load_vec<kVec>(x + t * kIn + vector * kVec));
        if constexpr (kNorm) {
#pragma unroll
          for (int i = 0; i < kVec; ++i) {
            squares[t] = fmaf(g[i], g[i], squares[t]);
            g[i] *= scale[i];
          }
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r)
#pragma unroll
          for (int i = 0; i < kVec; ++i) sum[r][t] = fmaf(f[r][i], g[i], sum[r][t]);
      }
    }
  }

  /// Comes after load_prologue(). x: [kTokens, kIn], norm_weight: [kIn]. Leaves the sums of a warp in all of
  /// its lanes.
  __device__ __forceinline__ void main_loop(const T* x, const T* norm_weight = nullptr) {
    for (int base = first + lane; base < end; base += kUnroll * kLanes) {
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        consume(u, base + u * kLanes, x, norm_weight);
        load(u, base + (u + kUnroll) * kLanes);
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int t = 0; t < kTokens; ++t) sum[r][t] = warp_reduce<Sum>(sum[r][t]);
    if constexpr (kNorm) {
#pragma unroll
      for (int t = 0; t < kTokens; ++t) squares[t] = warp_reduce<Sum>(squares[t]);
    }
  }
};

}  // namespace warptune
