#pragma once
// A tile in shared memory: rows of kDim elements as 16-byte vectors, in an order in which ldmatrix reads
// eight rows without bank conflicts, or, to measure what conflicts cost, with them. Global memory is loaded
// with cp.async, as wide as its rows are aligned; rows shorter than the tile are padded with zeros.
#include "kernels/common/cp_async.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

/// The order of a tile's vectors. ldmatrix reads the same vector of eight rows: a row of 128 bytes or more
/// per bank cycle conflicts eight times in kRowMajor, twice in groups of 16 (32 bytes from row to row), and
/// not at all in groups of 8 (16 bytes) and with the XOR swizzle.
enum SharedLayout {
  kXorSwizzle,  // [rows, kDim], vectors permuted within a row
  kRowMajor,    // [rows, kDim]
  kGroupsOf16,  // [kDim / 16, rows, 16], elements of 2 bytes
  kGroupsOf8    // [kDim / 8, rows, 8]
};

/// kRows is needed for the groups only.
template <class T, int kDim, SharedLayout kLayout = kXorSwizzle, int kRows = 0>
struct SwizzledTile {
  static constexpr int kVec = kVec16<T>, kVectors = kDim / kVec;  // elements of a vector, vectors of a row
  /// Vectors that are permuted among themselves: the largest power of two that divides a row, at most 8.
  static constexpr int kSwizzle = kVectors % 8 == 0 ? 8 : kVectors % 4 == 0 ? 4 : kVectors % 2 == 0 ? 2 : 1;
  static constexpr int kRowBytes = kDim * static_cast<int>(sizeof(T));

  static constexpr bool kIsGrouped = kLayout == kGroupsOf16 || kLayout == kGroupsOf8;
  static constexpr int kGroup = kLayout == kGroupsOf16 ? 2 : kLayout == kGroupsOf8 ? 1 : kVectors;
  /// Bytes from row to row of a vector, and from group to group.
  static constexpr int kStride = kGroup * 16, kGroupStride = kRows * kStride;
  static_assert(!kIsGrouped || (kRows > 0 && kVectors % kGroup == 0));

  static __device__ __forceinline__ int swizzled(int row, int vector) {
    return kLayout == kXorSwizzle ? vector ^ (row / (8 / kSwizzle) % kSwizzle) : vector;
  }
  static __device__ __forceinline__ T* at(T* tile, int row, int vector) {
    if constexpr (kIsGrouped)
      return tile + (vector / kGroup * kRows + row) * (kGroup * kVec) + vector % kGroup * kVec;
    return tile + row * kDim + swizzled(row, vector) * kVec;
  }

  /// Shared addresses for ldmatrix: a lane reads vector `vector` (0 or 1) of `row` and those at a fixed
  /// distance. The tile is aligned to 128 bytes.
  class LdmatrixAddress {
   public:
    __device__ __forceinline__ LdmatrixAddress(unsigned tile, int row, int vector)
        : start(tile + row * kStride + (kXor ? swizzled(row, vector) * 16 : 0)), row(row), vector(vector) {}
    /// `vectors` (even) and `rows` (a multiple of 16) further on. Both are compile-time constants after
    /// unrolling, so that the address is one of four registers plus an immediate offset.
    __device__ __forceinline__ unsigned at(int vectors, int rows = 0) const {
      const unsigned bytes = rows * kStride;
      if constexpr (kIsGrouped)
        return start + (vector + vectors) / kGroup * kGroupStride + (vector + vectors) % kGroup * 16 + bytes;
      if constexpr (kXor) return (start ^ (vectors % 8 * 16)) + vectors / 8 * 128 + bytes;
      return start + swizzled(row, vector + vectors) * 16 + bytes;
    }

   private:
    static constexpr bool kXor =
        kLayout == kXorSwizzle && kSwizzle == 8;  // a step of vectors flips address bits
    unsigned start;
    int row, vector;
  };

