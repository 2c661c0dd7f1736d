#pragma once
// Weights of the op linear as kernels read them: single elements, plain or packed (packed_weights.h), and the
// conversion of packed words to pairs of T, the operands of tensor cores.
#include "kernels/common/pairs.cuh"
#include "kernels/common/quantize.cuh"
#include "kernels/linear/args.h"
#include "kernels/linear/packed_weights.h"

namespace warptune {

/// The struct that a kernel takes: `Args` of LinearArgsOf where weights are those of x.
template <int kWeights, class Args>
using WeightArgsOf = typename Conditional<kWeights == kWeightsSame, Args, QuantizedLinearArgs>::type;

/// Scales of groups are fp16, with fp4 bytes; those of rows and of blocks of fp8 are fp32. Super-blocks have
/// words of 16 bits.
template <int kWeights, int kGroup>
using WeightScale = typename Conditional<
    kGroup == 0 || kWeights == kWeightsFp8, float,
    typename Conditional<kWeights == kWeightsNvfp4, ue4m3,
                         typename Conditional<kWeights == kWeightsMxfp4, ue8m0, fp16>::type>::type>::type;

/// The scale of the group that column `k` of a row is in; kGroup 0: of the row.
template <int kIn, int kWeights, int kGroup>
__device__ __forceinline__ WeightScale<kWeights, kGroup> weight_scale(const void* scales, long long row,
                                                                      int k) {
  return static_cast<const WeightScale<kWeights, kGroup>*>(
      scales)[scale_index(kWeights, kGroup, kIn, row, k)];
}

/// Whether the rows of a block, 128, share a scale.
template <int kWeights, int kGroup>
inline constexpr bool kRowsShareScales = kGroup != 0 && kWeights == kWeightsFp8;

/// Whether rows have a scale of fp32, which multiplies their sums.
template <int kWeights, int kGroup>
inline constexpr bool kHasRowScales = kGroup == 0 || kWeights == kWeightsNvfp4;

template <int kWeights, int kGroup>
__device__ __forceinline__ float row_scale(const QuantizedLinearArgs& args, long long row) {
  static_assert(kHasRowScales<kWeights, kGroup>);
  return kWeights == kWeightsNvfp4 ? args.row_scales[row] : static_cast<const float*>(args.scales)[row];
}

/// A row of weights of T.
template <class T, int kIn>
struct PlainWeights {
  const T* row;

  template <class Args>
  __device__ __forceinline__ PlainWeights(const Args& args, long long r)
      : row(static_cast<const T*>(args.weight) + r * kIn) {}
  /// The column of x that element i multiplies.
  __device__ __forceinline__ int column(int i) const { return i; }
  __device__ __forceinline__ float operator[](int i) const { return to_float(row[i]); }
};

/// A row of packed weights.
template <int kIn, int kWeights, int kGroup, int kZeros, int kActOrder>
struct PackedWeights {
  const QuantizedLinearArgs& args;
  long long row;

  __device__ __forceinline__ PackedWeights(const QuantizedLinearArgs& args, long long r)
      : args(args), row(r) {}
  __device__ __forceinline__ int column(int i) const {
    if constexpr (kActOrder != 0) return args.order[i];
    return i;
  }
  __device__ __forceinline__ float operator[](int i) const {
    const PackedPosition at = packed_position(kWeights, kIn, row, i);
    const unsigned char byte = static_cast<const unsigned char*>(args.weight)[at.byte];
    if constexpr (has_super_blocks(kWeights)) return super_block_value(byte, at.shift, i);
    const float scaled =
        value(byte, at.shift, i) * to_float(weight_scale<kIn, kWeights, kGroup>(args.scales, row, i));
    return kWeights == kWeightsNvfp4 ? scaled * args.row_scales[row] : scaled;
  }

