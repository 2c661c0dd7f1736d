// Permutes the columns of x to those of act-order weights: the first stage of GEMMs that load x by TMA.
// Grid: a block per token. The row is copied to shared memory, so that the gather of single elements stays on
//   the SM; a thread gathers vectors of 8 columns and stores them to the workspace, [tokens, kIn].
// PDL: the order, which no kernel writes, is loaded before pdl_wait().
// `in` is a multiple of 8.
#include "kernels/common/pdl.cuh"
#include "kernels/common/vec.cuh"
#include "kernels/linear/args.h"

namespace warptune {

/// Calls with the number and the first column of each vector of this thread.
template <int kIn, int kVec, int kBlock, class Call>
__device__ __forceinline__ void for_vectors(Call call) {
  constexpr int kVectors = kIn / kVec;
#pragma unroll
  for (int i = 0; i < ceil_div(kVectors, kBlock); ++i)
    if (const int vector = static_cast<int>(threadIdx.x) + i * kBlock; vector < kVectors)
      call(i, vector * kVec);
}

template <class T, int kIn, int kBlock>
__global__ void __launch_bounds__(kBlock) linear_permute_columns(QuantizedLinearArgs args) {
  constexpr int kVec = 8;
  static_assert(kIn % kVec == 0);
  [[maybe_unused]] static constexpr int kSharedBytes = kIn * static_cast<int>(sizeof(T));
  extern __shared__ __align__(16) unsigned char shared[];
  T* const row = reinterpret_cast<T*>(shared);

  Vec<int, 4> order[ceil_div(kIn / kVec, kBlock)][2];
  for_vectors<kIn, kVec, kBlock>([&](int i, int column) {
    order[i][0] = load_vec<4>(args.order + column);
    order[i][1] = load_vec<4>(args.order + column + 4);
  });
  pdl_launch_dependents();
  pdl_wait();
  const long long token = blockIdx.x;
  const T* const x = static_cast<const T*>(args.x) + token * kIn;
  for_vectors<kIn, kVec, kBlock>(
      [&](int, int column) { store_vec<kVec>(row + column, load_vec<kVec>(x + column)); });
  __syncthreads();
  T* const to = static_cast<T*>(args.workspace) + token * kIn;
  for_vectors<kIn, kVec, kBlock>([&](int i, int column) {
    Vec<T, kVec> y;
#pragma unroll
    for (int j = 0; j < kVec; ++j) y[j] = row[order[i][j / 4][j % 4]];
    store_vec<kVec>(to + column, y);
  });
}

}  // namespace warptune
