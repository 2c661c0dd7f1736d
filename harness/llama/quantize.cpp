#include "harness/llama/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

#include "harness/core/error.h"
#include "harness/core/parallel.h"

namespace warptune {
namespace {

constexpr int kThreads = 8;

/// The largest magnitude of a format.
float largest_value(int weights) {
  return weights == kWeightsInt4 ? 7.0f : weights == kWeightsInt8 ? 127.0f : 448.0f;
}

/// The bits of a value that was divided by its scale.
unsigned bits_of(int weights, float value) {
  if (weights == kWeightsFp8) return std::bit_cast<std::uint8_t>(fp8(value));
  const auto rounded = static_cast<int>(std::lrint(value));
  return static_cast<unsigned>(weights == kWeightsInt4 ? rounded + 8 : rounded & 0xff);
}

/// A matrix while its rows are filled.
class Quantizer {
 public:
  Quantizer(const WeightFormat& format, std::int64_t rows, std::int64_t columns)
      : format_(format), columns_(columns), group_(format.group == 0 ? columns : format.group) {
    matrix_.format = format;
    matrix_.weight.resize(static_cast<std::size_t>(packed_bytes(format.weights, rows, columns)));
    matrix_.scales.resize(static_cast<std::size_t>(scale_count(format.weights, format.group, rows, columns)) *
                          size_of(scale_dtype(format)));
  }

  /// Rows [first, first + values.size() / columns) share their scales.
  void put(std::int64_t first, std::span<const float> values) {
    const std::int64_t rows = static_cast<std::int64_t>(values.size()) / columns_;
    for (std::int64_t begin = 0; begin < columns_; begin += group_) {
      const auto each = [&](const auto& call) {
        for (std::int64_t row = 0; row < rows; ++row)
          for (std::int64_t i = begin; i < std::min(begin + group_, columns_); ++i)
            call(first + row, i, values[static_cast<std::size_t>(row * columns_ + i)]);
      };
      float largest = 0;
      each([&](std::int64_t, std::int64_t, float value) { largest = std::fmax(largest, std::fabs(value)); });
      const float scale = put_scale(first, begin, largest / largest_value(format_.weights));
      if (!std::isfinite(scale)) scales_are_finite_ = false;
      const float limit = largest_value(format_.weights);
      each([&](std::int64_t row, std::int64_t i, float value) {
        const float scaled = scale == 0 ? 0 : std::clamp(value / scale, -limit, limit);
        const PackedPosition at = packed_position(format_.weights, columns_, row, i);
        matrix_.weight[static_cast<std::size_t>(at.byte)] |=
            static_cast<std::byte>(bits_of(format_.weights, scaled) << at.shift);
      });
    }
  }
  bool scales_are_finite() const { return scales_are_finite_; }
  QuantizedMatrix take() { return std::move(matrix_); }

 private:
  /// Stores the scale of the group of a column, and returns it as it was rounded.
  float put_scale(std::int64_t row, std::int64_t column, float scale) {
    const DType dtype = scale_dtype(format_);
    const std::int64_t at = scale_index(format_.weights, format_.group, columns_, row, column);
    store(dtype, matrix_.scales.data(), at, scale);
    return static_cast<float>(load(dtype, matrix_.scales.data(), at));
  }

  WeightFormat format_;
  std::int64_t columns_, group_;
  QuantizedMatrix matrix_;
  std::atomic<bool> scales_are_finite_ = true;
};

void read_row(const FloatRows& part, std::int64_t row, std::int64_t columns, float* to) {
  with_float_dtype(part.dtype, [&]<class T>() {
    const std::byte* const from = part.data + row * columns * static_cast<std::int64_t>(sizeof(T));
    for (std::int64_t i = 0; i < columns; ++i) {
      T value;
      std::memcpy(&value, from + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
      to[i] = static_cast<float>(value);
    }
  });
}

}  // namespace

QuantizedMatrix quantize(const WeightFormat& format, std::span<const FloatRows> parts, std::int64_t columns) {
  if (format.zeros || format.act_order)
    throw InputError(
        fmt::format("weights are not quantized to '{}': zero points and an order of columns are "
                    "those of a checkpoint that has them",
                    format.str()));
  groups_of(format, columns);                                   // throws where they do not divide them
  std::vector<std::pair<const FloatRows*, std::int64_t>> rows;  // of the matrix, in their part
  for (const FloatRows& part : parts)
    for (std::int64_t row = 0; row < part.rows; ++row) rows.emplace_back(&part, row);
  const auto count = static_cast<std::int64_t>(rows.size());
  Quantizer quantizer(format, count, columns);
  // Rows of one scale; those of other threads write other bytes.
  const std::int64_t step = format.weights == kWeightsFp8 && format.group != 0 ? kFp8ScaleRows : 1;
  std::atomic<bool> finite = true;
  parallel_for((count + step - 1) / step, kThreads, [&](std::int64_t i) {
    const std::int64_t first = i * step, last = std::min(first + step, count);
    std::vector<float> values(static_cast<std::size_t>((last - first) * columns));
    for (std::int64_t row = first; row < last; ++row) {
      const auto& [part, of_part] = rows[static_cast<std::size_t>(row)];
      read_row(*part, of_part, columns, values.data() + (row - first) * columns);
    }
    if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) finite = false;
    if (finite) quantizer.put(first, values);
  });
  if (!finite) throw InputError("the weights hold a value that is not finite; they cannot be quantized");
  if (!quantizer.scales_are_finite())
    throw InputError(
        "the weights hold a value that is too large: the scale of its group is infinite in fp16");
  return quantizer.take();
}

}  // namespace warptune
