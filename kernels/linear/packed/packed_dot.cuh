#pragma once
// Products of packed weights and x on tensor cores, for the GEMVs on quantized weights: weights are the M
// operand of mma.sync, tokens its N. WeightWord makes weights exact in T; zero points and minima multiply
// sums of x (packed_x.cuh). The scale of a group multiplies its sum, in fp32. One token and integers:
// packed_digits.cuh.
#include "kernels/linear/packed/packed_gemv.cuh"
#include "kernels/linear/packed/packed_x.cuh"

namespace warptune {

/// A lane's part of a block of weights, with the scales and zero points of its row that it applies.
template <class S>
struct PackedBlock {
  uint4 bytes;
  BlockScales<S::kWeights, S::kGroup, S::kLaneGroups, S::kGroupStride> scales;
  signed char zeros[S::kLaneGroups];

  __device__ __forceinline__ unsigned word(int i) const {
    return i == 0 ? bytes.x : i == 1 ? bytes.y : i == 2 ? bytes.z : bytes.w;
  }
  /// The pairs of fragments 2 * i and the next.
  __device__ __forceinline__ void get(unsigned (&pairs)[4], int i) const {
    if constexpr (S::Word::kPairs == 4) {
      S::Word::bits(pairs, word(i));
    } else {
#pragma unroll
      for (int f = 0; f < 2; ++f)
        S::Word::bits(reinterpret_cast<unsigned(&)[2]>(pairs[2 * f]), word(2 * i + f));
    }
  }
};

/// The operands of fragments 2 * pair and 2 * pair + 1 of a tile of 16 rows. Where pairs have two units, the
/// first operand has the pairs of the smaller one.
template <class S>
__device__ __forceinline__ void get_operands(unsigned (&a)[2][4], const PackedBlock<S> (&rows)[2], int pair) {
  constexpr int kUnits = S::Word::kUnits;
  unsigned pairs[2][4];
#pragma unroll
  for (int half = 0; half < 2; ++half) rows[half].get(pairs[half], pair);
#pragma unroll
  for (int f = 0; f < 2; ++f)
#pragma unroll
    for (int i = 0; i < 4; ++i) a[f][i] = pairs[i % 2][2 * f / kUnits + i / 2 * kUnits];
}

/// Sums of a block whose groups have minima, in units of d and of dmin.
template <class S>
struct SuperSums {
  PackedSums<S> scaled = {};   // scale times the sums of a group
  PackedSums<S> offsets = {};  // minimum times the sums of x over the group

  __device__ __forceinline__ void add(const PackedBlock<S> (&weights)[2], int tile, int n, int i, int group,
                                      float sum, float x_sum) {
    const auto& scales = weights[i / 2].scales;
    scaled[tile][n][i] = fmaf(scales.scale(group), sum, scaled[tile][n][i]);
    offsets[tile][n][i] = fmaf(scales.minimum(group), x_sum, offsets[tile][n][i]);
  }
  __device__ __forceinline__ void add_to(PackedSums<S>& sums,
                                         const PackedBlock<S> (&weights)[S::kTiles][2]) const {
#pragma unroll
    for (int t = 0; t < S::kTiles; ++t)
#pragma unroll
      for (int n = 0; n < S::kTokenTiles; ++n)
#pragma unroll
        for (int i = 0; i < 4; i += S::kSumStep) {
          const auto& scales = weights[t][i / 2].scales;
          sums[t][n][i] =
              fmaf(scales.d(), scaled[t][n][i], fmaf(-scales.dmin(), offsets[t][n][i], sums[t][n][i]));
        }
  }
};

/// The sums of a warp.
template <class S>
class PackedAccumulator {
 public:
  __device__ __forceinline__ explicit PackedAccumulator(const WarpActivations<S>& x) : x_(x) {}
  /// Adds weights * x of block `block` of the columns in shared memory, the warp's block number `step`.
  __device__ __forceinline__ void add(const PackedBlock<S> (&weights)[S::kTiles][2], int block,
                                      int /*step*/) {
    using Word = typename S::Word;
    constexpr bool kOffsets = kHasOffsets<S::kWeights>;
    constexpr int kUnits = Word::kUnits;  // each has sums of its own
    [[maybe_unused]] float partial[kUnits][S::kTiles][S::kTokenTiles][4];
    [[maybe_unused]] typename WarpActivations<S>::Groups x_sums[S::kTokenTiles][2];
    [[maybe_unused]] SuperSums<S> super_sums;
    if constexpr (S::kXBlocks != 0)
#pragma unroll
      for (int n = 0; n < S::kTokenTiles; ++n)
#pragma unroll
        for (int i = 0; i < 2; i += S::kSumStep) x_sums[n][i] = x_.sums(block, n, i);
    // The initial sums of a group are what zero points contribute.
    const auto begin_group = [&](int t, int n, int unit, int group) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float sum = 0;
        if constexpr (Word::kZero != 0)
          if (unit == 0 && i % S::kSumStep == 0) {
            sum = x_sums[n][i % 2][group];
            if constexpr (S::kZeros) sum *= -static_cast<float>(Word::kZero + weights[t][i / 2].zeros[group]);
          }
        partial[unit][t][n][i] = sum;
      }
    };
    const auto end_group = [&](int t, int n, int group) {
#pragma unroll
      for (int i = 0; i < 4; i += S::kSumStep) {
        float sum = partial[0][t][n][i];
        if constexpr (kUnits == 2) sum = fmaf(partial[1][t][n][i], 0.0625f, sum);
        if constexpr (kOffsets)
          super_sums.add(weights[t], t, n, i, group, sum, x_sums[n][i % 2][group]);
        else if constexpr (S::kGroup == 0)
          sums_[t][n][i] += sum;
        else
          sums_[t][n][i] = fmaf(weights[t][i / 2].scales[group], sum, sums_[t][n][i]);
      }
    };
#pragma unroll
    for (int pair = 0; pair < S::kFragments / 2; ++pair) {
      unsigned b[S::kTokenTiles][4];
#pragma unroll
      for (int n = 0; n < S::kTokenTiles; ++n)
        ldmatrix_x4(b[n], x_.addresses[n] + 2 * block * S::kColumns + pair * 64);
#pragma unroll
      for (int t = 0; t < S::kTiles; ++t) {
        unsigned a[2][4];
        get_operands<S>(a, weights[t], pair);
#pragma unroll
        for (int f = 0; f < 2; ++f) {
          const int fragment = 2 * pair + f, unit = f % kUnits, group = fragment / S::kScaleFragments;
#pragma unroll
          for (int n = 0; n < S::kTokenTiles; ++n) {
            if (!S::kDirect && fragment % S::kScaleFragments == unit) begin_group(t, n, unit, group);
            mma_m16n8k16<typename S::T>(S::kDirect ? sums_[t][n] : partial[unit][t][n], a[f], b[n][2 * f],
                                        b[n][2 * f + 1]);
            if (!S::kDirect && (fragment + 1) % S::kScaleFragments == 0) end_group(t, n, group);
          }
        }
      }
    }
    if constexpr (kOffsets) super_sums.add_to(sums_, weights);
  }
  /// The sums after the last block.
  __device__ __forceinline__ const PackedSums<S>& finish() {
    if constexpr (S::kDirect && S::Word::kIntegers)
#pragma unroll
      for (int t = 0; t < S::kTiles; ++t)
#pragma unroll
        for (int n = 0; n < S::kTokenTiles; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) sums_[t][n][i] += x_.direct_sums[n][i];
    return sums_;
  }

 private:
  const WarpActivations<S>& x_;
  PackedSums<S> sums_ = {};
};

}  // namespace warptune
