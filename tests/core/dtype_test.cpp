#include "harness/core/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/core/error.h"

namespace warptune {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(),
                 kNan = std::numeric_limits<double>::quiet_NaN();

/// The 16-bit pattern of a stored value.
unsigned bits(DType dtype, double value) {
  std::uint16_t stored = 0;
  store(dtype, &stored, 0, value);
  return stored;
}
unsigned bf16_bits(double value) { return bits(DType::bf16, value); }
unsigned fp16_bits(double value) { return bits(DType::fp16, value); }

TEST(Bf16, KnownPatterns) {
  EXPECT_EQ(bf16_bits(0.0), 0x0000u);
  EXPECT_EQ(bf16_bits(-0.0), 0x8000u);
  EXPECT_EQ(bf16_bits(1.0), 0x3f80u);
  EXPECT_EQ(bf16_bits(-2.0), 0xc000u);
  EXPECT_EQ(bf16_bits(3.140625), 0x4049u);
  EXPECT_EQ(bf16_bits(kInf), 0x7f80u);
  EXPECT_EQ(bf16_bits(-kInf), 0xff80u);
}

TEST(Bf16, TiesGoToEven) {
  EXPECT_EQ(bf16_bits(1 + 0x1p-8), 0x3f80u);            // halfway, down to even
  EXPECT_EQ(bf16_bits(1 + 3 * 0x1p-8), 0x3f82u);        // halfway, up to even
  EXPECT_EQ(bf16_bits(1 + 0x1p-8 + 0x1p-20), 0x3f81u);  // just above halfway
  EXPECT_EQ(bf16_bits(2 - 0x1p-9), 0x4000u);            // carries into the exponent
}

TEST(Bf16, EdgesOfTheRange) {
  EXPECT_EQ(bf16_bits(0x1.fep127), 0x7f7fu);  // largest
  EXPECT_EQ(bf16_bits(0x1.ffp127), 0x7f80u);  // halfway to the next: infinity
  EXPECT_EQ(bf16_bits(0x1p-126), 0x0080u);    // smallest normal
  EXPECT_EQ(bf16_bits(0x1p-133), 0x0001u);    // smallest subnormal
  EXPECT_EQ(bf16_bits(0x1p-134), 0x0000u);    // halfway to it, down to even
  EXPECT_EQ(bf16_bits(0x1.8p-133), 0x0002u);  // halfway between the first two
}

TEST(Bf16, NanStaysNan) {
  EXPECT_TRUE(std::isnan(round_to(DType::bf16, kNan)));
  // A NaN whose payload is only in the low bits must not become infinity.
  const float low = std::bit_cast<float>(0x7f800001u);
  EXPECT_EQ(bf16(low).bits, 0x7fc0u);
  EXPECT_EQ(bf16(std::bit_cast<float>(0xffffffffu)).bits, 0xffffu);
}

TEST(Fp16, KnownPatterns) {
  EXPECT_EQ(fp16_bits(0.0), 0x0000u);
  EXPECT_EQ(fp16_bits(-0.0), 0x8000u);
  EXPECT_EQ(fp16_bits(1.0), 0x3c00u);
  EXPECT_EQ(fp16_bits(-2.0), 0xc000u);
  EXPECT_EQ(fp16_bits(65504), 0x7bffu);
  EXPECT_EQ(fp16_bits(65520), 0x7c00u);  // halfway to the next: infinity
  EXPECT_EQ(fp16_bits(65519), 0x7bffu);
  EXPECT_EQ(fp16_bits(kInf), 0x7c00u);
  EXPECT_TRUE(std::isnan(round_to(DType::fp16, kNan)));
}

TEST(Fp16, TiesGoToEvenAndSubnormals) {
  EXPECT_EQ(fp16_bits(1 + 0x1p-11), 0x3c00u);
  EXPECT_EQ(fp16_bits(1 + 3 * 0x1p-11), 0x3c02u);
  EXPECT_EQ(fp16_bits(1 + 0x1p-11 + 0x1p-20), 0x3c01u);
  EXPECT_EQ(fp16_bits(0x1p-14), 0x0400u);
  EXPECT_EQ(fp16_bits(0x1p-24), 0x0001u);
  EXPECT_EQ(fp16_bits(0x1p-25), 0x0000u);
  EXPECT_EQ(fp16_bits(0x1.8p-24), 0x0002u);
}

TEST(DType, EveryBitPatternSurvivesARoundTrip) {
  for (const DType dtype : {DType::bf16, DType::fp16})
    for (unsigned pattern = 0; pattern < 0x10000; ++pattern) {
      const auto stored = static_cast<std::uint16_t>(pattern);
      const double value = load(dtype, &stored, 0);
      if (!std::isnan(value)) {
        ASSERT_EQ(bits(dtype, value), pattern) << name_of(dtype);
      }
    }
}

TEST(Fp8, KnownPatterns) {
  EXPECT_EQ(fp8(0.0f).bits, 0x00u);
  EXPECT_EQ(fp8(-0.0f).bits, 0x80u);
  EXPECT_EQ(fp8(1.0f).bits, 0x38u);
  EXPECT_EQ(fp8(-2.0f).bits, 0xc0u);
  EXPECT_EQ(fp8(448.0f).bits, 0x7eu);
  EXPECT_EQ(fp8(0x1p-6f).bits, 0x08u);  // smallest normal
  EXPECT_EQ(fp8(0x1p-9f).bits, 0x01u);  // smallest subnormal
}

TEST(Fp8, TiesGoToEvenAndTheLargestStays) {
  EXPECT_EQ(fp8(1 + 0x1p-4f).bits, 0x38u);
  EXPECT_EQ(fp8(1 + 3 * 0x1p-4f).bits, 0x3au);
  EXPECT_EQ(fp8(1 + 0x1p-4f + 0x1p-20f).bits, 0x39u);
  EXPECT_EQ(fp8(0x1p-10f).bits, 0x00u);
  EXPECT_EQ(fp8(0x1.8p-9f).bits, 0x02u);
  EXPECT_EQ(fp8(0x1.fp-7f).bits, 0x08u);  // halfway, up into the normal ones
  EXPECT_EQ(fp8(1e30f).bits, 0x7eu);
  EXPECT_EQ(fp8(-std::numeric_limits<float>::infinity()).bits, 0xfeu);
  EXPECT_TRUE(std::isnan(round_to(DType::fp8, kNan)));
}

TEST(Fp8, EveryBitPatternSurvivesARoundTrip) {
  for (unsigned pattern = 0; pattern < 0x100; ++pattern) {
    const auto stored = static_cast<std::uint8_t>(pattern);
    const double value = load(DType::fp8, &stored, 0);
    EXPECT_EQ(std::isnan(value), (pattern & 0x7f) == 0x7f);
    if (!std::isnan(value)) {
      EXPECT_EQ(fp8(static_cast<float>(value)).bits, pattern);
    }
  }
}

TEST(UnsignedScales, HoldMagnitudes) {
  for (unsigned pattern = 0; pattern < 0x100; ++pattern) {
    const auto stored = static_cast<std::uint8_t>(pattern);
    const double e4m3 = load(DType::ue4m3, &stored, 0), e8m0 = load(DType::ue8m0, &stored, 0);
    EXPECT_EQ(std::isnan(e8m0), pattern == 0xff);
    if (pattern < 0x7f) {
      EXPECT_EQ(e4m3, load(DType::fp8, &stored, 0));
      EXPECT_EQ(ue4m3(static_cast<float>(-e4m3)).bits, pattern);
    }
    if (pattern == 0xff) continue;
    EXPECT_EQ(e8m0, pattern == 0 ? 0 : std::exp2(static_cast<int>(pattern) - 127));
    EXPECT_EQ(ue8m0(static_cast<float>(e8m0)).bits, pattern);
  }
  EXPECT_EQ(round_to(DType::ue8m0, -0.99), 0.5) << "down to a power of two";
  EXPECT_EQ(round_to(DType::ue8m0, 4), 4);
  EXPECT_EQ(round_to(DType::ue4m3, 1000), 448);
}

TEST(Int8, RoundsToEvenAndSaturates) {
  EXPECT_EQ(round_to(DType::int8, 2.5), 2);
  EXPECT_EQ(round_to(DType::int8, -3.5), -4);
  EXPECT_EQ(round_to(DType::int8, -1000), -127);
  EXPECT_EQ(round_to(DType::int8, 127.4), 127);
}

TEST(DType, Int32RoundsToNearest) {
  EXPECT_EQ(round_to(DType::int32, 2.6), 3);
  EXPECT_EQ(round_to(DType::int32, -2147483648.0), -2147483648.0);
}

TEST(DType, Int64AndFp64AreForTensors) {
  EXPECT_EQ(parse_tensor_dtype("int64"), DType::int64);
  EXPECT_EQ(parse_tensor_dtype("fp64"), DType::fp64);
  EXPECT_THROW(parse_dtype("fp64"), InputError);
  EXPECT_THROW(parse_tensor_dtype("fp8"), InputError);
  EXPECT_EQ(size_of(DType::int64), 8u);
  EXPECT_EQ(round_to(DType::fp64, 1.0 / 3), 1.0 / 3);
  EXPECT_EQ(round_to(DType::int64, 5e9 + 0.4), 5e9);
  EXPECT_TRUE(is_exact(DType::int64) && is_exact(DType::int32) && !is_exact(DType::int8));
  EXPECT_TRUE(is_float(DType::fp64) && !is_float(DType::int64));
  for (const DType dtype : {DType::int8, DType::int32, DType::int64, DType::fp64, DType::bf16}) {
    alignas(8) unsigned char bytes[8];
    std::fill(std::begin(bytes), std::end(bytes), static_cast<unsigned char>(poison_byte(dtype)));
    const double poison = load(dtype, bytes, 0);
    EXPECT_TRUE(poison == poison_value(dtype) || (std::isnan(poison) && is_float(dtype))) << name_of(dtype);
  }
}

TEST(DType, NamesAndSizes) {
  EXPECT_EQ(parse_dtype("bf16"), DType::bf16);
  EXPECT_EQ(size_of(DType::fp16), 2u);
  EXPECT_EQ(size_of(DType::int32), 4u);
  EXPECT_EQ(epsilon_of(DType::fp16), 0x1p-10);
  EXPECT_EQ(round_to(DType::bf16, 1 + epsilon_of(DType::bf16)), 1 + 0x1p-7);
  try {
    parse_dtype("fp8");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(), "unknown dtype 'fp8'; known are fp32, fp16, bf16, int32");
  }
}

}  // namespace
}  // namespace warptune
