#include "packed_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "harness/llama/pack_row.h"
#include "harness/llama/super_blocks.h"

namespace warptune {
namespace {

using std::to_string;

[[noreturn]] void refuse(const std::string& sentence) {
  throw std::invalid_argument("pack_weights: " + sentence);
}

/// The columns by their group, in order within one; empty where they are in order already.
std::vector<std::int32_t> order_by_group(const QuantizedShape& s, const std::int32_t* g_idx) {
  std::vector<std::vector<std::int32_t>> columns_of(static_cast<std::size_t>(s.groups()));
  for (std::int32_t i = 0; i < s.columns; ++i) {
    const std::int32_t group = g_idx[i];
    if (group < 0 || group >= s.groups())
      refuse("'g_idx' has the group " + to_string(group) + "; groups are 0 to " + to_string(s.groups() - 1));
    columns_of[static_cast<std::size_t>(group)].push_back(i);
  }
  std::vector<std::int32_t> order;
  for (const std::vector<std::int32_t>& columns : columns_of) {
    if (columns.size() != static_cast<std::size_t>(s.group))
      refuse("'g_idx' has a group of " + to_string(columns.size()) + " columns; each must have " +
             to_string(s.group));
    order.insert(order.end(), columns.begin(), columns.end());
  }
  if (std::is_sorted(order.begin(), order.end())) order.clear();
  return order;
}

/// Replaces integers by nibbles. `type`: that of the nibbles.
void to_nibbles(std::uint8_t* values, std::int64_t count, int offset, const char* type) {
  for (std::int64_t i = 0; i < count; ++i) {
    const int value = offset == 0 ? values[i] : static_cast<std::int8_t>(values[i]);
    if (value + offset < 0 || value + offset > 15)
      refuse("'values' has " + to_string(value) + "; those of " + type + " are " + to_string(-offset) +
             " to " + to_string(15 - offset));
    values[i] = static_cast<std::uint8_t>(value + offset);
  }
}

void expect_no_nan(const std::uint8_t* values, std::int64_t count) {
  if (std::any_of(values, values + count, [](std::uint8_t bits) { return (bits & 0x7f) == 0x7f; }))
    refuse("'values' has a NaN");
}

std::vector<std::byte> packed_values(const QuantizedShape& s, const QuantizedValues& from,
                                     const std::vector<std::int32_t>& order) {
  std::vector<std::byte> packed(static_cast<std::size_t>(s.packed_bytes()));
  const int step = block_columns(s.weights);
  // Zero beyond the columns.
  std::vector<std::uint8_t> row(static_cast<std::size_t>(packed_blocks_of_row(s.weights, s.columns) * step));
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const std::uint8_t* const stored = from.values + r * s.columns;
    if (order.empty())
      std::copy(stored, stored + s.columns, row.begin());
    else
      std::transform(order.begin(), order.end(), row.begin(),
                     [&](std::int32_t column) { return stored[column]; });
    const bool has_nibbles = weight_bits(s.weights) == 4;
    if (has_nibbles) to_nibbles(row.data(), s.columns, from.offset, is_fp4(s.weights) ? "e2m1" : "int4");
    if (s.weights == kWeightsFp8) expect_no_nan(row.data(), s.columns);
    if (s.weights == kWeightsInt8) make_unsigned(row.data(), s.columns);
    for (std::int64_t c = 0; c < s.columns; c += step) {
      std::byte* const to = packed.data() + packed_position(s.weights, s.columns, r, c).byte;
      has_nibbles ? pack_row<4>(row.data() + c, to) : pack_row<8>(row.data() + c, to);
    }
  }
  return packed;
}

/// Calls f(from, to) with the index of each scale in the caller's array and in the packed one.
template <class F>
void for_each_scale(const QuantizedShape& s, const F& f) {
  std::int64_t from = 0;
  for (std::int64_t row = 0; row < s.rows; row += s.has_block_scales() ? kFp8ScaleRows : 1)
    for (std::int64_t group = 0; group < s.groups(); ++group)
      f(from++, scale_index(s.weights, s.group, s.columns, row, group * s.group));
}

/// `Bits`: an unsigned integer as wide as a scale. `is_wrong`: tells the bits of a scale that no kernel
/// takes.
template <class Bits, class F>
std::vector<std::byte> packed_scales(const QuantizedShape& s, const std::byte* from, const F& is_wrong) {
  std::vector<std::byte> packed(static_cast<std::size_t>(s.scale_count()) * sizeof(Bits));
  for_each_scale(s, [&](std::int64_t i, std::int64_t to) {
    Bits scale;
    std::memcpy(&scale, from + i * static_cast<std::int64_t>(sizeof scale), sizeof scale);
    if (is_wrong(scale))
      refuse(std::string("'scales' has a scale that is not finite") +
             (s.weights == kWeightsNvfp4 ? ", or negative" : ""));
    std::memcpy(packed.data() + to * static_cast<std::int64_t>(sizeof scale), &scale, sizeof scale);
  });
  return packed;
}

/// Zero points minus 8.
std::vector<std::int8_t> packed_zeros(const QuantizedShape& s, const QuantizedValues& from) {
  std::vector<std::int8_t> packed(static_cast<std::size_t>(s.scale_count()));
  for_each_scale(s, [&](std::int64_t i, std::int64_t to) {
    const int zero = from.zero_points[i] + from.offset;
    if (zero < 0 || zero > 16)
      refuse("'zero_points' has " + to_string(from.zero_points[i]) + "; they are " + to_string(-from.offset) +
             " to " + to_string(16 - from.offset));
    packed[static_cast<std::size_t>(to)] = static_cast<std::int8_t>(zero - 8);
  });
  return packed;
}

PackedTensors pack_super_blocks(const QuantizedShape& s, const std::uint8_t* stored) {
  PackedTensors to;
  to.weight.resize(static_cast<std::size_t>(s.packed_bytes()));
  to.scales.resize(static_cast<std::size_t>(s.scale_count()) * 2);
  const auto* block = reinterpret_cast<const std::byte*>(stored);
  for (std::int64_t row = 0; row < s.rows; ++row)
    for (std::int64_t column = 0; column < s.columns;
         column += kSuperColumns, block += super_block_bytes(s.weights)) {
      for (int i = 0; i < super_steps(s.weights); ++i)
        if ((byte_at(super_block_steps(s.weights, block), 2 * i + 1) & 0x7c) == 0x7c)
          refuse("'values' has a scale that is not finite");
      pack_super_scales(s.weights, block, s.columns, row, column, to.scales.data());
      std::uint8_t values[kSuperColumns];
      unpack_super_block(s.weights, block, 0, kSuperColumns, values);
      for (int i = 0; i < kSuperColumns; i += block_columns(s.weights)) {
        std::byte* const packed =
            to.weight.data() + packed_position(s.weights, s.columns, row, column + i).byte;
        weight_bits(s.weights) == 4 ? pack_row<4>(values + i, packed) : pack_row<8>(values + i, packed);
      }
    }
  return to;
}

int weights_of(const std::string& name) {
  static const std::vector<std::string> names = {
      "same", "int8", "int4", "fp8", "nvfp4", "mxfp4", "q4_k", "q6_k", "q5_k"};  // by the values of the dim
  const auto it = std::find(names.begin() + 1, names.end(), name);
  if (it == names.end()) throw std::invalid_argument("'" + name + "' is no format of weights");
  return static_cast<int>(it - names.begin());
}

}  // namespace

