// Weights of 16 or 32 bits, quantized: every value against a calculation by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/random.h"
#include "harness/llama/quantized_matrix.h"
#include "tests/llama/super_blocks.h"

namespace warptune {
namespace {

using testing::super_block_weight;

/// Uniform in [-1, 1), of float or bf16, with one group of zeros.
struct RandomRows {
  RandomRows(std::int64_t rows, std::int64_t columns, DType dtype = DType::fp32, std::uint64_t seed = 1)
      : rows(rows),
        columns(columns),
        dtype(dtype),
        bytes(static_cast<std::size_t>(rows * columns) * size_of(dtype)) {
    for (std::int64_t i = 0; i < rows * columns; ++i)
      store(dtype, bytes.data(), i, i < 32 ? 0.0f : random_value(seed, static_cast<std::uint64_t>(i), 1));
  }
  double at(std::int64_t row, std::int64_t column) const {
    return load(dtype, bytes.data(), row * columns + column);
  }
  FloatRows view() const { return {dtype, rows, bytes.data()}; }

  std::int64_t rows, columns;
  DType dtype;
  std::vector<std::byte> bytes;
};

/// The rows that share a scale where their group does.
std::int64_t rows_of_scale(const WeightFormat& format) {
  return format.weights == kWeightsFp8 && format.group != 0 ? kFp8ScaleRows : 1;
}

struct Element {
  float value, scale;  // the weight is their product
};

Element element(const QuantizedMatrix& m, std::int64_t columns, std::int64_t row, std::int64_t column) {
  const std::int64_t index = scale_index(m.format.weights, m.format.group, columns, row, column);
  const auto scale = static_cast<float>(load(scale_dtype(m.format), m.scales.data(), index));
  const PackedPosition at = packed_position(m.format.weights, columns, row, column);
  const auto byte = static_cast<unsigned>(m.weight.at(static_cast<std::size_t>(at.byte)));
  if (is_fp4(m.format.weights)) {
    const float row_scale = m.row_scales.empty() ? 1 : m.row_scales.at(static_cast<std::size_t>(row));
    return {fp4_value(static_cast<int>(byte >> at.shift & 15)), scale * row_scale};
  }
  if (m.format.weights == kWeightsInt4) return {static_cast<float>((byte >> at.shift & 15)) - 8, scale};
  if (m.format.weights == kWeightsInt8)
    return {static_cast<float>(static_cast<int>(byte) - zero_point_of(kWeightsInt8)), scale};
  const std::byte bits{static_cast<unsigned char>(byte)};
  return {static_cast<float>(load(DType::fp8, &bits, 0)), scale};
}

/// The largest magnitude among what shares the scale of an element.
double largest_of_group(const RandomRows& from, const WeightFormat& format, std::int64_t row,
                        std::int64_t column) {
  const std::int64_t group = format.group == 0 ? from.columns : format.group, block = rows_of_scale(format),
                     first_row = row / block * block, first = column / group * group;
  double largest = 0;
  for (std::int64_t r = first_row; r < std::min(first_row + block, from.rows); ++r)
    for (std::int64_t i = first; i < first + group; ++i) largest = std::max(largest, std::abs(from.at(r, i)));
  return largest;
}

float largest_value(int weights) {
  if (is_fp4(weights)) return 6;
  return weights == kWeightsInt4 ? 7 : weights == kWeightsInt8 ? 127 : 448;
}

/// The scale of nvfp4 that a whole matrix has, else 1.
float global_scale(const RandomRows& from, const WeightFormat& format) {
  if (format.weights != kWeightsNvfp4) return 1;
  double largest = 0;
  for (std::int64_t i = 0; i < from.rows * from.columns; ++i)
    largest = std::max(largest, std::abs(from.at(0, i)));
  return 1 / (448 * 6 / static_cast<float>(largest));
}

/// The nearest of the 16 values of e2m1, where two are, the one with an even pattern.
float nearest_fp4(float value) {
  int best = 0;
  for (int pattern = 1; pattern < 16; ++pattern) {
    const float error = std::abs(fp4_value(pattern) - value), least = std::abs(fp4_value(best) - value);
    if (error < least || (error == least && pattern % 2 == 0)) best = pattern;
  }
  return fp4_value(best);
}

/// The distance between neighbors of a value, in units of the scale: e4m3 has 3 bits of mantissa, e2m1 one.
double step_of(int weights, double magnitude) {
  if (is_fp4(weights)) return magnitude < 2 ? 0.5 : magnitude < 4 ? 1 : 2;
  if (weights != kWeightsFp8) return 1;
  return std::exp2(std::max(std::floor(std::log2(std::max(magnitude, 1e-30))), -6.0) - 3);
}

void expect_quantized(const WeightFormat& format, const RandomRows& from) {
  SCOPED_TRACE(format.str() + ", " + std::to_string(from.rows) + " x " + std::to_string(from.columns));
  const FloatRows part = from.view();
  const QuantizedMatrix m = quantize(format, std::span(&part, 1), from.columns);
  EXPECT_EQ(m.format, format);
  EXPECT_TRUE(m.zeros.empty() && m.order.empty());
  ASSERT_EQ(static_cast<std::int64_t>(m.weight.size()),
            packed_bytes(format.weights, from.rows, from.columns));
  ASSERT_EQ(m.scales.size(),
            static_cast<std::size_t>(scale_count(format.weights, format.group, from.rows, from.columns)) *
                size_of(scale_dtype(format)));
  const float largest = largest_value(format.weights), global = global_scale(from, format);
  // ue8m0 is rounded down, so that the largest magnitude is 4 to 8.
  const float wanted = format.weights == kWeightsMxfp4 ? 4 : largest;
  for (std::int64_t row = 0; row < from.rows; ++row)
    for (std::int64_t i = 0; i < from.columns; ++i) {
      const Element got = element(m, from.columns, row, i);
      // The scale, as it is stored.
      const auto scale = static_cast<float>(largest_of_group(from, format, row, i)) / (wanted * global);
      std::byte stored[4];
      store(scale_dtype(format), stored, 0, scale);
      ASSERT_EQ(got.scale, global * static_cast<float>(load(scale_dtype(format), stored, 0)))
          << row << " " << i;
      // The nearest value, ties to even: an integer, or that of the conversion to e4m3.
      float value =
          got.scale == 0 ? 0 : std::clamp(static_cast<float>(from.at(row, i)) / got.scale, -largest, largest);
      if (format.weights == kWeightsFp8) {
        store(DType::fp8, stored, 0, value);
        value = static_cast<float>(load(DType::fp8, stored, 0));
      } else {
        value = is_fp4(format.weights) ? nearest_fp4(value) : std::nearbyint(value);
      }
      ASSERT_EQ(got.value, value) << row << " " << i;
      ASSERT_LE(std::abs(got.value), largest);
      // A scale may be too small by half a unit in the last place, which the largest value multiplies; one of
      // mxfp4 by the difference of 6 and 8.
      const double step = step_of(format.weights, std::abs(from.at(row, i)) / std::max(got.scale, 1e-30f)),
                   rounding = format.weights == kWeightsMxfp4       ? 2
                              : scale_dtype(format) == DType::ue4m3 ? largest * 0x1p-4
                              : scale_dtype(format) == DType::fp16  ? largest * 0x1p-11
                                                                    : 1e-4;
      ASSERT_LE(std::abs(got.value * got.scale - from.at(row, i)),
                got.scale * std::max(step / 2 * (1 + 1e-5), rounding))
          << row << " " << i;
    }
}

TEST(Quantize, EachWeightIsTheNearestOfItsGroup) {
  for (const std::int64_t rows : {1, 5, 8, 131}) {
    for (const int group : {0, 32, 64, 128})
      for (const int weights : {kWeightsInt4, kWeightsInt8})
        expect_quantized({.weights = weights, .group = group}, RandomRows(rows, 256));
    for (const int group : {0, 128})
      expect_quantized({.weights = kWeightsFp8, .group = group}, RandomRows(rows, 256));
    for (const int weights : {kWeightsNvfp4, kWeightsMxfp4})
      expect_quantized({.weights = weights, .group = fixed_group(weights)}, RandomRows(rows, 256));
  }
  expect_quantized({.weights = kWeightsNvfp4, .group = 16}, RandomRows(3, 48));
  expect_quantized({.weights = kWeightsInt4, .group = 32}, RandomRows(3, 96));  // padded blocks
  expect_quantized({.weights = kWeightsInt8}, RandomRows(9, 50));
  expect_quantized({.weights = kWeightsFp8}, RandomRows(9, 50));
  for (const DType dtype : {DType::bf16, DType::fp16})
    expect_quantized({.weights = kWeightsInt4, .group = 64}, RandomRows(7, 128, dtype));
}

/// The most steps of a group that has a minimum.
int most_steps(int weights) { return weights == kWeightsQ4K ? 15 : 31; }

TEST(Quantize, WeightsOfGroupsWithMinimaAreNearThoseOfTheirGroup) {
  for (const auto& [weights, rows] : {std::pair{kWeightsQ4K, 1}, {kWeightsQ4K, 9}, {kWeightsQ5K, 9}}) {
    const RandomRows from(rows, 512);
    const FloatRows part = from.view();
    const QuantizedMatrix m = quantize({.weights = weights, .group = 32}, std::span(&part, 1), 512);
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = 0; i < 512; ++i) {
        const auto [value, step] = super_block_weight(m, 512, row, i);
        // Half a step, and what 6 bits of a step and of a minimum round: half of 1 / 63 of the largest, times
        // the steps.
        const double rounding = 2.0 / 63 / 2 + 1.0 / 63 / 2;
        ASSERT_NEAR(value, from.at(row, i), step / 2 + rounding + 1e-3) << row << " " << i;
        ASSERT_LE(step, 2.0 / most_steps(weights) * 1.001);
      }
  }
}

TEST(Quantize, WeightsOnTheGridOfGroupsWithMinimaAreExact) {
  // Steps of 63 / 64 from a minimum of -31.5; the second super-block has no negative values.
  for (const int weights : {kWeightsQ4K, kWeightsQ5K}) {
    const std::size_t steps = static_cast<std::size_t>(most_steps(weights)) + 1;
    std::vector<float> values(512);
    for (std::size_t i = 0; i < 512; ++i)
      values[i] = static_cast<float>(i % 32 % steps) / 64 * 63 - (i < 256 ? 0.5f * 63 : 0);
    const FloatRows part = {DType::fp32, 1, reinterpret_cast<const std::byte*>(values.data())};
    const QuantizedMatrix m = quantize({.weights = weights, .group = 32}, std::span(&part, 1), 512);
    for (std::int64_t i = 0; i < 512; ++i)
      ASSERT_EQ(super_block_weight(m, 512, 0, i).value, values[static_cast<std::size_t>(i)])
          << weights << " " << i;
  }
}

TEST(Quantize, WeightsOfQ6KAreNearThoseOfTheirGroup) {
  for (const std::int64_t rows : {1, 9}) {
    const RandomRows from(rows, 512);
    const FloatRows part = from.view();
    const QuantizedMatrix m = quantize({.weights = kWeightsQ6K, .group = 16}, std::span(&part, 1), 512);
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = 0; i < 512; ++i) {
        const auto [value, step] = super_block_weight(m, 512, row, i);
        // Half a step, or one where the value would be 32, and what a scale of 128ths rounds, 32 times.
        ASSERT_NEAR(value, from.at(row, i), std::abs(step) + 32 * (1.0 / 32 / 128 / 2) + 1e-3)
            << row << " " << i;
        ASSERT_LE(std::abs(step), 1.0 / 32 * 1.005);
      }
  }
}

