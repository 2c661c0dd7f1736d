#pragma once
// Products of packed integers of four bits and one token on integer tensor cores, without a conversion of
// weights: their bytes are the M operand of mma.sync as they are, digits of x its N. A warp rounds its x to
// fixed-point numbers of 22 bits and a sign, relative to the largest, and splits them into four signed digits
// of base 256 (slices of the Ozaki scheme: Ootomo et al., "DGEMM on Integer Matrix Multiplication Unit",
// 2024). A byte 16 h + l of two weights is multiplied by x_h, and its lower nibble by 16 x_l - x_h: the sum
// is 16 (h x_h + l x_l).
//
// Layout: the four words that a lane has of a row are the four registers of M, in the order in which they are
// loaded, so words 0 and 2 are row g of the products, words 1 and 3 row g + 8. Columns 0 to 3 of N are the
// digits for words 0 and 2, columns 4 to 7 those for words 1 and 3. Of the four lanes of a row, lane t has
// the products of words t / 2 and t / 2 + 2: of the lower digits if t is even, else of the upper ones.
#include "kernels/common/mma.cuh"
#include "kernels/linear/packed/packed_dot.cuh"
#include "kernels/linear/packed/packed_one_token.cuh"

namespace warptune {

/// The magic number of conversions, 1.5 * 2^23, and its bits: a float below 2^22 plus it is rounded to an
/// integer, in the mantissa, and an integer plus the bits is such a float.
inline constexpr float kMagic = 0x1.8p23f;
inline constexpr unsigned kMagicBits = 0x4b400000u;

/// This lane's digits of x for a block of weights: what multiplies bytes, and their lower nibbles.
using BlockDigits = uint2[2];

/// The products of a row's words: with several groups in a block those of word t / 2, then of t / 2 + 2.
template <class S>
using RowProducts = int[S::kLaneGroups][4];

/// Adds the products of a row's words, in both operands.
template <class S>
__device__ __forceinline__ void multiply_row(RowProducts<S>& products, const uint4& words,
                                             const BlockDigits& x) {
#pragma unroll
  for (int operand = 0; operand < 2; ++operand) {
    const unsigned mask = operand == 0 ? ~0u : 0x0f0f0f0fu;
    const uint4 a = {words.x & mask, words.y & mask, words.z & mask, words.w & mask};
    if constexpr (S::kLaneGroups == 1) {
      mma_m16n8k32(products[0], a, x[operand]);
    } else {
      mma_m16n8k16(products[0], {a.x, a.y}, x[operand].x);
      mma_m16n8k16(products[1], {a.z, a.w}, x[operand].y);
    }
  }
}

/// The shared memory of all warps.
template <class S>
struct alignas(16) DigitOperands {
  /// [block][bytes or nibbles][word % 2][digit][lane of a row]: the digits for both words. Digit n is at n
  /// ^ swizzle().
  Vec<unsigned, 2> digits[S::kBlocks][2][2][4][4];
  float sums[max_of(S::kXBlocks, 1)][S::kXGroups];
  float squares[S::kWarps];
};

/// One token: the columns of x that a warp multiplies, as digits, and their sums over groups, which zero
/// points and minima multiply. x has at most 22 bits, and products are 16 times as large.
template <class S>
requires(S::kDigits) class WarpActivations<S> : public OneTokenActivations<S, DigitOperands<S>, 4, 22, 4> {
  using Base = OneTokenActivations<S, DigitOperands<S>, 4, 22, 4>;
  using Base::kVecs, Base::lane_, Base::part, Base::block, Base::warp_block, Base::has_vector, Base::shared_;
  using typename Base::T, typename Base::Columns;
  static constexpr bool kSuper = has_super_blocks(S::kWeights);

 public:
  using Base::Base;
  /// Sums of x over the groups of a block that the lane scales. In super-blocks lane t of a row has group t.
  using Groups = Vec<float, kSuper ? 1 : S::kLaneGroups>;
  /// With kDirect: what sums() is for all blocks together.
  float direct_sum = 0;

  template <class Then>
  __device__ __forceinline__ void load(int begin, const Then& then) {
    Columns x;
    [[maybe_unused]] TokenSquares<S::kIn> token_squares;
    this->load_x(x, token_squares, begin, then);
    float values[kVecs][8], squares = 0, largest[4] = {};
#pragma unroll
    for (int j = 0; j < kVecs; ++j)
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float v = unpack2<T>(x[j][i / 2])[i % 2];
        if (!has_vector(j)) v = 0;
        if constexpr (S::kNorm) {
          squares = fmaf(v, v, squares);
          v *= this->norm(j, i / 2)[i % 2];
        }
        largest[i % 4] = max_nan(largest[i % 4], fabsf(v));
        values[j][i] = v;
      }
    const float factor =
        this->choose_unit(max_nan(max_nan(largest[0], largest[1]), max_nan(largest[2], largest[3])));
#pragma unroll
    for (int j = 0; j < kVecs; ++j)
      if (has_vector(j)) store_digits(j, values[j], factor);
    add_columns(values, factor);
    this->finish(squares, token_squares);
  }
  /// This lane's digits for block `block`, the warp's block number `step`.
  __device__ __forceinline__ void read(BlockDigits& x, int block, int step) const {
    const int half = lane_ / 16, digit = lane_ / 4 % 4 ^ swizzle(half, step);
#pragma unroll
    for (int operand = 0; operand < 2; ++operand) {
      const auto words = shared_.digits[block][operand][half][digit][lane_ % 4];
      x[operand] = {words[0], words[1]};
    }
  }
  /// The sums of a block, as multiples of the unit. Of the lanes of a row that have the same groups only the
  /// first has sums, others have 0. Where all weights have one zero point, sums are times minus the zero
  /// point.
  __device__ __forceinline__ Groups sums(int block) const {
    constexpr int kSameGroups = 4 / S::kGroupStride;  // lanes
    const auto& of_block = shared_.sums[block];
    Groups sums;
    if constexpr (kSuper) {
      sums[0] = of_block[lane_ % 4];
    } else {
#pragma unroll
      for (int i = 0; i < S::kLaneGroups; ++i)
        sums[i] = lane_ % kSameGroups == 0 ? of_block[S::first_group() + i * S::kGroupStride] : 0;
    }
    return sums;
  }