QuantizedShape::QuantizedShape(const std::string& name, int group, std::int64_t rows, std::int64_t columns)
    : weights(weights_of(name)), group(group), rows(rows), columns(columns) {}

PackedTensors pack(const QuantizedShape& s, const QuantizedValues& from) {
  if (has_super_blocks(s.weights)) return pack_super_blocks(s, from.values);
  PackedTensors to;
  if (from.g_idx) to.order = order_by_group(s, from.g_idx);
  to.weight = packed_values(s, from, to.order);
  const auto has_all = [](auto bits) { return [bits](auto scale) { return (scale & bits) == bits; }; };
  if (s.weights == kWeightsNvfp4)  // e4m3
    to.scales = packed_scales<std::uint8_t>(s, from.scales, [](std::uint8_t scale) { return scale >= 0x7f; });
  else if (s.weights == kWeightsMxfp4)  // e8m0
    to.scales = packed_scales<std::uint8_t>(s, from.scales, has_all(std::uint8_t{0xff}));
  else if (s.scale_bytes() == 2)
    to.scales = packed_scales<std::uint16_t>(s, from.scales, has_all(std::uint16_t{0x7c00}));
  else
    to.scales = packed_scales<std::uint32_t>(s, from.scales, has_all(std::uint32_t{0x7f800000}));
  if (s.weights == kWeightsNvfp4) {
    if (!std::isfinite(from.global_scale)) refuse("'global_scale' is not finite");
    to.row_scales.assign(static_cast<std::size_t>(s.rows), from.global_scale);
  }
  if (from.zero_points) to.zeros = packed_zeros(s, from);
  return to;
}

}  // namespace warptune
