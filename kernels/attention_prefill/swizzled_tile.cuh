#pragma once
// A tile in shared memory: rows of kDim elements in chunks of 16 bytes. Chunks are permuted within a row so
// that eight rows at the same chunk fall on eight different banks of 16 bytes, as ldmatrix reads them.
#include "kernels/common/cp_async.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

template <class T, int kDim>
struct SwizzledTile {
  static constexpr int kPerChunk = kVec16<T>, kChunks = kDim / kPerChunk;
  /// So many chunks, the largest power of two in a row, at most 8, are permuted among themselves.
  static constexpr int kGroup = kChunks % 8 == 0 ? 8 : kChunks % 4 == 0 ? 4 : kChunks % 2 == 0 ? 2 : 1;
  static constexpr int kRowBytes = kDim * static_cast<int>(sizeof(T));

  static __device__ __forceinline__ int permuted(int row, int chunk) {
    return chunk ^ (row / (8 / kGroup) % kGroup);
  }
  static __device__ __forceinline__ T* at(T* tile, int row, int chunk) {
    return tile + row * kDim + permuted(row, chunk) * kPerChunk;
  }
  /// Shared addresses of the chunks that a lane reads: from chunk `chunk` (0 or 1) of `row` on. The tile
  /// begins at a multiple of 128 bytes.
  class Reader {
   public:
    __device__ __forceinline__ Reader(unsigned tile, int row, int chunk)
        : start(tile + row * kRowBytes + (kFlips ? permuted(row, chunk) * 16 : 0)), row(row), chunk(chunk) {}
    /// The one `chunks` (even) and `rows` (a multiple of 16) further; both known to the compiler, so that it
    /// is an offset from one of four addresses.
    __device__ __forceinline__ unsigned at(int chunks, int rows = 0) const {
      const unsigned bytes = rows * kRowBytes;
      if constexpr (kFlips) return (start ^ (chunks % 8 * 16)) + chunks / 8 * 128 + bytes;
      return start + permuted(row, chunk + chunks) * 16 + bytes;
    }

   private:
    static constexpr bool kFlips = kGroup == 8;  // a step of chunks flips bits of the address
    unsigned start;
    int row, chunk;
  };

  /// Copies kRows rows, the ith from `row_at(i)` on; rows from `valid` on become zeros and are not read. All
  /// threads call.
  template <int kRows, int kThreads, class RowAt>
  static __device__ __forceinline__ void fetch(T* tile, RowAt row_at, int valid) {
    constexpr int kPieces = kRows * kChunks, kSteps = ceil_div(kPieces, kThreads);
    constexpr int kUnroll = kSteps <= 16 ? kSteps : 8;  // more addresses than that would spill
#pragma unroll kUnroll
    for (int i = 0; i < kSteps; ++i) {
      const int piece = threadIdx.x + i * kThreads;
      if (kPieces % kThreads != 0 && piece >= kPieces) break;
      const int row = piece / kChunks, chunk = piece % kChunks;
      cp_async_16(at(tile, row, chunk), row_at(row) + chunk * kPerChunk, row < valid);
    }
  }
  /// Copies the rows of keys `first` to first + kRows - 1; `first` is a multiple of kRows below kv_len.
  template <int kRows, int kThreads, class Rows>
  static __device__ __forceinline__ void fetch_keys(T* tile, const Rows& rows, int first, int kv_len) {
    constexpr int kStep = kThreads / kChunks;  // rows between those of a thread
    const int valid = kv_len - first;
    if constexpr (!Rows::template kTogether<kRows>) {
      fetch<kRows, kThreads>(
          tile, [=](int row) { return rows.at(min(first + row, kv_len - 1)); }, valid);
    } else if constexpr (kThreads % kChunks == 0 && kStep % 8 == 0 && kRows % kStep == 0) {
      const int row = threadIdx.x / kChunks, chunk = threadIdx.x % kChunks;
      const T* const from = rows.at(first) + (row * static_cast<int>(Rows::kStride) + chunk * kPerChunk);
      T* const to = at(tile, row, chunk);  // rows kStep apart are permuted alike
#pragma unroll
      for (int i = 0; i < kRows; i += kStep)
        cp_async_16(to + i * kDim, from + i * Rows::kStride, valid >= kRows || row + i < valid);
    } else {
      const T* const from = rows.at(first);
      fetch<kRows, kThreads>(
          tile, [=](int row) { return from + row * Rows::kStride; }, valid);
    }
  }
};

}  // namespace warptune