  /// Loads vector `vector` of a row of kRowDim elements from `from`: a part of it that is beyond the row, or
  /// all of it where the row is not valid, becomes zeros. An access is as wide as rows are aligned; rows of 2
  /// bytes, which cp.async does not copy, go through registers.
  template <int kRowDim>
  static __device__ __forceinline__ void load_vector(T* to, const T* from, int vector, bool is_valid) {
    constexpr int kWidth = vec_width<T>(kRowDim), kBytes = kWidth * static_cast<int>(sizeof(T));
    const int rest = kRowDim - vector * kVec;  // elements of the row from here on
    if constexpr (kRowDim == kDim) {
      cp_async_16(to, from, is_valid);
    } else if constexpr (kBytes == 16) {
      cp_async_16(to, from, is_valid && rest > 0);
    } else if constexpr (kBytes >= 4) {
#pragma unroll
      for (int i = 0; i < kVec; i += kWidth) cp_async_narrow<kBytes>(to + i, from + i, is_valid && i < rest);
    } else {
      Vec<T, kVec> x;
#pragma unroll
      for (int i = 0; i < kVec; ++i) x[i] = is_valid && i < rest ? from[i] : T{};
      store_vec<kVec>(to, x);
    }
  }
  /// Loads kLoadRows rows of kRowDim elements, vector v of the ith from `vector_at(i, v)`; rows from `valid`
  /// on are zero-filled and not read. Neighboring threads load neighboring vectors of a row, or with
  /// kAlongRows the same vector of neighboring rows. Called by all threads.
  template <int kLoadRows, int kThreads, int kRowDim, bool kAlongRows, class VectorAt>
  static __device__ __forceinline__ void load_vectors(T* tile, VectorAt vector_at, int valid) {
    constexpr int kTileVectors = kLoadRows * kVectors, kSteps = ceil_div(kTileVectors, kThreads);
    // More addresses would spill; so would more elements on their way through registers.
    constexpr int kUnroll = vec_width<T>(kRowDim) == 1 && sizeof(T) == 2 ? 2 : kSteps <= 16 ? kSteps : 8;
#pragma unroll kUnroll
    for (int i = 0; i < kSteps; ++i) {
      const int index = threadIdx.x + i * kThreads;
      if (kTileVectors % kThreads != 0 && index >= kTileVectors) break;
      const int row = kAlongRows ? index % kLoadRows : index / kVectors;
      const int vector = kAlongRows ? index / kLoadRows : index % kVectors;
      load_vector<kRowDim>(at(tile, row, vector), vector_at(row, vector), vector, row < valid);
    }
  }
  /// The same of contiguous rows, the ith from `row_at(i)`.
  template <int kLoadRows, int kThreads, int kRowDim, class RowAt>
  static __device__ __forceinline__ void load(T* tile, RowAt row_at, int valid) {
    load_vectors<kLoadRows, kThreads, kRowDim, false>(
        tile, [=](int row, int vector) { return row_at(row) + vector * kVec; }, valid);
  }
  /// Loads the K (or V) rows, of kRowDim elements, of keys [first, first + kLoadRows); `first` is a multiple
  /// of kLoadRows below kv_len. Rows from kv_len on are zero-filled.
  template <int kLoadRows, int kThreads, int kRowDim, class Rows>
  static __device__ __forceinline__ void load_keys(T* tile, const Rows& rows, int first, int kv_len) {
    constexpr int kStep = kThreads / kVectors;  // from row to row of a thread
    constexpr bool kSharePage = Rows::template kSharePage<kLoadRows>;
    const int valid = kv_len - first;
    if constexpr (Rows::kDsx) {
      load_vectors<kLoadRows, kThreads, kRowDim, true>(
          tile,
          [=](int row, int vector) {
            return rows.at(min(first + row, kv_len - 1)) + rows.offset(vector * kVec);
          },
          valid);
    } else if constexpr (kSharePage && kThreads % kVectors == 0 && kStep % 8 == 0 && kLoadRows % kStep == 0) {
      const int row = threadIdx.x / kVectors, vector = threadIdx.x % kVectors;
      const long long row_stride = rows.row_stride();
      const T* const from = rows.at(first) + (row * static_cast<int>(row_stride) + vector * kVec);
      T* const to = at(tile, row, vector);  // rows kStep apart have the same swizzle
#pragma unroll
      for (int i = 0; i < kLoadRows; i += kStep)
        load_vector<kRowDim>(to + i * (kStride / static_cast<int>(sizeof(T))), from + i * row_stride, vector,
                             valid >= kLoadRows || row + i < valid);
    } else if constexpr (kSharePage && !Rows::kHasStrides) {
      const T* const from = rows.at(first);
      load<kLoadRows, kThreads, kRowDim>(
          tile, [=](int row) { return from + row * Rows::kStride; }, valid);
    } else {
      load<kLoadRows, kThreads, kRowDim>(
          tile, [=](int row) { return rows.at(min(first + row, kv_len - 1)); }, valid);
    }
  }
};

}  // namespace warptune
