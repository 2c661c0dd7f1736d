#include "harness/llama/quantized_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "harness/core/error.h"
#include "harness/core/parallel.h"

namespace warptune {
namespace {

std::string described(const WeightFormat& f) {
  if (!f.quantized()) return "16-bit";
  const std::string name = f.str(), type = name.substr(0, name.find(':'));
  if (fixed_group(f.weights) != 0) return type;
  if (f.group == 0) return fmt::format("{} with a scale per row", type);
  return fmt::format("{} with {} of {}", type, f.weights == kWeightsFp8 ? "blocks" : "groups", f.group);
}

/// Throws where two modules cannot be one matrix.
void expect_equal(const WeightFormat& a, const WeightFormat& b, const std::string& a_module,
                  const std::string& b_module) {
  if (described(a) != described(b))
    throw InputError("'{}' is {} and '{}' is {}; the two are one matrix here", a_module, described(a),
                     b_module, described(b));
}
void expect_equal(const std::optional<QuantizedTensors>& a, const std::optional<QuantizedTensors>& b,
                  const std::string& a_module, const std::string& b_module) {
  expect_equal(a ? a->format : WeightFormat{}, b ? b->format : WeightFormat{}, a_module, b_module);
  if (a && b && a->order != b->order)
    throw InputError(
        "'{}' and '{}' have their columns in different orders (g_idx); the two are one matrix here", a_module,
        b_module);
}

/// The tensors of all parts, which agree in their format; empty where they are in 16 bits.
std::vector<QuantizedTensors> find_parts(const Checkpoint& checkpoint, const QuantizationConfig& config,
                                         const Parts& parts, const Slice& columns) {
  std::vector<std::optional<QuantizedTensors>> found;
  for (const auto& [module, rows] : parts)
    found.push_back(find_quantized(checkpoint, config, module, rows, columns));
  std::vector<QuantizedTensors> tensors;
  for (std::size_t i = 0; i < found.size(); ++i) {
    expect_equal(found[0], found[i], parts[0].first, parts[i].first);
    if (!found[i]) continue;
    const bool last = i + 1 == found.size();
    if (!last && found[i]->has_block_scales() && parts[i].second.count % kFp8ScaleRows != 0)
      throw InputError(
          "'{}' has {} rows; the matrix continues with '{}', so it must be a multiple "
          "of {}, the rows of a scale",
          parts[i].first, parts[i].second.count, parts[i + 1].first, kFp8ScaleRows);
  }
  for (auto& part : found)
    if (part) tensors.push_back(std::move(*part));
  return tensors;
}

void check_group_scale(const QuantizedTensors& from, float scale) {
  if (!(std::abs(scale) < kMaxGroupScale))
    throw InputError("tensor '{}' has the scale {}; scales of {} must be below {}", from.scale_name, scale,
                     from.has_block_scales() ? "blocks" : "groups", kMaxGroupScale);
}

float checked_scale(const QuantizedTensors& from, std::int64_t row, std::int64_t group) {
  const float scale = from.scale(row, group);
  const bool is_unsigned = is_fp4(from.format.weights);
  if (from.has_block_scales()) check_group_scale(from, scale);
  if (std::isfinite(scale) && !(is_unsigned && std::signbit(scale))) return scale;
  throw InputError("tensor '{}' has the scale {}; scales must be finite{}", from.scale_name, scale,
                   is_unsigned ? " and not negative" : "");
}

/// The nearest fp16.
fp16 narrow_scale(const QuantizedTensors& from, float scale) {
  check_group_scale(from, scale);
  const auto narrow = static_cast<fp16>(scale);
  if (static_cast<float>(narrow) == 0 && scale != 0)
    throw InputError("tensor '{}' has the scale {}, which is 0 in fp16", from.scale_name, scale);
  return narrow;
}

/// Where row `row` and group `group` of a module have their scale and zero point.
std::int64_t index_of(const QuantizedTensors& from, std::int64_t row, std::int64_t group) {
  const WeightFormat& f = from.format;
  return scale_index(f.weights, f.group, from.columns, row, group * std::max(f.group, 1));
}

/// Writes the scales of a module from row `first` of the matrix on. Returns how many were rounded.
std::int64_t convert_scales(const QuantizedTensors& from, std::int64_t first, std::byte* to) {
  const std::int64_t groups = from.groups();
  const DType dtype = scale_dtype(from.format);
  std::atomic<std::int64_t> rounded = 0;
  parallel_for(from.scale_rows(), kPackThreads, [&](std::int64_t row) {
    std::int64_t rounded_here = 0;
    for (std::int64_t group = 0; group < groups; ++group) {
      const float scale = checked_scale(from, row, group);
      const std::int64_t i = index_of(from, first + row * from.rows_of_scale(), group);
      if (dtype == DType::fp16) {
        const fp16 value = narrow_scale(from, scale);
        rounded_here += static_cast<float>(value) != scale;
        std::memcpy(to + i * 2, &value, 2);
      } else {
        store(dtype, to, i, scale);
      }
    }
    rounded += rounded_here;
  });
  return rounded;
}

/// The same of super-blocks, whose scales are none of them rounded.
void copy_super_scales(const QuantizedTensors& from, std::int64_t first, std::byte* to) {
  const WeightFormat& f = from.format;
  parallel_for(from.rows, kPackThreads, [&](std::int64_t row) {
    for (std::int64_t column = 0; column < from.columns; column += kSuperColumns) {
      const std::byte* const block = from.block(row, column / f.group);
      for (int i = 0; i < super_steps(f.weights); ++i)
        if (const double step = load(DType::fp16, super_block_steps(f.weights, block), i);
            !(std::abs(step) < max_super_step(f.weights)))
          throw InputError("tensor '{}' has the scale {}; scales of super-blocks must be below {}",
                           from.scale_name, step, max_super_step(f.weights));
      pack_super_scales(f.weights, block, from.columns, first + row, column, to);
    }
  });
}

/// Writes the zero points of a module, less the middle value, from row `first` of the matrix on. Returns
/// whether one differs from 0.
bool convert_zeros(const QuantizedTensors& from, std::int64_t first, std::int8_t* to) {
  const int middle = 1 << (weight_bits(from.format.weights) - 1);
  std::atomic<bool> any = false;
  parallel_for(from.rows, kPackThreads, [&](std::int64_t row) {
    for (std::int64_t group = 0; group < from.groups(); ++group) {
      const int zero = from.zero_point(row, group) - middle;
      if (zero == 0) continue;
      if (middle != 8)
        throw InputError("'{}' has the zero point {}; weights of 8 bits are read where all are {}",
                         from.module, zero + middle, middle);
      to[index_of(from, first + row, group)] = static_cast<std::int8_t>(zero);
      any = true;
    }
  });
  return any;
}

}  // namespace

std::optional<QuantizedMatrix> read_quantized(const Checkpoint& checkpoint, const QuantizationConfig& config,
                                              const Parts& parts, const Slice& slice) {
  std::vector<QuantizedTensors> tensors = find_parts(checkpoint, config, parts, slice);
  if (tensors.empty()) return std::nullopt;
  const std::int64_t columns = slice.count;
  std::int64_t rows = 0;
  for (const QuantizedTensors& part : tensors) rows += part.rows;
  QuantizedMatrix matrix{.format = tensors[0].format};
  const std::int64_t scales = scale_count(matrix.format.weights, matrix.format.group, rows, columns);
  matrix.weight.resize(static_cast<std::size_t>(packed_bytes(matrix.format.weights, rows, columns)));
  matrix.scales.resize(static_cast<std::size_t>(scales) * size_of(scale_dtype(matrix.format)));
  matrix.zeros.resize(static_cast<std::size_t>(scales));

  matrix.format.zeros = false;
  std::int64_t row = 0;
  for (const QuantizedTensors& part : tensors) {
    pack_weights(part, row, matrix.weight.data());
    if (has_super_blocks(part.format.weights))
      copy_super_scales(part, row, matrix.scales.data());
    else if (const std::int64_t rounded = convert_scales(part, row, matrix.scales.data()))
      matrix.notes.push_back(fmt::format("tensor '{}': {} of {} scales are rounded to fp16", part.scale_name,
                                         rounded, part.scale_rows() * part.groups()));
    if (part.format.weights == kWeightsNvfp4)
      matrix.row_scales.insert(matrix.row_scales.end(), static_cast<std::size_t>(part.rows),
                               part.global_scale);
    if (part.zeros && convert_zeros(part, row, matrix.zeros.data())) matrix.format.zeros = true;
    row += part.rows;
  }
  if (!matrix.format.zeros) matrix.zeros = {};
  matrix.order = std::move(tensors[0].order);
  return matrix;
}

std::optional<WeightFormat> find_format(const Checkpoint& checkpoint, const QuantizationConfig& config,
                                        const Parts& parts, const Slice& columns) {
  const std::vector<QuantizedTensors> tensors = find_parts(checkpoint, config, parts, columns);
  if (tensors.empty()) return std::nullopt;
  WeightFormat format = tensors[0].format;
  // As in read_quantized(): zero points that are all 8 are none.
  format.zeros = std::ranges::any_of(tensors, [&](const QuantizedTensors& part) {
    if (!part.zeros) return false;
    const std::int64_t count = scale_count(format.weights, format.group, part.rows, part.columns);
    return convert_zeros(part, 0, std::vector<std::int8_t>(static_cast<std::size_t>(count)).data());
  });
  return format;
}

std::optional<WeightFormat> declared_format(const QuantizationConfig& config, const Parts& parts) {
  std::vector<WeightFormat> formats;
  for (const auto& [module, rows] : parts) {
    const QuantizationScheme* scheme = config.scheme_of(module);
    formats.push_back(scheme ? scheme->format : WeightFormat{});
    expect_equal(formats[0], formats.back(), parts[0].first, module);
  }
  if (!formats[0].quantized()) return std::nullopt;
  if (formats[0].group == 0) formats[0].act_order = false;  // a row has one group: any order is the same
  return formats[0];
}

}  // namespace warptune