 private:
  __device__ __forceinline__ float super_block_value(unsigned char byte, int shift, int i) const {
    const int pair =
        static_cast<const unsigned short*>(args.scales)[scale_index(kWeights, kGroup, kIn, row, i)];
    const fp16* const steps = static_cast<const fp16*>(args.scales) + super_step_index(kWeights, kIn, row, i);
    if constexpr (kWeights == kWeightsQ6K)
      return integer(byte, shift) *
             (to_float(steps[0]) * static_cast<signed char>(pair >> i / kGroup % 2 * 8));
    else
      return fmaf(integer(byte, shift), to_float(steps[0]) * static_cast<float>(pair & 255),
                  to_float(steps[1]) * -static_cast<float>(pair >> 8));
  }
  __device__ __forceinline__ float value(unsigned char byte, int shift, int i) const {
    if constexpr (kWeights == kWeightsFp8) return to_float(fp8{byte});
    if constexpr (is_fp4(kWeights)) return fp4_value(byte >> shift & 15);
    int zero = 0;  // beside that of the format
    if constexpr (kZeros != 0) zero = args.zeros[scale_index(kWeights, kGroup, kIn, row, i)];
    return integer(byte, shift) - static_cast<float>(zero);
  }
  static __device__ __forceinline__ float integer(unsigned char byte, int shift) {
    return static_cast<float>((byte >> shift & ((1 << weight_bits(kWeights)) - 1)) - zero_point_of(kWeights));
  }
};

template <class T, int kIn, int kWeights, int kGroup, int kZeros, int kActOrder>
using WeightsOf = typename Conditional<kWeights == kWeightsSame, PlainWeights<T, kIn>,
                                       PackedWeights<kIn, kWeights, kGroup, kZeros, kActOrder>>::type;

/// Four bytes of a packed row as the registers of kFragments fragments of an operand: the pairs of columns 2t
/// and 2t + 8 of the first fragment, then of the next. An integer in the mantissa of an otherwise zero T is a
/// subnormal number, a multiple of one unit, and so is an integer that reaches the lowest bit of the
/// exponent: eight bits of bf16, eleven of fp16.
template <class T, int kWeights>
struct WeightWord {
  static constexpr bool kBf16 = is_same<T, bf16>;
  static constexpr bool kFourBits = kWeights == kWeightsInt4 || kWeights == kWeightsQ4K,
                        kIntegers = kWeights != kWeightsFp8 && !is_fp4(kWeights);
  static constexpr int kFragments = weight_bits(kWeights) == 4 ? 2 : 1, kPairs = 2 * kFragments;
  static constexpr unsigned kMinusZero = 0x80008000u;  // neutral in an addition
  static constexpr int kZero = zero_point_of(kWeights);

  /// With kUnits 2, bits() gives pairs 1 and 3 in a unit 16 times as large. Products with x * kXScale stay in
  /// the range of fp32; their sums times kSumScale are sums of weights * x. Tensor cores multiply subnormal
  /// inputs exactly (Fasi et al., "Numerical behavior of NVIDIA tensor cores", 2021; measured on the A100).
  static constexpr int kUnits = kFourBits ? 2 : 1;
  static constexpr float kXScale = kBf16 && !is_fp4(kWeights) ? 0x1p64f : 1,
                         kSumScale = is_fp4(kWeights)          ? 1
                                     : kWeights == kWeightsFp8 ? (kBf16 ? 0x1p56f : 0x1p8f)
                                                               : (kBf16 ? 0x1p69f : 0x1p24f);
  /// Weights as multiples of the unit, a small power of two, by shifts and masks. fp4 has the unit 1 and
  /// takes a multiplication.
  static __device__ __forceinline__ void bits(unsigned (&pairs)[kPairs], unsigned word) {
    if constexpr (kFourBits) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i)
        pairs[i] = word >> i / 2 * 8 & (i % 2 == 0 ? 0x000f000fu : 0x00f000f0u);
    } else if constexpr (kIntegers) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) pairs[i] = __byte_perm(word, 0, i == 0 ? 0x4240 : 0x4341);
    } else if constexpr (kWeights == kWeightsFp8) {
      // Exponent and mantissa below the wider exponent of T, and the sign.
      constexpr int kShift = kBf16 ? 4 : 1;
      constexpr unsigned kMagnitude = 0x00010001u * (0x7f00 >> kShift);
      pairs[0] = word << (8 - kShift) & kMagnitude | word << 8 & 0x80008000u;
      pairs[1] = word >> kShift & kMagnitude | word & 0x80008000u;
    } else {
      // Both nibbles to the top of their halves, then the magnitude below the sign.
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        const unsigned nibbles = word << 4 * (3 - i), magnitude = nibbles >> (kBf16 ? 6 : 3);
        pairs[i] = multiply_pairs<T>(nibbles & 0x80008000u | magnitude & (kBf16 ? 0x01c001c0u : 0x0e000e00u),
                                     kBf16 ? 0x7e807e80u : 0x74007400u);  // 2^126, 2^14
      }
    }
  }

  /// Weights divided by kScale, exactly: bits() times a power of two, plus the bias.
  static constexpr float kScale = !kIntegers ? 1 : kBf16 ? 64 : 512;
  static __device__ __forceinline__ void convert(unsigned (&pairs)[kPairs], unsigned word, unsigned bias) {
    bits(pairs, word);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      if constexpr (kIntegers)
        pairs[i] = fma_pairs<T>(pairs[i], i % kUnits == 0 ? kFactor : kFactor16, bias);
      else if constexpr (kWeights == kWeightsFp8)
        pairs[i] = multiply_pairs<T>(pairs[i], kBf16 ? 0x7b807b80u : 0x5c005c00u);  // 2^120, 2^8
    }
  }
  /// The bias of convert() for a zero point below 256: -zero / kScale.
  static __device__ __forceinline__ unsigned bias(int zero) {
    return multiply_pairs<T>(static_cast<unsigned>(zero) * 0x10001u, 0x80008000u | kFactor);
  }

 private:
  // bf16: 2^127 and 2^123 make the unit 2^-133 to 1 / kScale. fp16: 2^15 and 2^11, unit 2^-24.
  static constexpr unsigned kFactor = kBf16 ? 0x7f007f00u : 0x78007800u,
                            kFactor16 = kBf16 ? 0x7d007d00u : 0x68006800u;
};

