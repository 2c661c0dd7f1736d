#pragma once
// Copies of whole rows from places that ids or offsets name: embedding, remove_padding, restore_padding.
#include "kernels/common/fitting.h"
#include "kernels/common/stream.cuh"

namespace warptune {

/// Row r of y, of kLength elements, becomes the row at source(r), or zeros where that is null. Rows are laid
/// end to end and cut into pieces of kVec elements; a thread moves kUnroll pieces, kBlock apart, and has all
/// its loads in flight before the first store. Wants ceil(rows * pieces per row / (kBlock * kUnroll)) blocks.
/// kConstant: no kernel writes the source (weights).
template <int kLength, int kBlock, int kUnroll, int kVecWanted, int kStore, bool kConstant, class T,
          class Source>
__device__ __forceinline__ void copy_rows(T* y, long long rows, Source source) {
  constexpr int kVec = fitting_vec(kVecWanted, kLength);
  constexpr int kPieces = kLength / kVec;
  const long long first = static_cast<long long>(blockIdx.x) * (kBlock * kUnroll);
  const long long first_row = first / kPieces;
  const int first_piece = static_cast<int>(first - first_row * kPieces) + static_cast<int>(threadIdx.x);

  const T* from[kUnroll];
#pragma unroll
  for (int j = 0; j < kUnroll; ++j) {
    const int piece = first_piece + j * kBlock;
    const long long row = first_row + piece / kPieces;
    from[j] = row < rows ? source(row) : nullptr;
  }
  Vec<T, kVec> x[kUnroll];
#pragma unroll
  for (int j = 0; j < kUnroll; ++j) {
    const int column = (first_piece + j * kBlock) % kPieces * kVec;
    if (!from[j])
      x[j] = Vec<T, kVec>{};
    else if constexpr (kConstant)
      x[j] = load_vec_once<kVec>(from[j] + column);
    else
      x[j] = load_vec_stream<kVec>(from[j] + column);
  }
#pragma unroll
  for (int j = 0; j < kUnroll; ++j) {
    const int piece = first_piece + j * kBlock;
    const long long row = first_row + piece / kPieces;
    if (row < rows) store_vec_by<kStore>(y + row * kLength + piece % kPieces * kVec, x[j]);
  }
}

}  // namespace warptune
