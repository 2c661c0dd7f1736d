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
    throw InputError(fmt::format("tensor '{}' is stored as {}; {} can be read", name, tensor.dtype,
                                 fmt::join(dtypes, ", ")));
}

/// A tensor that must be there, of one of these dtypes, with this shape.
const StoredTensor& need(const Checkpoint& checkpoint, const std::string& name, const DTypeNames& dtypes,
                         const Shape& shape) {
  const StoredTensor& tensor = checkpoint.tensor(name, shape);
  expect_dtype(tensor, name, dtypes);
  return tensor;
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

void check_extents(const QuantizedTensors& t) {
  const int group = t.format.group;
  if (group != 0 && t.columns % group != 0)
    throw InputError(fmt::format("'{}' has {} columns; it must be a multiple of its group, {}", t.module,
                                 t.columns, group));
  if (t.columns % 8 != 0)
    throw InputError(fmt::format("'{}' has {} columns; it must be a multiple of 8", t.module, t.columns));
  const int per_word = 32 / weight_bits(t.format.weights);
  if (t.is_column_major() && t.rows % per_word != 0)
    throw InputError(
        fmt::format("'{}' has {} rows; it must be a multiple of {}", t.module, t.rows, per_word));
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
      throw InputError(
          fmt::format("tensor '{}' has the group {}; groups are 0 to {}", name, g, columns / group - 1));
    std::int64_t& to = next[static_cast<std::size_t>(g)];
    if (to == (g + 1) * group)
      throw InputError(fmt::format("tensor '{}' has more than {} columns in group {}; each must have {}",
                                   name, group, g, group));
    in_order = in_order && to == i;
    order[static_cast<std::size_t>(to++)] = static_cast<std::int32_t>(i);
  }
  return in_order ? std::vector<std::int32_t>{} : order;
}

/// [scale_rows(), groups()]; without groups also [rows], or one scale of the whole matrix: [], [1] or [1, 1].
void find_scales(const Checkpoint& checkpoint, QuantizedTensors& t) {
  const StoredTensor* found = checkpoint.find(t.scale_name);
  if (!found && t.format.weights == kWeightsFp8)  // it may have either name
    throw InputError(fmt::format("tensor '{0}.weight_scale_inv' or '{0}.weight_scale' is missing", t.module));
  const bool row_scales = found && t.format.group == 0;
  const bool one = row_scales && std::ranges::all_of(found->shape, [](auto extent) { return extent == 1; });
  t.scale_row_stride = one ? 0 : t.groups();
  t.scale_group_stride = 1;
  t.scales = &need(checkpoint, t.scale_name, float_names(),
                   one                                      ? found->shape
                   : row_scales && found->shape.size() == 1 ? Shape{t.rows}
                                                            : Shape{t.scale_rows(), t.groups()});
}

void find_column_major(const Checkpoint& checkpoint, QuantizedTensors& t) {
  const int per_word = 32 / weight_bits(t.format.weights);
  const bool awq = t.storage == WeightStorage::awq;
  const Shape shape = awq ? Shape{t.columns, t.rows / per_word} : Shape{t.columns / per_word, t.rows};
  t.weight = &need(checkpoint, t.weight_name, {"I32"}, shape);
  t.scales = &need(checkpoint, t.scale_name, float_names(), {t.groups(), t.rows});
  t.scale_row_stride = 1;
  t.scale_group_stride = t.rows;
  t.zeros = &need(checkpoint, t.module + ".qzeros", {"I32"}, {t.groups(), t.rows / per_word});
}

void find_packed(const Checkpoint& checkpoint, QuantizedTensors& t, bool zeros) {
  const int per_word = 32 / weight_bits(t.format.weights);
  t.weight = &need(checkpoint, t.weight_name, {"I32"}, {t.rows, t.columns / per_word});
  find_scales(checkpoint, t);
  const std::string name = t.module + ".weight_shape";
  const StoredTensor& shape = need(checkpoint, name, {"I64", "I32"}, {2});
  if (stored_int(shape, 0) != t.rows || stored_int(shape, 1) != t.columns)
    throw InputError(fmt::format("tensor '{}' is [{}, {}]; the config wants [{}, {}]", name,
                                 stored_int(shape, 0), stored_int(shape, 1), t.rows, t.columns));
  if (zeros)
    t.zeros = &need(checkpoint, t.module + ".weight_zero_point", {"I32"},
                    {(t.rows + per_word - 1) / per_word, t.groups()});
}