/// Whether weights of fp4 times the scale of their group are exact in T: six bits of mantissa with ue4m3, two
/// with ue8m0, which has the range of bf16.
template <class T, int kWeights>
inline constexpr bool kScaledWeightsAreExact = kWeights == kWeightsNvfp4 ||
                                               (kWeights == kWeightsMxfp4 && is_same<T, bf16>);

/// The scales of a row for kCount groups of a block of weights, every kStride-th. Those of fp4 are a vector
/// of bytes.
template <int kWeights, int kGroup, int kCount, int kStride = 1>
struct BlockScales {
  using Scale = WeightScale<kWeights, kGroup>;
  static constexpr bool kBytes = is_fp4(kWeights);
  typename Conditional<kBytes, unsigned, Scale>::type values[kBytes ? kCount / 4 : kCount];

  /// Scale i, that of column k of a row; with i = 0 all of fp4.
  template <int kIn>
  __device__ __forceinline__ void load(int i, const void* scales, long long row, int k) {
    if constexpr (!kBytes) {
      values[i] = weight_scale<kIn, kWeights, kGroup>(scales, row, k);
    } else if (i == 0) {
      const int first = k / block_columns(kWeights) * block_columns(kWeights);
      const auto vec = load_vec<kCount / 4>(reinterpret_cast<const unsigned*>(
          static_cast<const unsigned char*>(scales) + scale_index(kWeights, kGroup, kIn, row, first)));
#pragma unroll
      for (int w = 0; w < kCount / 4; ++w) values[w] = vec[w];
    }
  }
  /// Reads the scales of the block of column `column`. `slot`: the scales of eight rows (slot_scale_bytes);
  /// `row`: one of the eight, which of fp8 share them.
  __device__ __forceinline__ void read(const void* slot, int column, int row) {
    if constexpr (kBytes) {
      const auto vec =
          load_vec<kCount / 4>(static_cast<const unsigned*>(slot) +
                               (column / block_columns(kWeights) * kBlockRows + row) * (kCount / 4));
#pragma unroll
      for (int w = 0; w < kCount / 4; ++w) values[w] = vec[w];
    } else if constexpr (kWeights == kWeightsFp8) {
      values[0] = static_cast<const float*>(slot)[column / kGroup];
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        values[i] = static_cast<const Scale*>(slot)[(column / kGroup + i * kStride) * kBlockRows + row];
    }
  }
  __device__ __forceinline__ float operator[](int i) const {
    if constexpr (kWeights == kWeightsNvfp4)
      return __uint_as_float(byte(i, 0x0444) >> 4) * 0x1p120f;
    else if constexpr (kWeights == kWeightsMxfp4)
      return __uint_as_float(byte(i, 0x0444) >> 1);
    else
      return to_float(values[i]);
  }
  /// Pairs of T times scale i, exactly.
  template <class T>
  __device__ __forceinline__ unsigned multiply(unsigned pair, int i) const {
    static_assert(kScaledWeightsAreExact<T, kWeights>);
    constexpr bool kBf16 = is_same<T, bf16>;
    constexpr unsigned kRebias = kBf16 ? 0x7b807b80u : 0x5c005c00u;  // 2^120, 2^8
    unsigned scale = byte(i, 0x0404 | i % 4 << 4) >> (kWeights == kWeightsNvfp4 && kBf16 ? 4 : 1);
    if constexpr (kWeights == kWeightsNvfp4) scale = multiply_pairs<T>(scale, kRebias);
    return multiply_pairs<T>(pair, scale);
  }

