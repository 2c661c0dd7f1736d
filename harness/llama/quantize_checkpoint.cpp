#include "harness/llama/quantize_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/core/json.h"
#include "harness/core/lookup.h"
#include "harness/core/parallel.h"
#include "harness/llama/checkpoint.h"
#include "harness/llama/quantized_matrix.h"
#include "harness/llama/safetensors.h"
#include "harness/llama/tensor_parallel.h"
#include "harness/results/durable_file.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

void expect_format(const WeightFormat& f) {
  const bool is_written = f.quantized() && !f.zeros && !f.act_order && !f.fp8_activations &&
                          !has_super_blocks(f.weights) && (weight_bits(f.weights) == 4 || f.group == 0);
  if (!is_written)
    throw InputError(
        "weights are not written as '{}'; it must be int8, fp8, nvfp4, mxfp4, or int4 with "
        ":group=0, 32, 64 or "
        "128",
        f.str());
}

/// As compressed-tensors writes it for weights that are quantized alone.
OrderedJson quantization_config(const WeightFormat& f) {
  static constexpr const char* kLayouts[] = {
      "dense",           "int-quantized",        "pack-quantized",
      "float-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized"};
  const char* const layout = kLayouts[f.weights];
  const bool is_int = f.weights == kWeightsInt4 || f.weights == kWeightsInt8,
             is_nvfp4 = f.weights == kWeightsNvfp4;
  OrderedJson weights = {{"num_bits", weight_bits(f.weights)},
                         {"type", is_int ? "int" : "float"},
                         {"symmetric", true},
                         {"strategy", is_nvfp4       ? "tensor_group"
                                      : f.group == 0 ? "channel"
                                                     : "group"},
                         {"group_size", f.group == 0 ? OrderedJson() : OrderedJson(f.group)},
                         {"dynamic", false}};
  if (is_fp4(f.weights)) weights["scale_dtype"] = is_nvfp4 ? "torch.float8_e4m3fn" : "torch.uint8";
  const OrderedJson group = {{"format", layout},
                             {"targets", {"Linear"}},
                             {"weights", weights},
                             {"input_activations", nullptr},
                             {"output_activations", nullptr}};
  return {
      {"quant_method", "compressed-tensors"},  {"format", layout},      {"quantization_status", "compressed"},
      {"config_groups", {{"group_0", group}}}, {"ignore", {"lm_head"}}, {"kv_cache_scheme", nullptr}};
}

/// A matrix of a layer, by its module.
struct Linear {
  std::string module;
  std::int64_t rows, columns;
};

/// The matrices that are quantized, by the name of their tensor.
std::map<std::string, Linear> linears_of(const ModelConfig& c) {
  std::map<std::string, Linear> linears;
  for (int layer = 0; layer < c.layers; ++layer) {
    const LayerModules m = layer_modules(c, layer);
    for (const auto& [parts, columns] : {m.qk, m.v, m.o, m.gate_up, m.down})
      for (const auto& [module, rows] : parts)
        linears[module + ".weight"] = {module, rows.count, columns.count};
  }
  return linears;
}

/// The values of a packed matrix in row-major order: bytes, of int8 signed, or pairs of nibbles, the first
/// one in the low bits.
std::vector<std::byte> unpacked(const QuantizedMatrix& matrix, std::int64_t rows, std::int64_t columns) {
  const int weights = matrix.format.weights, bits = weight_bits(weights), per_byte = 8 / bits;
  const auto sign = static_cast<std::byte>(weights == kWeightsInt8 ? zero_point_of(weights) : 0);
  std::vector<std::byte> values(static_cast<std::size_t>(rows * columns / per_byte));
  parallel_for(rows, kPackThreads, [&](std::int64_t row) {
    for (std::int64_t i = 0; i < columns; ++i) {
      const PackedPosition at = packed_position(weights, columns, row, i);
      const std::byte value = matrix.weight[at.byte] >> at.shift & static_cast<std::byte>((1 << bits) - 1);
      values[(row * columns + i) / per_byte] |= (value ^ sign) << bits * (i % per_byte);
    }
  });
  return values;
}

/// The scales [rows, groups] of a matrix.
std::vector<std::byte> unpacked_scales(const QuantizedMatrix& matrix, std::int64_t rows,
                                       std::int64_t columns) {
  const WeightFormat& f = matrix.format;
  const std::int64_t groups = groups_of(f, columns);
  const std::size_t size = size_of(scale_dtype(f));
  std::vector<std::byte> scales(static_cast<std::size_t>(rows * groups) * size);
  std::byte* to = scales.data();
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t group = 0; group < groups; ++group, to += size) {
      const std::int64_t from = scale_index(f.weights, f.group, columns, row, group * f.group);
      std::memcpy(to, matrix.scales.data() + static_cast<std::size_t>(from) * size, size);
    }
  return scales;
}

