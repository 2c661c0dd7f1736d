// Quantizes matrices of 16 or 32 bits.

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

#include "harness/core/error.h"
#include "harness/core/parallel.h"
#include "harness/llama/quantized_matrix.h"

namespace warptune {
namespace {

constexpr int kThreads = 8;

/// The largest magnitude of a format.
float largest_value(int weights) {
  if (is_fp4(weights)) return 6.0f;
  return weights == kWeightsInt4 ? 7.0f : weights == kWeightsInt8 ? 127.0f : 448.0f;
}

/// The nearest e2m1, ties to even: its steps are 0.5 below 2, 1 below 4, else 2.
unsigned fp4_bits(float value) {
  const float magnitude = std::fabs(value);
  const auto bits = magnitude < 2   ? std::lrint(2 * magnitude)
                    : magnitude < 4 ? 2 + std::lrint(magnitude)
                                    : 4 + std::lrint(magnitude / 2);
  return static_cast<unsigned>(bits) | (value < 0 ? 8u : 0u);
}

/// The bits of a value that was divided by its scale.
unsigned bits_of(int weights, float value) {
  if (weights == kWeightsFp8) return std::bit_cast<std::uint8_t>(fp8(value));
  if (is_fp4(weights)) return fp4_bits(value);
  const auto rounded = static_cast<int>(std::lrint(value));
  return static_cast<unsigned>(rounded + zero_point_of(weights));
}

/// A matrix while its rows are filled.
class Quantizer {
 public:
  /// `row_scales`: of nvfp4.
  Quantizer(const WeightFormat& format, std::int64_t rows, const Slice& columns,
            std::vector<float> row_scales)
      : format_(format), columns_(columns), group_(format.group == 0 ? columns.stored : format.group) {
    matrix_.format = format;
    matrix_.row_scales = std::move(row_scales);
    matrix_.weight.resize(static_cast<std::size_t>(packed_bytes(format.weights, rows, columns.count)));
    matrix_.scales.resize(
        static_cast<std::size_t>(scale_count(format.weights, format.group, rows, columns.count)) *
        size_of(scale_dtype(format)));
  }

  /// Rows [first, first + values.size() / columns) share their scales. `values`: of all columns.
  void put(std::int64_t first, std::span<const float> values) {
    const std::int64_t stored = columns_.stored, rows = static_cast<std::int64_t>(values.size()) / stored;
    for (std::int64_t begin = 0; begin < stored; begin += group_) {
      const std::int64_t end = std::min(begin + group_, stored);
      if (end <= columns_.first || begin >= columns_.first + columns_.count) continue;
      const auto each = [&](const auto& call) {
        for (std::int64_t row = 0; row < rows; ++row)
          for (std::int64_t i = begin; i < end; ++i)
            call(first + row, i - columns_.first, values[row * stored + i]);
      };
      float largest = 0;
      each([&](std::int64_t, std::int64_t, float value) { largest = std::fmax(largest, std::fabs(value)); });
      const float row_scale = matrix_.row_scales.empty() ? 1 : matrix_.row_scales[first];
      // A power of two is rounded down, so that the largest magnitude is 4 to 8.
      const float wanted = format_.weights == kWeightsMxfp4 ? 4 : largest_value(format_.weights);
      const float scale = row_scale * put_scale(first, std::max<std::int64_t>(begin - columns_.first, 0),
                                                largest / (wanted * row_scale));
      const bool is_limited = format_.group != 0 && !is_fp4(format_.weights);
      if (!(is_limited ? std::abs(scale) < kMaxGroupScale : std::isfinite(scale))) scales_fit_ = false;
      const float limit = largest_value(format_.weights);
      each([&](std::int64_t row, std::int64_t i, float value) {
        if (i < 0 || i >= columns_.count) return;
        const float scaled = scale == 0 ? 0 : std::clamp(value / scale, -limit, limit);
        const PackedPosition at = packed_position(format_.weights, columns_.count, row, i);
        matrix_.weight[at.byte] |= static_cast<std::byte>(bits_of(format_.weights, scaled) << at.shift);
      });
    }
  }
  /// The same of a row of super-blocks.
  void put_super_blocks(std::int64_t row, std::span<const float> values) {
    for (std::int64_t column = 0; column < columns_.count; column += kSuperColumns)
      put_super_block(row, column,
                      values.subspan(static_cast<std::size_t>(columns_.first + column), kSuperColumns));
  }
  bool scales_fit() const { return scales_fit_; }
  QuantizedMatrix take() { return std::move(matrix_); }