TEST(Quantize, WeightsOfQ6KOnItsGridAreExact) {
  // Scales of 128 to 113 / 128 and values from -32; the second super-block has the other signs.
  std::vector<float> values(512);
  for (std::size_t i = 0; i < 512; ++i)
    values[i] = static_cast<float>(128 - i % 256 / 16) * (static_cast<float>(i % 16 * 4) - 32) /
                (i < 256 ? 128 : -64);
  const FloatRows part = {DType::fp32, 1, reinterpret_cast<const std::byte*>(values.data())};
  const QuantizedMatrix m = quantize({.weights = kWeightsQ6K, .group = 16}, std::span(&part, 1), 512);
  for (std::int64_t i = 0; i < 512; ++i)
    ASSERT_EQ(super_block_weight(m, 512, 0, i).value, values[static_cast<std::size_t>(i)]) << i;
}

TEST(Quantize, SlicesOfSuperBlocksAreThoseOfTheMatrix) {
  const RandomRows from(3, 768);
  const FloatRows part = from.view();
  for (const WeightFormat& format :
       {WeightFormat{.weights = kWeightsQ4K, .group = 32}, WeightFormat{.weights = kWeightsQ5K, .group = 32},
        WeightFormat{.weights = kWeightsQ6K, .group = 16}}) {
    const QuantizedMatrix whole = quantize(format, std::span(&part, 1), 768),
                          middle = quantize(format, std::span(&part, 1), {256, 256, 768});
    for (std::int64_t row = 0; row < 3; ++row)
      for (std::int64_t i = 0; i < 256; ++i)
        ASSERT_EQ(super_block_weight(middle, 256, row, i).value,
                  super_block_weight(whole, 768, row, 256 + i).value);
  }
}

