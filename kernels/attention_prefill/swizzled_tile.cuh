#pragma once
// A tile in shared memory: rows of kDim elements as 16-byte vectors, XOR-swizzled within the row so that
// ldmatrix reads eight rows without bank conflicts. Global memory is loaded with cp.async.
#include "kernels/common/cp_async.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

template <class T, int kDim>
struct SwizzledTile {
  static constexpr int kVec = kVec16<T>, kVectors = kDim / kVec;  // elements of a vector, vectors of a row
  /// Vectors that are permuted among themselves: the largest power of two that divides a row, at most 8.
  static constexpr int kSwizzle = kVectors % 8 == 0 ? 8 : kVectors % 4 == 0 ? 4 : kVectors % 2 == 0 ? 2 : 1;
  static constexpr int kRowBytes = kDim * static_cast<int>(sizeof(T));

  static __device__ __forceinline__ int swizzled(int row, int vector) {
    return vector ^ (row / (8 / kSwizzle) % kSwizzle);
  }
  static __device__ __forceinline__ T* at(T* tile, int row, int vector) {
    return tile + row * kDim + swizzled(row, vector) * kVec;
  }

  /// Shared addresses for ldmatrix: a lane reads vector `vector` (0 or 1) of `row` and those at a fixed
  /// distance. The tile is aligned to 128 bytes.
  class LdmatrixAddress {
   public:
    __device__ __forceinline__ LdmatrixAddress(unsigned tile, int row, int vector)
        : start(tile + row * kRowBytes + (kXor ? swizzled(row, vector) * 16 : 0)), row(row), vector(vector) {}
    /// `vectors` (even) and `rows` (a multiple of 16) further on. Both are compile-time constants after
    /// unrolling, so that the address is one of four registers plus an immediate offset.
    __device__ __forceinline__ unsigned at(int vectors, int rows = 0) const {
      const unsigned bytes = rows * kRowBytes;
      if constexpr (kXor) return (start ^ (vectors % 8 * 16)) + vectors / 8 * 128 + bytes;
      return start + swizzled(row, vector + vectors) * 16 + bytes;
    }

   private:
    static constexpr bool kXor = kSwizzle == 8;  // a step of vectors flips address bits
    unsigned start;
    int row, vector;
  };

  /// Loads kRows rows with cp.async, the ith from `row_at(i)`; rows from `valid` on are zero-filled and not
  /// read. Called by all threads.
  template <int kRows, int kThreads, class RowAt>
  static __device__ __forceinline__ void load(T* tile, RowAt row_at, int valid) {
    constexpr int kTileVectors = kRows * kVectors, kSteps = ceil_div(kTileVectors, kThreads);
    constexpr int kUnroll = kSteps <= 16 ? kSteps : 8;  // more addresses would spill
#pragma unroll kUnroll
    for (int i = 0; i < kSteps; ++i) {
      const int index = threadIdx.x + i * kThreads;
      if (kTileVectors % kThreads != 0 && index >= kTileVectors) break;
      const int row = index / kVectors, vector = index % kVectors;
      cp_async_16(at(tile, row, vector), row_at(row) + vector * kVec, row < valid);
    }
  }
  /// Loads the K (or V) rows of keys [first, first + kRows); `first` is a multiple of kRows below kv_len.
  /// Rows from kv_len on are zero-filled.
  template <int kRows, int kThreads, class Rows>
  static __device__ __forceinline__ void load_keys(T* tile, const Rows& rows, int first, int kv_len) {
    constexpr int kStep = kThreads / kVectors;  // from row to row of a thread
    const int valid = kv_len - first;
    if constexpr (!Rows::template kStrided<kRows>) {
      load<kRows, kThreads>(
          tile, [=](int row) { return rows.at(min(first + row, kv_len - 1)); }, valid);
    } else if constexpr (kThreads % kVectors == 0 && kStep % 8 == 0 && kRows % kStep == 0) {
      const int row = threadIdx.x / kVectors, vector = threadIdx.x % kVectors;
      const T* const from = rows.at(first) + (row * static_cast<int>(Rows::kStride) + vector * kVec);
      T* const to = at(tile, row, vector);  // rows kStep apart have the same swizzle
#pragma unroll
      for (int i = 0; i < kRows; i += kStep)
        cp_async_16(to + i * kDim, from + i * Rows::kStride, valid >= kRows || row + i < valid);
    } else {
      const T* const from = rows.at(first);
      load<kRows, kThreads>(
          tile, [=](int row) { return from + row * Rows::kStride; }, valid);
    }
  }
};

}  // namespace warptune
