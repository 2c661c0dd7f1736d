#pragma once
// GEMV on tensor cores, for 1 to 8 tokens: the diagonal of mma.sync m16n8k16, without ldmatrix or swizzle.
// A row of A is a split of a weight row: 32 of its columns; a column of B is the same split of a token's x.
// With fewer than 8 tokens a weight row has several splits in an mma, and only the sums of equal splits (the
// diagonal of D) are used; the others are wasted, but memory is the limit, not the tensor cores. So a lane
// loads 16 bytes at a time, in the order in which the weights lie in memory: its operands of two mma. They
// are read as they are, where fp32 FMA would convert each weight.
#include "kernels/common/mma.cuh"

namespace warptune {

/// What two mma multiply: a fragment of kColumns columns of kRows weight rows, and the same columns of x.
template <int kTokens>
struct DiagonalMma {
  // B has kPaddedTokens tokens x kSplits splits, each half of A (8 rows) kPaddedTokens weight rows x kSplits
  // splits.
  static constexpr int kPaddedTokens = kTokens <= 2 ? kTokens : kTokens <= 4 ? 4 : 8;
  static constexpr int kSplits = 8 / kPaddedTokens, kRows = 2 * kPaddedTokens, kColumns = 32 * kSplits;

  // A lane loads 8 columns, `column` the first, of one split: of a weight row in each half of A, of a token.
  static __device__ __forceinline__ int split(int lane) { return lane / 4 % kSplits; }
  static __device__ __forceinline__ int row(int lane) { return lane / 4 / kSplits; }
  static __device__ __forceinline__ int column(int lane) { return split(lane) * 32 + lane % 4 * 8; }

  /// sums += weights . x. `a`, `b`: 8 weights of a row in the first and in the second half of A.
  template <class T>
  static __device__ __forceinline__ void multiply(float (&sums)[4], uint4 a, uint4 b, uint4 x) {
    mma_m16n8k16<T>(sums, {a.x, b.x, a.y, b.y}, x.x, x.y);
    mma_m16n8k16<T>(sums, {a.z, b.z, a.w, b.w}, x.z, x.w);
  }
};

}  // namespace warptune