TEST(Quantize, PaddingIsZero) {
  const RandomRows from(9, 50);
  const FloatRows part = from.view();
  QuantizedMatrix m = quantize({.weights = kWeightsInt8}, std::span(&part, 1), 50);
  for (std::int64_t row = 0; row < 9; ++row)
    for (std::int64_t i = 0; i < 50; ++i)
      m.weight[static_cast<std::size_t>(packed_position(kWeightsInt8, 50, row, i).byte)] = std::byte{0};
  EXPECT_TRUE(std::ranges::all_of(m.weight, [](std::byte b) { return b == std::byte{0}; }));
}

TEST(Quantize, PartsAreOneBelowTheOther) {
  const RandomRows a(5, 128, DType::fp32, 1), b(140, 128, DType::bf16, 2);
  RandomRows both(145, 128);
  for (std::int64_t i = 0; i < 145 * 128; ++i)
    store(DType::fp32, both.bytes.data(), i, i < 5 * 128 ? a.at(0, i) : b.at(0, i - 5 * 128));
  const std::vector<FloatRows> parts = {a.view(), b.view()};
  const FloatRows whole = both.view();
  for (const WeightFormat& format :
       {WeightFormat{.weights = kWeightsInt4, .group = 64}, WeightFormat{.weights = kWeightsInt8},
        WeightFormat{.weights = kWeightsFp8, .group = 128}}) {
    const QuantizedMatrix of_parts = quantize(format, parts, 128),
                          at_once = quantize(format, std::span(&whole, 1), 128);
    EXPECT_EQ(of_parts.weight, at_once.weight) << format.str();
    EXPECT_EQ(of_parts.scales, at_once.scales) << format.str();
  }
}