 private:
  /// A weight of a group is a stored value times `step`, less `offset`.
  struct Group {
    float step, offset = 0;
  };
  static constexpr std::size_t kMaxGroups = kSuperColumns / 16;
  using Groups = std::array<Group, kMaxGroups>;

  /// As the reference quantizer of llama.cpp without its search.
  void put_super_block(std::int64_t row, std::int64_t column, std::span<const float> values) {
    const bool is_q6_k = format_.weights == kWeightsQ6K;
    const Groups groups =
        is_q6_k ? put_q6_k_scales(row, column, values) : put_minima_scales(row, column, values);
    for (std::int64_t i = 0; i < kSuperColumns; ++i) {
      const auto [step, offset] = groups[static_cast<std::size_t>(i / group_)];
      const float in_steps = step == 0 ? 0 : (values[static_cast<std::size_t>(i)] + offset) / step;
      const auto value =
          zero_point_of(format_.weights) + std::lrint(is_q6_k ? std::clamp(in_steps, -32.0f, 31.0f)
                                                              : std::clamp(in_steps, 0.0f, most_steps()));
      const PackedPosition at = packed_position(format_.weights, columns_.count, row, column + i);
      matrix_.weight[static_cast<std::size_t>(at.byte)] |= static_cast<std::byte>(value << at.shift);
    }
  }
  /// The largest value of q4_k or q5_k.
  float most_steps() const { return format_.weights == kWeightsQ4K ? 15 : 31; }
  /// The steps of a group go from its minimum, at most 0, to its maximum; steps and minima are rounded to
  /// 63rds of the largest of the super-block.
  Groups put_minima_scales(std::int64_t row, std::int64_t column, std::span<const float> values) {
    constexpr std::size_t kGroup = 32, kGroups = kSuperColumns / kGroup;
    std::array<float, kGroups> steps, minima;
    for (std::size_t g = 0; g < kGroups; ++g) {
      const auto [low, high] = std::ranges::minmax(values.subspan(g * kGroup, kGroup));
      minima[g] = -std::fmin(low, 0);
      steps[g] = (high + minima[g]) / most_steps();
    }
    const float largest_step = std::ranges::max(steps), largest_minimum = std::ranges::max(minima);
    const float d = put_step(row, column, 0, largest_step / 63),
                dmin = put_step(row, column, 1, largest_minimum / 63);
    Groups groups;
    for (std::size_t g = 0; g < kGroups; ++g) {
      const auto of_63 = [](float value, float largest) {
        return largest == 0 ? 0 : static_cast<int>(std::lrint(63 * (value / largest)));
      };
      const int scale = of_63(steps[g], largest_step), minimum = of_63(minima[g], largest_minimum);
      std::byte* const pair = super_bytes(row, column + static_cast<std::int64_t>(g * kGroup));
      pair[0] = static_cast<std::byte>(scale);
      pair[1] = static_cast<std::byte>(minimum);
      groups[g] = {d * static_cast<float>(scale), dmin * static_cast<float>(minimum)};
    }
    return groups;
  }
  /// The largest magnitude of a group becomes -32; scales are rounded to 128ths of the largest of the
  /// super-block, which becomes -128.
  Groups put_q6_k_scales(std::int64_t row, std::int64_t column, std::span<const float> values) {
    constexpr std::size_t kGroup = 16;
    const auto magnitude = [](float value) { return std::fabs(value); };
    std::array<float, kMaxGroups> steps;
    for (std::size_t g = 0; g < kMaxGroups; ++g)
      steps[g] = std::ranges::max(values.subspan(g * kGroup, kGroup), {}, magnitude) / -32;
    const float largest = std::ranges::max(steps, {}, magnitude);
    const float d = put_step(row, column, 0, largest / -128);
    Groups groups;
    for (std::size_t g = 0; g < kMaxGroups; ++g) {
      const auto scale = largest == 0 ? 0 : std::min(127L, std::lrint(-128 * (steps[g] / largest)));
      super_bytes(row, column + static_cast<std::int64_t>(g * kGroup))[g % 2] = static_cast<std::byte>(scale);
      groups[g] = {d * static_cast<float>(scale)};
    }
    return groups;
  }
  /// The two bytes of scales of 32 columns.
  std::byte* super_bytes(std::int64_t row, std::int64_t column) {
    return matrix_.scales.data() +
           2 * scale_index(format_.weights, format_.group, columns_.count, row, column);
  }
  /// Stores d (0) or dmin (1) of a super-block, and returns it as it was rounded.
  float put_step(std::int64_t row, std::int64_t column, std::int64_t which, float step) {
    const std::int64_t at = super_step_index(format_.weights, columns_.count, row, column) + which;
    store(DType::fp16, matrix_.scales.data(), at, step);
    const auto rounded = static_cast<float>(load(DType::fp16, matrix_.scales.data(), at));
    if (!(std::abs(rounded) < max_super_step(format_.weights))) scales_fit_ = false;
    return rounded;
  }
  /// Stores the scale of the group of a column, and returns it as it was rounded.
  float put_scale(std::int64_t row, std::int64_t column, float scale) {
    const DType dtype = scale_dtype(format_);
    const std::int64_t at = scale_index(format_.weights, format_.group, columns_.count, row, column);
    store(dtype, matrix_.scales.data(), at, scale);
    return static_cast<float>(load(dtype, matrix_.scales.data(), at));
  }

