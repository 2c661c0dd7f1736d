#include "packed_weights.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "harness/llama/pack_row.h"

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

/// Replaces integers by nibbles.
void to_nibbles(std::uint8_t* values, std::int64_t count, int offset) {
  for (std::int64_t i = 0; i < count; ++i) {
    const int value = offset == 0 ? values[i] : static_cast<std::int8_t>(values[i]);
    if (value + offset < 0 || value + offset > 15)
      refuse("'values' has " + to_string(value) + "; those of int4 are " + to_string(-offset) + " to " +
             to_string(15 - offset));
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
    if (s.weights == kWeightsInt4) to_nibbles(row.data(), s.columns, from.offset);
    if (s.weights == kWeightsFp8) expect_no_nan(row.data(), s.columns);
    for (std::int64_t c = 0; c < s.columns; c += step) {
      std::byte* const to = packed.data() + packed_position(s.weights, s.columns, r, c).byte;
      s.weights == kWeightsInt4 ? pack_row<4>(row.data() + c, to) : pack_row<8>(row.data() + c, to);
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

/// `Bits`: an unsigned integer as wide as a scale. `exponent`: the bits of its exponent.
template <class Bits>
std::vector<std::byte> packed_scales(const QuantizedShape& s, const std::byte* from, Bits exponent) {
  std::vector<std::byte> packed(static_cast<std::size_t>(s.scale_count()) * sizeof(Bits));
  for_each_scale(s, [&](std::int64_t i, std::int64_t to) {
    Bits scale;
    std::memcpy(&scale, from + i * static_cast<std::int64_t>(sizeof scale), sizeof scale);
    if ((scale & exponent) == exponent) refuse("'scales' has a scale that is not finite");
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

int weights_of(const std::string& name) {
  if (name == "int8") return kWeightsInt8;
  if (name == "int4") return kWeightsInt4;
  if (name == "fp8") return kWeightsFp8;
  throw std::invalid_argument("'" + name + "' is no format of weights; it must be int8, int4 or fp8");
}

}  // namespace

QuantizedShape::QuantizedShape(const std::string& name, int group, std::int64_t rows, std::int64_t columns)
    : weights(weights_of(name)), group(group), rows(rows), columns(columns) {}

PackedTensors pack(const QuantizedShape& s, const QuantizedValues& from) {
  PackedTensors to;
  if (from.g_idx) to.order = order_by_group(s, from.g_idx);
  to.weight = packed_values(s, from, to.order);
  to.scales = s.scale_bytes() == 2 ? packed_scales<std::uint16_t>(s, from.scales, 0x7c00)
                                   : packed_scales<std::uint32_t>(s, from.scales, 0x7f800000);
  if (from.zero_points) to.zeros = packed_zeros(s, from);
  return to;
}

}  // namespace warptune
