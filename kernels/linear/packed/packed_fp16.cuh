#pragma once
// Products of packed e4m3 weights and one token in fp16, from sm_90 on. One instruction converts two weights,
// exactly: a word of four takes three instructions, in bf16 it takes five. A warp rounds its x to fp16
// relative to its largest magnitude: a value 2^29 below that keeps eleven bits.
//
// Layout: a word converts to columns 2t and 2t + 8 of a fragment, then 2t + 1 and 2t + 9, so the operand of x
// has this order, too. All columns of N are x.
#include "kernels/common/mma.cuh"
#include "kernels/common/quantize.cuh"
#include "kernels/linear/packed/packed_dot.cuh"
#include "kernels/linear/packed/packed_one_token.cuh"

namespace warptune {

/// The shared memory of all warps: [block][two fragments][lane of a row][fragment], the operand of a
/// fragment.
template <class S>
struct alignas(16) Fp16Operands {
  uint2 x[S::kBlocks][S::kFragments / 2][4][2];
  float squares[S::kWarps];
};

/// One token: the columns of x that a warp multiplies, as operands, at most 2^15.
template <class S>
requires(S::kFp16) class WarpActivations<S> : public OneTokenActivations<S, Fp16Operands<S>, 2, 15, 0> {
  using Base = OneTokenActivations<S, Fp16Operands<S>, 2, 15, 0>;
  using Base::kVecs, Base::lane_, Base::part, Base::block, Base::has_vector, Base::shared_;
  using typename Base::T, typename Base::Columns;

 public:
  using Base::Base;
  template <class Then>
  __device__ __forceinline__ void load(int begin, const Then& then) {
    Columns x;
    [[maybe_unused]] TokenSquares<S::kIn> token_squares;
    this->load_x(x, token_squares, begin, then);
    float values[kVecs][8], squares = 0, largest = 0;
#pragma unroll
    for (int j = 0; j < kVecs; ++j) {
      float of_vector[2] = {}, squares_of_vector = 0;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float v = unpack2<T>(x[j][i / 2])[i % 2];
        if constexpr (S::kNorm) {
          squares_of_vector = fmaf(v, v, squares_of_vector);
          v *= this->norm(j, i / 2)[i % 2];
        }
        of_vector[i % 2] = max_nan(of_vector[i % 2], fabsf(v));
        values[j][i] = v;
      }
      if (has_vector(j)) {
        largest = max_nan(largest, max_nan(of_vector[0], of_vector[1]));
        squares += squares_of_vector;
      }
    }
    const float factor = this->choose_unit(largest);
#pragma unroll
    for (int j = 0; j < kVecs; ++j)
      if (has_vector(j)) store(block(j), values[j], factor);
    this->finish(squares, token_squares);
  }
  /// The operands of fragments 2 * i and the next of a block.
  __device__ __forceinline__ uint4 read(int block, int i) const {
    return *reinterpret_cast<const uint4*>(shared_.x[block][i][lane_ % 4]);
  }

 private:
  /// Stores a vector: columns 2t to 2t + 3 of a fragment, and 2t + 8 to 2t + 11.
  __device__ __forceinline__ void store(int block, const float (&v)[8], float factor) {
    auto& fragments = shared_.x[block][part() / 2];
    const int t = lane_ % 2 * 2;
    const auto pair = [&](int i) { return pack2<fp16>(v[i] * factor, v[i + 4] * factor); };
    fragments[t][part() % 2] = {pair(0), pair(1)};
    fragments[t + 1][part() % 2] = {pair(2), pair(3)};
  }
};

/// The sums of a warp for one token.
template <class S>
requires(S::kFp16) class PackedAccumulator<S> {
 public:
  __device__ __forceinline__ explicit PackedAccumulator(const WarpActivations<S>& x) : x_(x) {}
  /// Adds weights * x of block `block` of the columns in shared memory.
  __device__ __forceinline__ void add(const PackedBlock<S> (&weights)[S::kTiles][2], int block,
                                      int /*step*/) {
    [[maybe_unused]] PackedSums<S> partial = {};  // sums of this block, which has one scale
    PackedSums<S>& to = S::kDirect ? sums_ : partial;
#pragma unroll
    for (int pair = 0; pair < S::kFragments / 2; ++pair) {
      const uint4 x = x_.read(block, pair);
#pragma unroll
      for (int t = 0; t < S::kTiles; ++t)
#pragma unroll
        for (int f = 0; f < 2; ++f) {
          const Fp16Pairs low = to_fp16_pairs<true>(weights[t][0].word(2 * pair + f), fp8{}),
                          high = to_fp16_pairs<true>(weights[t][1].word(2 * pair + f), fp8{});
          mma_m16n8k16<fp16>(to[t][0], {low.first, high.first, low.second, high.second}, f == 0 ? x.x : x.z,
                             f == 0 ? x.y : x.w);
        }
    }
    if constexpr (!S::kDirect)
#pragma unroll
      for (int t = 0; t < S::kTiles; ++t)
#pragma unroll
        for (int i = 0; i < 4; i += S::kSumStep)
          sums_[t][0][i] = fmaf(weights[t][i / 2].scales[0], partial[t][0][i], sums_[t][0][i]);
  }
  /// The sums after the last block.
  __device__ __forceinline__ const PackedSums<S>& finish() {
#pragma unroll
    for (int t = 0; t < S::kTiles; ++t)
#pragma unroll
      for (int i = 0; i < 4; i += S::kSumStep) sums_[t][0][i] *= x_.unit;
    return sums_;
  }

 private:
  const WarpActivations<S>& x_;
  PackedSums<S> sums_ = {};
};

}  // namespace warptune