 private:
  /// Keeps stores free of bank conflicts: the lanes of a store have even and odd words of two blocks.
  static __device__ __forceinline__ int swizzle(int half, int step) { return half + step % 2 * 2; }

  __device__ __forceinline__ void store_digits(int j, const float (&values)[8], float factor) {
    unsigned v[8];  // integers plus kMagicBits
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = __float_as_uint(fmaf(values[i], factor, kMagic));
    const auto high = [](unsigned v) { return v + (kDigitBias - kMagicBits); };
    const auto low = [&](int l, int h) { return 16 * v[l] + (kDigitBias - 15 * kMagicBits - v[h]); };
    // Bytes as PackedPosition has them.
    unsigned digits[2][4];
    split_digits(digits[0], high(v[2]), high(v[6]), high(v[3]), high(v[7]));
    split_digits(digits[1], low(0, 2), low(4, 6), low(1, 3), low(5, 7));
    const int half = part() % 2;
#pragma unroll
    for (int operand = 0; operand < 2; ++operand)
#pragma unroll
      for (int n = 0; n < 4; ++n)
        shared_.digits[block(j)][operand][half][n ^ swizzle(half, warp_block(j))][lane_ % 4][part() / 2] =
            digits[operand][n];
  }
  /// Word n has digit n of four integers, to which kDigitBias is added.
  static __device__ __forceinline__ void split_digits(unsigned (&words)[4], unsigned v0, unsigned v1,
                                                      unsigned v2, unsigned v3) {
    const unsigned u0 = v0 ^ kDigitBias, u1 = v1 ^ kDigitBias, u2 = v2 ^ kDigitBias, u3 = v3 ^ kDigitBias;
    const unsigned low01 = __byte_perm(u0, u1, 0x5140), low23 = __byte_perm(u2, u3, 0x5140),
                   high01 = __byte_perm(u0, u1, 0x7362), high23 = __byte_perm(u2, u3, 0x7362);
    words[0] = __byte_perm(low01, low23, 0x5410), words[1] = __byte_perm(low01, low23, 0x7632);
    words[2] = __byte_perm(high01, high23, 0x5410), words[3] = __byte_perm(high01, high23, 0x7632);
  }
  /// Stores the sums of x over groups.
  __device__ __forceinline__ void add_columns(const float (&values)[kVecs][8], float factor) {
    factor *= S::Word::kZero != 0 && !S::kZeros ? -16 * static_cast<float>(S::Word::kZero) : 16;
    if constexpr (S::kDirect) {
      float sum = 0;
#pragma unroll
      for (int j = 0; j < kVecs; ++j) sum += add(values[j]);
      sum = warp_reduce<Sum>(sum);
      direct_sum = lane_ % 4 == 0 ? factor * sum : 0;
    } else {
      constexpr int kGroupWords = 4 / max_of(S::kBlockScales, 1);
#pragma unroll
      for (int j = 0; j < kVecs; ++j) {
        float sum = factor * warp_reduce<Sum, 4 * kGroupWords>(add(values[j]));
        const int group = part() / kGroupWords;
        if (kSuper && group % 2 != 0) sum *= 0x1p-16f;  // a lane of upper digits multiplies it
        if (lane_ % (4 * kGroupWords) == 0 && has_vector(j)) shared_.sums[block(j)][group] = sum;
      }
    }
  }
  static __device__ __forceinline__ float add(const float (&x)[8]) {
    return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
  }