 private:
  /// Byte i on top of a word whose other bytes `selector` chooses; 4: zero.
  __device__ __forceinline__ unsigned byte(int i, unsigned selector) const {
    return __byte_perm(values[i / 4], 0, static_cast<unsigned>(i % 4) << 12 | selector);
  }
};

/// A weight is d * scale * integer, less dmin * minimum where groups have minima. The products with d and
/// dmin are exact in fp32.
template <int kWeights, int kGroup, int kCount, int kStride>
requires(has_super_blocks(kWeights)) struct BlockScales<kWeights, kGroup, kCount, kStride> {
  static constexpr bool kOffsets = has_minima(kWeights);
  static constexpr int kWords = block_columns(kWeights) / 64;
  unsigned bytes[kWords];  // scales of the groups, each with its minimum
  unsigned steps;          // d and dmin

  /// With i = 0 those of the block of column k.
  template <int kIn>
  __device__ __forceinline__ void load(int i, const void* scales, long long row, int k) {
    if (i != 0) return;
    read(static_cast<const fp16*>(scales) + super_index(kIn, row, k) * super_words(kWeights),
         k % kSuperColumns, static_cast<int>(row % kBlockRows));
  }
  /// Reads the scales of all groups of the block, and d and dmin.
  __device__ __forceinline__ void read(const void* slot, int column, int row) {
    const fp16* const super = static_cast<const fp16*>(slot) + column / kSuperColumns * super_words(kWeights);
    if constexpr (kOffsets)
      steps = reinterpret_cast<const unsigned*>(super)[kBlockRows * kSuperGroupWords / 2 + row];
    else
      steps = reinterpret_cast<const unsigned short*>(super)[kBlockRows * kSuperGroupWords + row];
    const int block = column % kSuperColumns / block_columns(kWeights);
    const auto vec =
        load_vec<kWords>(reinterpret_cast<const unsigned*>(super) + (block * kBlockRows + row) * kWords);
#pragma unroll
    for (int w = 0; w < kWords; ++w) bytes[w] = vec[w];
  }
  __device__ __forceinline__ float d() const { return step(0); }
  __device__ __forceinline__ float dmin() const { return step(1); }
  __device__ __forceinline__ float scale(int i) const { return byte(kOffsets ? 2 * i : i); }
  __device__ __forceinline__ float minimum(int i) const { return byte(2 * i + 1); }
  /// The scale of a group of Q4_K as an integer, and its minimum; threads may ask for different groups.
  __device__ __forceinline__ int integer_scale(int group) const {
    return static_cast<int>(__byte_perm(word_of(group), 0, 0x4440u + static_cast<unsigned>(group % 2 * 2)));
  }
  __device__ __forceinline__ float minimum_of(int group) const { return byte(word_of(group), 2 * group + 1); }
  /// What multiplies the bytes of group i.
  __device__ __forceinline__ float operator[](int i) const { return d() * scale(i); }

 private:
  __device__ __forceinline__ float step(int i) const {
    return to_float((*reinterpret_cast<const Vec<fp16, 2>*>(&steps))[i]);
  }
  /// A byte below the exponent of 2^23 is that power plus the byte. The signed ones of Q6_K plus 128 are
  /// unsigned.
  __device__ __forceinline__ float byte(int i) const { return byte(bytes[i / 4], i); }
  static __device__ __forceinline__ float byte(unsigned word, int i) {
    const unsigned selector = 0x7440u | static_cast<unsigned>(i % 4);
    if (!kOffsets) word ^= 0x80808080u;
    return __uint_as_float(__byte_perm(word, 0x4b000000u, selector)) - (kOffsets ? 0x1p23f : 0x1p23f + 128);
  }
  __device__ __forceinline__ unsigned word_of(int group) const {
    static_assert(kOffsets && kWords == 2);
    return group < 2 ? bytes[0] : bytes[1];
  }
};

/// Whether groups have an offset beside their scale.
template <int kWeights>
inline constexpr bool kHasOffsets = has_minima(kWeights);

