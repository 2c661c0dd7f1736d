#include "harness/llama/quantized_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "harness/core/error.h"

namespace warptune {
namespace {

using DTypeNames = std::vector<std::string>;
using Shape = std::vector<std::int64_t>;

const DTypeNames& float_names() {
  static const DTypeNames names = {"F16", "BF16", "F32"};
  return names;
}

bool is_float_tensor(const StoredTensor* tensor) {
  return tensor && std::ranges::find(float_names(), tensor->dtype) != float_names().end();
}

void expect_dtype(const StoredTensor& tensor, const std::string& name, const DTypeNames& dtypes) {
  if (std::ranges::find(dtypes, tensor.dtype) == dtypes.end())
    throw InputError("tensor '{}' is stored as {}; {} can be read", name, tensor.dtype,
                     fmt::join(dtypes, ", "));
}

/// A tensor that must be there, of one of these dtypes, with this shape.
const StoredTensor& need(const Checkpoint& checkpoint, const std::string& name, const DTypeNames& dtypes,
                         const Shape& shape) {
  const StoredTensor& tensor = checkpoint.tensor(name, shape);
  expect_dtype(tensor, name, dtypes);
  return tensor;
}
/// The slice of a tensor whose whole shape is that of the axes.
QuantizedTensors::Tensor need(const Checkpoint& checkpoint, const std::string& name, const DTypeNames& dtypes,
                              const Slice& rows, const Slice& columns) {
  return sliced(need(checkpoint, name, dtypes, Shape{rows.stored, columns.stored}), rows, columns);
}

/// A module, while its tensors are found.
struct Module {
  const Checkpoint& checkpoint;
  QuantizedTensors& tensors;
  Slice rows, columns;