/// Two values of e2m1 per byte, a byte of scale per group, and of nvfp4 a scale of the whole matrix.
void find_fp4(const Checkpoint& checkpoint, QuantizedTensors& t) {
  t.weight = &need(checkpoint, t.weight_name, {"U8"}, {t.rows, t.columns / 2});
  const bool is_nvfp4 = t.format.weights == kWeightsNvfp4;
  t.scales = &need(checkpoint, t.scale_name, {is_nvfp4 ? "F8_E4M3" : "U8"}, {t.rows, t.groups()});
  t.scale_row_stride = t.groups();
  t.scale_group_stride = 1;
  if (!is_nvfp4) return;
  const bool divides = t.storage == WeightStorage::fp4;
  const std::string name = t.module + (divides ? ".weight_global_scale" : ".weight_scale_2");
  const StoredTensor* const found = checkpoint.find(name);
  const bool scalar = found && found->shape.empty();
  const float stored = stored_float<float>(need(checkpoint, name, {"F32"}, scalar ? Shape{} : Shape{1}), 0);
  t.global_scale = divides ? 1 / stored : stored;
  if (!(stored > 0) || !std::isnormal(stored) || !std::isnormal(t.global_scale))
    throw InputError(fmt::format("tensor '{}' is {}; it must be finite and more than 0", name, stored));
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
  const std::int64_t bytes = format.group * weight_bits(format.weights) / 8 + kGgufScaleBytes;
  return weight->data.data() + (weight->stored_row(row) * groups() + group) * bytes;
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
                                               const std::string& module, std::int64_t rows,
                                               std::int64_t columns) {
  const QuantizationScheme* scheme = config.scheme_of(module);
  if (!scheme) return std::nullopt;
  QuantizedTensors t{.module = module,
                     .rows = rows,
                     .columns = columns,
                     .storage = scheme->storage,
                     .format = scheme->format};
  const bool fp4 = is_fp4(t.format.weights),
             packed = t.storage == WeightStorage::packed || t.storage == WeightStorage::fp4,
             by_columns = t.is_column_major(),
             inverse = t.storage == WeightStorage::plain && checkpoint.has(module + ".weight_scale_inv");
  t.weight_name = module + (by_columns ? ".qweight" : packed ? ".weight_packed" : ".weight");
  t.scale_name = module + (by_columns ? ".scales" : inverse ? ".weight_scale_inv" : ".weight_scale");
  if (is_stored_unquantized(checkpoint, t)) return std::nullopt;
  check_extents(t);
  if (t.storage == WeightStorage::gguf) {
    const char* const type = t.format.weights == kWeightsInt4 ? "Q4_0" : "Q8_0";
    t.weight = t.scales = &need(checkpoint, t.weight_name, {type}, {rows, columns});
    t.scale_name = t.weight_name;
  } else if (by_columns) {
    find_column_major(checkpoint, t);
  } else if (fp4) {
    find_fp4(checkpoint, t);
  } else if (packed) {
    find_packed(checkpoint, t, scheme->format.zeros);
  } else {
    t.weight = &need(checkpoint, t.weight_name, {t.format.weights == kWeightsFp8 ? "F8_E4M3" : "I8"},
                     {rows, columns});
    find_scales(checkpoint, t);
  }
  const std::string order = module + (by_columns ? ".g_idx" : ".weight_g_idx");
  if (t.storage != WeightStorage::awq && !fp4 && checkpoint.has(order))
    t.order = order_by_group(need(checkpoint, order, {"I32", "I64"}, {columns}), order, columns,
                             t.format.group == 0 ? columns : t.format.group);
  t.format.act_order = !t.order.empty();
  t.format.zeros = t.zeros != nullptr;
  return t;
}

}  // namespace warptune