/// Whether integers and e4m3 are converted to weights times the scale of their group.
template <class T, int kWeights, int kGroup>
inline constexpr bool kConvertsScaled = kGroup != 0 && !is_fp4(kWeights);

/// Converts words of a row's group of integers, or of e4m3, to weights times the scale of the group, minus
/// its offset. Scale, offset and result are rounded to T. kZeros: the group has a zero point beside that of
/// the format. Then, and in fp16, an integer is converted before it is multiplied; else one fma does both.
template <class T, int kWeights, bool kZeros>
class GroupConverter {
  using Word = WeightWord<T, kWeights>;
  static_assert(!is_fp4(kWeights));
  static constexpr bool kFp8 = kWeights == kWeightsFp8, kOneStep = kFp8 || (Word::kBf16 && !kZeros);

 public:
  /// Results are weights divided by this: factors are finite, and small weights normal numbers.
  static constexpr float kScale = Word::kBf16 ? 0x1p32f : kFp8 ? 4 : 8;

  /// `scales`: the BlockScales of the row; `zero`: the zero point beside that of the format.
  template <class Scales>
  __device__ __forceinline__ GroupConverter(const Scales& scales, int group, int zero) {
    const float scale = scales[group];
    bias_ = Word::kMinusZero;
    if constexpr (kHasOffsets<kWeights>) bias_ = pair_of(-(scales.dmin() * scales.minimum(group)) / kScale);
    if constexpr (kFp8) {
      factor_ = pair_of(scale * (Word::kBf16 ? 0x1p120f / kScale : 0x1p8f / kScale));
    } else if constexpr (kOneStep) {
      // 2^101, 2^97 and -kZero / kScale.
      constexpr unsigned kFactor = 0x72007200u, kFactor16 = 0x70007000u,
                         kBias = Word::kZero == 8    ? 0xb100b100u
                                 : Word::kZero == 32 ? 0xb200b200u
                                                     : 0xb300b300u;
      const unsigned pair = pair_of(scale);
      factor_ = multiply_pairs<T>(pair, kFactor), factor16_ = multiply_pairs<T>(pair, kFactor16);
      if constexpr (Word::kZero != 0) bias_ = multiply_pairs<T>(pair, kBias);
    } else {
      factor_ = pair_of(scale * (Word::kScale / kScale));
      zero_ = Word::bias(Word::kZero + zero);
    }
  }
  __device__ __forceinline__ void convert(unsigned (&pairs)[Word::kPairs], unsigned word) const {
    if constexpr (kOneStep)
      Word::bits(pairs, word);
    else
      Word::convert(pairs, word, zero_);
#pragma unroll
    for (int i = 0; i < Word::kPairs; ++i)
      pairs[i] = fma_pairs<T>(pairs[i], kOneStep && i % Word::kUnits != 0 ? factor16_ : factor_, bias_);
  }

 private:
  static __device__ __forceinline__ unsigned pair_of(float v) { return pack2<T>(v, v); }

  unsigned factor_, factor16_, bias_;  // of bits(), in both units, or of integers
  unsigned zero_;                      // the bias of WeightWord::convert()
};

/// Converts word `word` of a row's block to pairs of T, times the scale of their group; fp4 not if
/// kScalesSums, where scales multiply sums. `scales`: the BlockScales of the row, which has one for every
/// kScaleFragments fragments; `zeros`: its zero points beside that of the format, with kZeros.
template <class T, int kWeights, int kGroup, bool kZeros, int kScaleFragments, bool kScalesSums, class Scales>
__device__ __forceinline__ void convert_word(unsigned (&pairs)[WeightWord<T, kWeights>::kPairs],
                                             unsigned bits, const Scales& scales, const signed char* zeros,
                                             int word) {
  using Word = WeightWord<T, kWeights>;
  const int group = word * Word::kFragments / kScaleFragments, zero = kZeros ? zeros[group] : 0;
  if constexpr (kConvertsScaled<T, kWeights, kGroup>) {
    GroupConverter<T, kWeights, kZeros>(scales, group, zero).convert(pairs, bits);
  } else {
    Word::convert(pairs, bits, Word::bias(Word::kZero + zero));
    if constexpr (kGroup != 0 && !kScalesSums)
#pragma unroll
      for (int i = 0; i < Word::kPairs; ++i)
        pairs[i] = scales.template multiply<T>(pairs[i], (word * Word::kFragments + i / 2) / kScaleFragments);
  }
}

}  // namespace warptune