  WeightFormat format_;
  Slice columns_;
  std::int64_t group_;
  QuantizedMatrix matrix_;
  std::atomic<bool> scales_fit_ = true;
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

/// Of nvfp4: the largest magnitude of a part is the largest value times the largest scale of a group. The
/// inverse of the scale is rounded to fp32, as compressed-tensors stores it.
std::vector<float> row_scales_of(std::span<const FloatRows> parts, std::int64_t columns) {
  std::vector<float> scales;
  for (const FloatRows& part : parts) {
    std::vector<float> largest(static_cast<std::size_t>(part.rows.stored));
    parallel_for(part.rows.stored, kThreads, [&](std::int64_t row) {
      std::vector<float> values(static_cast<std::size_t>(columns));
      read_row(part, row, columns, values.data());
      for (const float value : values) {
        float& so_far = largest[row];
        so_far = std::fmax(so_far, std::fabs(value));
      }
    });
    const float of_part = largest.empty() ? 0 : *std::ranges::max_element(largest);
    const float inverse =
        of_part == 0 ? 1 : std::fmin(448 * largest_value(kWeightsNvfp4) / of_part, 0x1p126f);
    scales.insert(scales.end(), static_cast<std::size_t>(part.rows.count), 1 / inverse);
  }
  return scales;
}

}  // namespace

QuantizedMatrix quantize(const WeightFormat& format, std::span<const FloatRows> parts, const Slice& slice) {
  if (format.zeros || format.act_order)
    throw InputError(
        "weights are not quantized to '{}': zero points and an order of columns are "
        "those of a checkpoint that has them",
        format.str());
  const std::int64_t columns = slice.stored;
  groups_of(format, columns);      // throws where they do not divide them
  groups_of(format, slice.count);  // likewise
  // Rows of one scale.
  const std::int64_t step = format.weights == kWeightsFp8 && format.group != 0 ? kFp8ScaleRows : 1;
  std::vector<std::pair<const FloatRows*, std::int64_t>> rows;  // of the matrix, in their part
  for (const FloatRows& part : parts) {
    if (!part.rows.is_whole() && (part.rows.first % step != 0 || part.rows.count % step != 0))
      throw InputError("a rank has rows {} to {} of a matrix; {} has a scale for each {} rows",
                       part.rows.first, part.rows.first + part.rows.count, format.str(), step);
    for (std::int64_t row = 0; row < part.rows.count; ++row) rows.emplace_back(&part, part.rows.first + row);
  }
  const auto count = static_cast<std::int64_t>(rows.size());
  Quantizer quantizer(format, count, slice,
                      format.weights == kWeightsNvfp4 ? row_scales_of(parts, columns) : std::vector<float>());
  std::atomic<bool> finite = true;
  parallel_for((count + step - 1) / step, kThreads, [&](std::int64_t i) {  // threads write other bytes
    const std::int64_t first = i * step, last = std::min(first + step, count);
    std::vector<float> values(static_cast<std::size_t>((last - first) * columns));
    for (std::int64_t row = first; row < last; ++row) {
      const auto& [part, of_part] = rows[row];
      read_row(*part, of_part, columns, values.data() + (row - first) * columns);
    }
    if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) finite = false;
    if (!finite) return;
    if (has_super_blocks(format.weights))
      quantizer.put_super_blocks(first, values);
    else
      quantizer.put(first, values);
  });
  if (!finite) throw InputError("the weights hold a value that is not finite; they cannot be quantized");
  if (!quantizer.scales_fit())
    throw InputError("the weights hold a value that is too large: the scale of its group is not below {}",
                     has_super_blocks(format.weights) ? max_super_step(format.weights) : kMaxGroupScale);
  return quantizer.take();
}

}  // namespace warptune