  /// Makes digits unsigned; an XOR makes them signed again.
  static constexpr unsigned kDigitBias = 0x80808080u;
};

/// The sums of a warp for one token.
template <class S>
requires(S::kDigits) class PackedAccumulator<S> {
 public:
  __device__ __forceinline__ explicit PackedAccumulator(const WarpActivations<S>& x) : x_(x) {}
  /// Adds weights * x of block `block` of the columns in shared memory, the warp's block number `step`.
  __device__ __forceinline__ void add(const PackedBlock<S> (&weights)[S::kTiles][2], int block, int step) {
    BlockDigits x;
    x_.read(x, block, step);
    if constexpr (S::kDirect) {
#pragma unroll
      for (int row = 0; row < 2 * S::kTiles; ++row)
        multiply_row<S>(products_[row], weights[row / 2][row % 2].bytes, x);
    } else {
      const auto x_sums = x_.sums(block);
#pragma unroll
      for (int row = 0; row < 2 * S::kTiles; ++row) {
        const auto& weights_of_row = weights[row / 2][row % 2];
        RowProducts<S> products;
#pragma unroll
        for (int i = 0; i < 4 * S::kLaneGroups; ++i)
          products[i / 4][i % 4] = kSuper ? 0 : static_cast<int>(kMagicBits);  // their sums are below 2^22
        multiply_row<S>(products, weights_of_row.bytes, x);
        float& to = sums_[row / 2][0][row % 2 * 2];
        if constexpr (kSuper)
          to = add_super_block(to, products, weights_of_row, x_sums[0]);
        else
          to = add_groups(to, products, weights_of_row, x_sums);
      }
    }
  }
  /// The sums of tokens as in PackedSums, the first of which exists.
  __device__ __forceinline__ const PackedSums<S>& finish() {
    const float factor = threadIdx.x % 2 == 0 ? x_.unit : 65536 * x_.unit;
#pragma unroll
    for (int row = 0; row < 2 * S::kTiles; ++row) {
      float& sum = sums_[row / 2][0][row % 2 * 2];
      if constexpr (S::kDirect)
        sum = fmaf(static_cast<float>(upper(products_[row][0])), 256,
                   static_cast<float>(lower(products_[row][0])) + x_.direct_sum);
      sum = warp_reduce<Sum, 4>(factor * sum);
    }
    return sums_;
  }

 private:
  static constexpr bool kSuper = has_super_blocks(S::kWeights);

  /// The products of the lane's two digits.
  static __device__ __forceinline__ int lower(const int (&products)[4]) {
    return threadIdx.x % 4 < 2 ? products[0] : products[2];
  }
  static __device__ __forceinline__ int upper(const int (&products)[4]) {
    return threadIdx.x % 4 < 2 ? products[1] : products[3];
  }
  /// `sum` and the products of a row times the scales of their groups.
  static __device__ __forceinline__ float add_groups(float sum, const RowProducts<S>& products,
                                                     const PackedBlock<S>& row,
                                                     const typename WarpActivations<S>::Groups& x_sums) {
#pragma unroll
    for (int i = 0; i < S::kLaneGroups; ++i) {
      float product = fmaf(__int_as_float(upper(products[i])), 256, -256 * kMagic) +
                      (__int_as_float(lower(products[i])) + (S::kZeros ? -kMagic : x_sums[i] - kMagic));
      if constexpr (S::kZeros)
        product = fmaf(-static_cast<float>(S::Word::kZero + row.zeros[i]), x_sums[i], product);
      if constexpr (S::kGroup != 0)
        sum = fmaf(row.scales[i], product, sum);
      else
        sum += product;
    }
    return sum;
  }
  /// Likewise of super-blocks, whose integer scales multiply the products as integers.
  static __device__ __forceinline__ float add_super_block(float sum, const RowProducts<S>& products,
                                                          const PackedBlock<S>& row, float x_sum) {
    int low = 0, high = 0;
#pragma unroll
    for (int i = 0; i < S::kLaneGroups; ++i) {
      const int scale = row.scales.integer_scale(i * S::kGroupStride + S::first_group());
      low += scale * lower(products[i]);
      high += scale * upper(products[i]);
    }
    const float product = fmaf(static_cast<float>(high), 256, static_cast<float>(low));
    const float offset = row.scales.minimum_of(threadIdx.x % 4) * x_sum;
    return fmaf(-row.scales.dmin(), offset, fmaf(row.scales.d(), product, sum));
  }

  const WarpActivations<S>& x_;
  PackedSums<S> sums_ = {};
  RowProducts<S> products_[2 * S::kTiles] = {};
};

}  // namespace warptune