/// The tensors of a matrix, in the layout of compressed-tensors.
class LinearTensors {
 public:
  LinearTensors(const Linear& linear, const WeightFormat& format) : linear_(linear), format_(format) {}

  std::vector<TensorLayout> layout() const {
    const auto& [module, rows, columns] = linear_;
    if (columns % 8 != 0)
      throw InputError("'{}' has {} columns; it must be a multiple of 8", module, columns);
    const std::string scales = is_nvfp4()                         ? "F8_E4M3"
                               : format_.weights == kWeightsMxfp4 ? "U8"
                                                                  : stored_name(scale_dtype(format_));
    std::vector<TensorLayout> tensors = {{scale(), scales, {rows, groups_of(format_, columns)}}};
    if (is_nvfp4()) tensors.push_back({global_scale(), "F32", {1}});
    if (is_fp4(format_.weights)) {
      tensors.push_back({weight(), "U8", {rows, columns / 2}});
    } else if (is_int4()) {
      tensors.push_back({weight(), "I32", {rows, columns / 8}});
      tensors.push_back({shape(), "I64", {2}});
    } else {
      tensors.push_back({weight(), format_.weights == kWeightsFp8 ? "F8_E4M3" : "I8", {rows, columns}});
    }
    return tensors;
  }

  void write(const StoredTensor& from, SafetensorsWriter& to) const {
    const auto& [module, rows, columns] = linear_;
    const FloatRows part = {float_dtype(from, module + ".weight"), rows, from.data.data()};
    const QuantizedMatrix matrix = quantized(part);
    to.append(weight(), unpacked(matrix, rows, columns));
    to.append(scale(), unpacked_scales(matrix, rows, columns));
    const std::array<std::int64_t, 2> extents = {rows, columns};
    if (is_int4()) to.append(shape(), std::as_bytes(std::span(extents)));
    if (is_nvfp4()) {
      const float inverse = 1 / matrix.row_scales[0];
      to.append(global_scale(), std::as_bytes(std::span(&inverse, 1)));
    }
  }

 private:
  bool is_int4() const { return format_.weights == kWeightsInt4; }
  bool is_nvfp4() const { return format_.weights == kWeightsNvfp4; }
  std::string weight() const {
    return linear_.module + (weight_bits(format_.weights) == 4 ? ".weight_packed" : ".weight");
  }
  std::string global_scale() const { return linear_.module + ".weight_global_scale"; }
  std::string scale() const { return linear_.module + ".weight_scale"; }
  std::string shape() const { return linear_.module + ".weight_shape"; }
  QuantizedMatrix quantized(const FloatRows& part) const {
    try {
      return quantize(format_, std::span(&part, 1), linear_.columns);
    } catch (const InputError& e) {
      throw InputError("'{}': {}", linear_.module, e.what());
    }
  }

  const Linear& linear_;
  const WeightFormat& format_;
};

/// A file of the new checkpoint.
struct Shard {
  std::vector<std::string> sources;   // tensors of the old checkpoint
  std::vector<TensorLayout> tensors;  // those made of them
  std::int64_t bytes = 0;
};

/// Each source goes into the last shard, or into a new one where that would exceed `shard_bytes`.
std::vector<Shard> shards_of(const Checkpoint& checkpoint, const std::map<std::string, Linear>& linears,
                             const WeightFormat& format, std::int64_t shard_bytes) {
  for (const auto& [name, linear] : linears)
    float_dtype(checkpoint.tensor(name, {linear.rows, linear.columns}), name);
  std::vector<Shard> shards(1);
  for (const auto& [name, stored] : checkpoint.tensors()) {
    const auto linear = linears.find(name);
    const std::vector<TensorLayout> tensors =
        linear == linears.end() ? std::vector<TensorLayout>{{name, stored->dtype, stored->shape}}
                                : LinearTensors(linear->second, format).layout();
    std::int64_t bytes = 0;
    for (const TensorLayout& tensor : tensors) bytes += tensor.bytes();
    if (!shards.back().sources.empty() && shards.back().bytes + bytes > shard_bytes) shards.emplace_back();
    Shard& shard = shards.back();
    shard.sources.push_back(name);
    shard.tensors.insert(shard.tensors.end(), tensors.begin(), tensors.end());
    shard.bytes += bytes;
  }
  // Wide elements first, so that all are aligned: PyTorch views the bytes of a file in their dtype.
  for (Shard& shard : shards)
    std::ranges::stable_sort(shard.tensors, std::ranges::greater{},
                             [](const TensorLayout& tensor) { return stored_bytes(tensor.dtype); });
  return shards;
}