TEST(Quantize, PartsOfNvfp4HaveScalesOfTheirOwn) {
  const RandomRows a(5, 128, DType::fp32, 1), b(9, 128, DType::bf16, 2);
  const WeightFormat format{.weights = kWeightsNvfp4, .group = 16};
  const std::vector<FloatRows> parts = {a.view(), b.view()};
  const QuantizedMatrix m = quantize(format, parts, 128);
  ASSERT_EQ(m.row_scales.size(), 14u);
  for (std::size_t row = 0; row < 14; ++row)
    EXPECT_EQ(m.row_scales[row], global_scale(row < 5 ? a : b, format));
}

TEST(Quantize, DataNeedNotBeAligned) {
  const RandomRows from(3, 64);
  std::vector<std::byte> shifted(from.bytes.size() + 1);
  std::memcpy(shifted.data() + 1, from.bytes.data(), from.bytes.size());
  const FloatRows aligned = from.view(), odd = {DType::fp32, 3, shifted.data() + 1};
  const WeightFormat format{.weights = kWeightsInt4, .group = 32};
  EXPECT_EQ(quantize(format, std::span(&odd, 1), 64).weight,
            quantize(format, std::span(&aligned, 1), 64).weight);
}

TEST(Quantize, ZerosStayZero) {
  const std::vector<std::byte> bytes(20 * 128 * sizeof(float));
  const FloatRows zeros = {DType::fp32, 20, bytes.data()};
  for (const WeightFormat& format :
       {WeightFormat{.weights = kWeightsInt4, .group = 32}, WeightFormat{.weights = kWeightsInt8},
        WeightFormat{.weights = kWeightsFp8}, WeightFormat{.weights = kWeightsFp8, .group = 128},
        WeightFormat{.weights = kWeightsNvfp4, .group = 16},
        WeightFormat{.weights = kWeightsMxfp4, .group = 32}}) {
    const QuantizedMatrix m = quantize(format, std::span(&zeros, 1), 128);
    for (std::int64_t row = 0; row < 20; ++row)
      for (std::int64_t i = 0; i < 128; ++i) {
        const Element got = element(m, 128, row, i);
        ASSERT_EQ(got.value, 0) << format.str();
        ASSERT_EQ(got.value * got.scale, 0) << format.str();
      }
  }
}