  Slice groups() const {
    return tensors.format.group == 0 ? Slice(1) : columns.in_units(tensors.format.group);
  }
  Slice scale_rows() const { return rows.in_units(tensors.rows_of_scale()); }
};

/// Throws where a slice begins or ends within a group of `size` elements.
void expect_groups(const std::string& module, const Slice& slice, std::int64_t size, const char* elements) {
  const std::int64_t end = slice.first + slice.count;
  for (const std::int64_t at : {slice.first, end})
    if (at % size != 0 && at != slice.stored)
      throw InputError("'{}' has {} {} in groups of {}; ranks cannot split them at {}", module, slice.stored,
                       elements, size, at);
}

std::int64_t stored_int(const StoredTensor& tensor, std::int64_t i) {
  if (tensor.dtype == "I32") return static_cast<std::int32_t>(stored_word(tensor, i));
  std::int64_t value;
  std::memcpy(&value, tensor.data.data() + i * 8, sizeof value);
  return value;
}

template <class T>
float stored_float(const StoredTensor& tensor, std::int64_t i) {
  T value;
  std::memcpy(&value, tensor.data.data() + i * static_cast<std::int64_t>(sizeof value), sizeof value);
  return static_cast<float>(value);
}

void check_extents(const Module& m) {
  const QuantizedTensors& t = m.tensors;
  const std::int64_t group = t.format.group, columns = m.columns.stored, rows = m.rows.stored;
  if (group != 0 && columns % group != 0)
    throw InputError("'{}' has {} columns; it must be a multiple of its group, {}", t.module, columns, group);
  if (columns % 8 != 0)
    throw InputError("'{}' has {} columns; it must be a multiple of 8", t.module, columns);
  const int per_word = 32 / weight_bits(t.format.weights);
  if (t.is_column_major() && rows % per_word != 0)
    throw InputError("'{}' has {} rows; it must be a multiple of {}", t.module, rows, per_word);
  expect_groups(t.module, m.columns, std::max<std::int64_t>(t.format.unit_columns(), 8), "columns");
  const bool packs_rows = t.is_column_major() || t.format.zeros;
  expect_groups(t.module, m.rows, std::max<std::int64_t>(packs_rows ? per_word : 1, t.rows_of_scale()),
                "rows");
}

/// The columns by their group, in order within one; empty where they are in order already.
std::vector<std::int32_t> order_by_group(const StoredTensor& groups, const std::string& name,
                                         std::int64_t columns, std::int64_t group) {
  std::vector<std::int64_t> next(static_cast<std::size_t>(columns / group));
  for (std::size_t g = 0; g < next.size(); ++g) next[g] = static_cast<std::int64_t>(g) * group;
  std::vector<std::int32_t> order(static_cast<std::size_t>(columns));
  bool in_order = true, unset = true;  // compressed-tensors sets it to -1 where it has no meaning
  for (std::int64_t i = 0; i < columns; ++i) unset = unset && stored_int(groups, i) == -1;
  if (unset) return {};
  for (std::int64_t i = 0; i < columns; ++i) {
    const std::int64_t g = stored_int(groups, i);
    if (g < 0 || g >= columns / group)
      throw InputError("tensor '{}' has the group {}; groups are 0 to {}", name, g, columns / group - 1);
    std::int64_t& to = next[static_cast<std::size_t>(g)];
    if (to == (g + 1) * group)
      throw InputError("tensor '{}' has more than {} columns in group {}; each must have {}", name, group, g,
                       group);
    in_order = in_order && to == i;
    order[static_cast<std::size_t>(to++)] = static_cast<std::int32_t>(i);
  }
  return in_order ? std::vector<std::int32_t>{} : order;
}

/// [scale_rows(), groups()]; without groups also [rows], or one scale of the whole matrix: [], [1] or [1, 1].
void find_scales(const Module& m) {
  QuantizedTensors& t = m.tensors;
  const StoredTensor* found = m.checkpoint.find(t.scale_name);
  if (!found && t.format.weights == kWeightsFp8)  // it may have either name
    throw InputError("tensor '{0}.weight_scale_inv' or '{0}.weight_scale' is missing", t.module);
  const bool row_scales = found && t.format.group == 0;
  const bool one = row_scales && std::ranges::all_of(found->shape, [](auto extent) { return extent == 1; });
  t.scale_row_stride = one ? 0 : t.groups();
  t.scale_group_stride = 1;
  const bool is_vector = row_scales && found->shape.size() == 1;
  if (!one && !is_vector) {
    t.scales = need(m.checkpoint, t.scale_name, float_names(), m.scale_rows(), m.groups());
    return;
  }
  const StoredTensor& scales =
      need(m.checkpoint, t.scale_name, float_names(), one ? found->shape : Shape{m.rows.stored});
  t.scales = one ? std::make_shared<const StoredTensor>(scales) : sliced(scales, m.rows, {});
}

void find_column_major(const Module& m) {
  QuantizedTensors& t = m.tensors;
  const int per_word = 32 / weight_bits(t.format.weights);
  const Slice row_words = m.rows.in_units(per_word);
  t.weight = t.storage == WeightStorage::awq
                 ? need(m.checkpoint, t.weight_name, {"I32"}, m.columns, row_words)
                 : need(m.checkpoint, t.weight_name, {"I32"}, m.columns.in_units(per_word), m.rows);
  t.scales = need(m.checkpoint, t.scale_name, float_names(), m.groups(), m.rows);
  t.scale_row_stride = 1;
  t.scale_group_stride = t.rows;
  t.zeros = need(m.checkpoint, t.module + ".qzeros", {"I32"}, m.groups(), row_words);
}

void find_packed(const Module& m, bool zeros) {
  QuantizedTensors& t = m.tensors;
  const int per_word = 32 / weight_bits(t.format.weights);
  t.weight = need(m.checkpoint, t.weight_name, {"I32"}, m.rows, m.columns.in_units(per_word));
  find_scales(m);
  const std::string name = t.module + ".weight_shape";
  const StoredTensor& shape = need(m.checkpoint, name, {"I64", "I32"}, {2});
  if (stored_int(shape, 0) != m.rows.stored || stored_int(shape, 1) != m.columns.stored)
    throw InputError("tensor '{}' is [{}, {}]; the config wants [{}, {}]", name, stored_int(shape, 0),
                     stored_int(shape, 1), m.rows.stored, m.columns.stored);
  if (zeros)
    t.zeros =
        need(m.checkpoint, t.module + ".weight_zero_point", {"I32"}, m.rows.in_units(per_word), m.groups());
}

/// Two values of e2m1 per byte, a byte of scale per group, and of nvfp4 a scale of the whole matrix.
void find_fp4(const Module& m) {
  QuantizedTensors& t = m.tensors;
  t.weight = need(m.checkpoint, t.weight_name, {"U8"}, m.rows, m.columns.in_units(2));
  const bool is_nvfp4 = t.format.weights == kWeightsNvfp4;
  t.scales = need(m.checkpoint, t.scale_name, {is_nvfp4 ? "F8_E4M3" : "U8"}, m.rows, m.groups());
  t.scale_row_stride = t.groups();
  t.scale_group_stride = 1;
  if (!is_nvfp4) return;
  const bool divides = t.storage == WeightStorage::fp4;
  const std::string name = t.module + (divides ? ".weight_global_scale" : ".weight_scale_2");
  const StoredTensor* const found = m.checkpoint.find(name);
  const bool scalar = found && found->shape.empty();
  const float stored = stored_float<float>(need(m.checkpoint, name, {"F32"}, scalar ? Shape{} : Shape{1}), 0);
  t.global_scale = divides ? 1 / stored : stored;
  if (!(stored > 0) || !std::isnormal(stored) || !std::isnormal(t.global_scale))
    throw InputError("tensor '{}' is {}; it must be finite and more than 0", name, stored);
}

/// Whether the module has a weight in 16 bits or more, and no tensors of a quantized one.
bool is_stored_unquantized(const Checkpoint& checkpoint, const QuantizedTensors& t) {
  return is_float_tensor(checkpoint.find(t.module + ".weight")) && !checkpoint.has(t.scale_name) &&
         (t.weight_name == t.module + ".weight" || !checkpoint.has(t.weight_name));
}

}  // namespace

std::uint32_t stored_word(const StoredTensor& tensor, std::int64_t i) {
  std::uint32_t word;
  std::memcpy(&word, tensor.data.data() + i * 4, sizeof word);
  return word;
}

const std::byte* QuantizedTensors::block(std::int64_t row, std::int64_t group) const {
  const std::int64_t value = weight->stored_row(row) * columns + group * format.group;
  return weight->data.data() + value / block_type->values * block_type->bytes;
}

float QuantizedTensors::scale(std::int64_t scale_row, std::int64_t group) const {
  if (storage == WeightStorage::gguf)
    return static_cast<float>(load(DType::fp16, block(scale_row, group), 0));
  const std::int64_t i = scale_row * scale_row_stride + group * scale_group_stride;
  if (scales->dtype == "F8_E4M3") return stored_float<fp8>(*scales, i);
  if (scales->dtype == "U8") return stored_float<ue8m0>(*scales, i);
  if (scales->dtype == "F16") return stored_float<fp16>(*scales, i);
  if (scales->dtype == "BF16") return stored_float<bf16>(*scales, i);
  return stored_float<float>(*scales, i);
}

int QuantizedTensors::zero_point(std::int64_t row, std::int64_t group) const {
  const int bits = weight_bits(format.weights), per_word = 32 / bits;
  const std::int64_t word = storage == WeightStorage::packed ? row / per_word * groups() + group
                                                             : group * (rows / per_word) + row / per_word;
  const auto in_word = row % per_word;
  const auto position = storage == WeightStorage::awq ? awq_position(in_word) : static_cast<int>(in_word);
  const auto value = static_cast<int>(stored_word(*zeros, word) >> (bits * position) & ((1u << bits) - 1));
  return storage == WeightStorage::gptq ? value + 1 : value;
}

std::optional<QuantizedTensors> find_quantized(const Checkpoint& checkpoint, const QuantizationConfig& config,
                                               const std::string& module, const Slice& rows,
                                               const Slice& columns) {
  const QuantizationScheme* scheme = config.scheme_of(module);
  if (!scheme) return std::nullopt;
  QuantizedTensors t{.module = module,
                     .rows = rows.count,
                     .columns = columns.count,
                     .storage = scheme->storage,
                     .format = scheme->format};
  const bool fp4 = is_fp4(t.format.weights),
             packed = t.storage == WeightStorage::packed || t.storage == WeightStorage::fp4,
             by_columns = t.is_column_major(),
             inverse = t.storage == WeightStorage::plain && checkpoint.has(module + ".weight_scale_inv");
  t.weight_name = module + (by_columns ? ".qweight" : packed ? ".weight_packed" : ".weight");
  t.scale_name = module + (by_columns ? ".scales" : inverse ? ".weight_scale_inv" : ".weight_scale");
  if (is_stored_unquantized(checkpoint, t)) return std::nullopt;
  const Module m{checkpoint, t, rows, columns};
  check_extents(m);
  if (t.storage == WeightStorage::gguf) {
    t.weight = t.scales = need(checkpoint, t.weight_name, block_types_of(t.format.weights), rows, columns);
    t.block_type = find_block_type(t.weight->dtype);
    t.scale_name = t.weight_name;
  } else if (by_columns) {
    find_column_major(m);
  } else if (fp4) {
    find_fp4(m);
  } else if (packed) {
    find_packed(m, scheme->format.zeros);
  } else {
    t.weight =
        need(checkpoint, t.weight_name, {t.format.weights == kWeightsFp8 ? "F8_E4M3" : "I8"}, rows, columns);
    find_scales(m);
  }
  const std::string order = module + (by_columns ? ".g_idx" : ".weight_g_idx");
  if (t.storage != WeightStorage::awq && !fp4 && checkpoint.has(order))
    t.order = order_by_group(need(checkpoint, order, {"I32", "I64"}, {columns.stored}), order, columns.stored,
                             t.format.group == 0 ? columns.stored : t.format.group);
  if (!t.order.empty() && !columns.is_whole())
    throw InputError("'{}' has its columns in another order (g_idx), which ranks cannot split", module);
  t.format.act_order = !t.order.empty();
  t.format.zeros = t.zeros != nullptr;
  return t;
}

}  // namespace warptune