/// A new or empty folder. Without keep() its files are removed, and the folder if it was new.
class NewFolder {
 public:
  explicit NewFolder(const fs::path& path)
      : path_(path.has_filename() ? path : path.parent_path()) {  // without a slash at its end
    std::error_code error;
    existed_ = fs::exists(fs::symlink_status(path_, error));
    if (existed_ && !(fs::is_directory(path_, error) && fs::is_empty(path_, error)))
      throw InputError("'{}' is not an empty folder; --out names a new or empty one", path_.string());
    if (!fs::is_directory(fs::absolute(path_).parent_path(), error))
      throw InputError("the folder of '{}' does not exist", path_.string());
    expect_writable(path_);
    make_folder(path_);
  }
  ~NewFolder() {
    if (kept_) return;
    std::error_code none;  // files that were not made
    for (const fs::path& file : files_) {
      fs::remove(file, none);
      fs::remove(partial(file), none);
    }
    if (!existed_) fs::remove(path_, none);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  /// The path of a file that is about to be written.
  fs::path file(const std::string& name) { return files_.emplace_back(path_ / name); }
  void copy(const fs::path& from) {
    const fs::path to = file(from.filename().string());
    fs::copy_file(from, partial(to));
    fs::rename(partial(to), to);
  }
  void keep() { kept_ = true; }

 private:
  static fs::path partial(const fs::path& file) { return file.string() + ".partial"; }
  fs::path path_;
  bool existed_ = false, kept_ = false;
  std::vector<fs::path> files_;
};

void write_tensors(const Checkpoint& checkpoint, const std::map<std::string, Linear>& linears,
                   const WeightFormat& format, const std::vector<Shard>& shards, NewFolder& out) {
  std::int64_t total = 0;
  std::map<std::string, std::string> files;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string file = shards.size() == 1
                                 ? "model.safetensors"
                                 : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    SafetensorsWriter writer(out.file(file), shards[i].tensors);
    for (const std::string& name : shards[i].sources) {
      const StoredTensor& stored = *checkpoint.find(name);
      if (const auto linear = linears.find(name); linear != linears.end())
        LinearTensors(linear->second, format).write(stored, writer);
      else
        writer.append(name, stored.data);
    }
    writer.finish();
    for (const TensorLayout& tensor : shards[i].tensors) files[tensor.name] = file;
    total += shards[i].bytes;
  }
  if (shards.size() == 1) return;
  const nlohmann::json text = {{"metadata", {{"total_size", total}}}, {"weight_map", files}};
  replace_file(out.file("model.safetensors.index.json"), text.dump(2) + "\n");
}

/// Whether a file of a checkpoint holds no weights: a tokenizer, a configuration.
bool is_without_weights(const fs::directory_entry& entry) {
  static const std::vector<std::string> weights = {".safetensors", ".bin", ".pt",   ".pth",
                                                   ".gguf",        ".h5",  ".onnx", ".msgpack"};
  const std::string name = entry.path().filename().string();
  return entry.is_regular_file() && name != "config.json" && !name.ends_with(".index.json") &&
         !contains(weights, entry.path().extension().string());
}

}  // namespace

QuantizedCheckpoint quantize_checkpoint(const fs::path& model, const WeightFormat& format,
                                        const fs::path& out, std::int64_t shard_bytes) {
  expect_format(format);
  const fs::path config_file = model / "config.json";
  const ModelConfig config = read_model_config(config_file);
  if (config.quantization)
    throw InputError("'{}' is quantized already ({}); weights of 16 or 32 bits are quantized", model.string(),
                     config.quantization->method);
  OrderedJson json = need_json_object<OrderedJson>(
      read_input(config_file, config_file.string(), kMaxConfigBytes), config_file.string());
  json["quantization_config"] = quantization_config(format);
  const Checkpoint checkpoint(model);
  const std::map<std::string, Linear> linears = linears_of(config);
  const std::vector<Shard> shards = shards_of(checkpoint, linears, format, shard_bytes);

  NewFolder folder(out);
  write_tensors(checkpoint, linears, format, shards, folder);
  for (const fs::directory_entry& entry : fs::directory_iterator(model))
    if (is_without_weights(entry)) folder.copy(entry.path());
  replace_file(folder.file("config.json"), json.dump(2) + "\n");
  folder.keep();

  QuantizedCheckpoint written = {.files = static_cast<int>(shards.size())};
  for (const auto& [name, stored] : checkpoint.tensors())
    written.bytes_before += static_cast<std::int64_t>(stored->data.size());
  for (const Shard& shard : shards) written.bytes += shard.bytes;
  return written;
}

}  // namespace warptune