/// The smallest weights have a scale of 0 in fp16, and the largest one that kernels cannot take.
TEST(Quantize, ScalesOfGroupsHaveARange) {
  const WeightFormat format{.weights = kWeightsInt4, .group = 32};
  std::vector<float> values(32, 1e-9f);
  const FloatRows tiny = {DType::fp32, 1, reinterpret_cast<const std::byte*>(values.data())};
  const QuantizedMatrix m = quantize(format, std::span(&tiny, 1), 32);
  for (std::int64_t i = 0; i < 32; ++i) EXPECT_EQ(element(m, 32, 0, i).value * element(m, 32, 0, i).scale, 0);
  std::ranges::fill(values, 1e3f);
  EXPECT_NO_THROW(quantize(format, std::span(&tiny, 1), 32));
  std::ranges::fill(values, 1e4f);
  EXPECT_THROW(quantize(format, std::span(&tiny, 1), 32), InputError) << "its scale is 10000 / 7";
  const WeightFormat blocks{.weights = kWeightsFp8, .group = 128};
  values.assign(128, 4e5f);
  const FloatRows block = {DType::fp32, 1, reinterpret_cast<const std::byte*>(values.data())};
  EXPECT_NO_THROW(quantize(blocks, std::span(&block, 1), 128));
  std::ranges::fill(values, 5e5f);
  EXPECT_THROW(quantize(blocks, std::span(&block, 1), 128), InputError) << "its scale is 500000 / 448";
  for (const int weights : {kWeightsQ4K, kWeightsQ5K, kWeightsQ6K}) {
    values.assign(kSuperColumns, 1e5f);
    const FloatRows large = {DType::fp32, 1, reinterpret_cast<const std::byte*>(values.data())};
    const WeightFormat super{.weights = weights, .group = fixed_group(weights)};
    EXPECT_THROW(quantize(super, std::span(&large, 1), kSuperColumns), InputError) << super.str();
    values.assign(kSuperColumns, 1e3f);
    const FloatRows usual = {DType::fp32, 1, reinterpret_cast<const std::byte*>(values.data())};
    EXPECT_NO_THROW(quantize(super, std::span(&usual, 1), kSuperColumns)) << super.str();
  }
}

std::string error_of(const WeightFormat& format, const FloatRows& part, std::int64_t columns) {
  try {
    quantize(format, std::span(&part, 1), columns);
    return "no error";
  } catch (const InputError& e) {
    return e.what();
  }
}

TEST(Quantize, WhatCannotBeQuantizedIsOneSentence) {
  RandomRows from(9, 96);
  EXPECT_EQ(error_of({.weights = kWeightsInt4, .group = 64}, from.view(), 96),
            "weights of 96 columns have no groups of 64; it must divide them");
  EXPECT_EQ(error_of({.weights = kWeightsInt4, .group = 32, .zeros = true}, from.view(), 96),
            "weights are not quantized to 'int4:group=32:zeros': zero points and an order of columns are "
            "those of a "
            "checkpoint that has them");
  EXPECT_NE(error_of({.weights = kWeightsInt8, .group = 32, .act_order = true}, from.view(), 96), "no error");
  for (const float value : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
    store(DType::fp32, from.bytes.data(), 8 * 96 + 95, value);
    for (const WeightFormat& format :
         {WeightFormat{.weights = kWeightsInt4, .group = 32}, WeightFormat{.weights = kWeightsInt8},
          WeightFormat{.weights = kWeightsFp8}, WeightFormat{.weights = kWeightsNvfp4, .group = 16}})
      EXPECT_EQ(error_of(format, from.view(), 96),
                "the weights hold a value that is not finite; they cannot be quantized");
  }
}

}  // namespace
}  // namespace warptune
