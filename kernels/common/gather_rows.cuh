#pragma once
// Gather of whole rows by ids or offsets: embedding, remove_padding, restore_padding.
#include "kernels/common/cache_hint.cuh"

namespace warptune {

/// Row r of y, of kLength elements, becomes the row at source(r), or zeros where that is null. The rows are
/// one run of vectors of kVec elements. A thread copies kUnroll vectors, kBlock apart, and issues all its
/// loads before the first store. The grid has ceil(rows * vectors per row / (kBlock * kUnroll)) blocks.
/// kReadOnly: no kernel writes the source (weights), so that loads take the read-only path.
template <int kLength, int kBlock, int kUnroll, int kVecWanted, int kCacheHint, bool kReadOnly, class T,
          class Source>
__device__ __forceinline__ void gather_rows(T* y, long long rows, Source source) {
  constexpr int kVec = vec_width(kVecWanted, kLength);
  constexpr int kVectors = kLength / kVec;
  const long long first = static_cast<long long>(blockIdx.x) * (kBlock * kUnroll);
  const long long first_row = first / kVectors;
  const int first_vector = static_cast<int>(first - first_row * kVectors) + static_cast<int>(threadIdx.x);

  const T* from[kUnroll];
#pragma unroll
  for (int j = 0; j < kUnroll; ++j) {
    const int vector = first_vector + j * kBlock;
    const long long row = first_row + vector / kVectors;
    from[j] = row < rows ? source(row) : nullptr;
  }
  Vec<T, kVec> x[kUnroll];
#pragma unroll
  for (int j = 0; j < kUnroll; ++j) {
    const int column = (first_vector + j * kBlock) % kVectors * kVec;
    if (!from[j])
      x[j] = Vec<T, kVec>{};
    else if constexpr (kReadOnly)
      x[j] = load_vec_nc<kVec>(from[j] + column);
    else
      x[j] = load_vec_hint<kVec>(from[j] + column);
  }
#pragma unroll
  for (int j = 0; j < kUnroll; ++j) {
    const int vector = first_vector + j * kBlock;
    const long long row = first_row + vector / kVectors;
    if (row < rows) store_vec_hint<kCacheHint>(y + row * kLength + vector % kVectors * kVec, x[j]);
  }
}

}  // namespace warptune
