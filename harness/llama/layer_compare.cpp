// Compares the activations of a run with a dump.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "harness/core/error.h"
#include "harness/core/text_table.h"
#include "harness/llama/layer_dump.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIds = "embedding.ids";

DType dtype_of(const StoredTensor& tensor, const std::string& where) {
  if (const auto dtype = dtype_stored_as(tensor.dtype)) return *dtype;
  throw InputError("{} is of {}; a dump has F32, F16, BF16 and I32", where, tensor.dtype);
}

std::vector<float> floats_of(DType dtype, std::span<const std::byte> bytes) {
  std::vector<float> floats(bytes.size() / size_of(dtype));
  with_float_dtype(dtype, [&]<class T>() {
    for (std::size_t i = 0; i < floats.size(); ++i) {
      T value;
      std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
      floats[i] = static_cast<float>(value);
    }
  });
  return floats;
}

/// Whether only some plans have this tensor: a fused launch does not store what it hands to itself.
bool depends_on_plans(const std::string& name) {
  constexpr std::string_view kOfSomePlans[] = {
      ".rope_append",       "linear_o.out",    "add_rms_norm_attention.out",
      "linear_gate_up.out", "linear_down.out", "add_rms_norm_mlp.out",
      "rms_norm.out"};
  return std::ranges::any_of(kOfSomePlans,
                             [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

/// The element of the row that differs most, relative to the row's largest. A NaN differs from everything.
Difference worst_of(std::span<const float> got, std::span<const float> want, std::int64_t width) {
  Difference worst;
  for (std::size_t first = 0; first < want.size(); first += static_cast<std::size_t>(width)) {
    double difference = 0, largest = 0;
    std::size_t at = first;
    for (std::size_t i = first; i < first + static_cast<std::size_t>(width); ++i) {
      double d = std::abs(static_cast<double>(got[i]) - want[i]);
      if (!std::isfinite(d)) d = INFINITY;
      if (d > difference) difference = d, at = i;
      largest = std::max(largest, std::abs(static_cast<double>(want[i])));
    }
    const double relative = difference == 0 ? 0 : difference / largest;  // infinite if the row is zero
    if (relative > worst.relative)
      worst = {static_cast<std::int64_t>(first) / width, static_cast<std::int64_t>(at - first), got[at],
               want[at], relative};
  }
  return worst;
}

std::string label_of(const Parting& p) {
  return fmt::format("step {}, {}{}.{}", p.step, p.layer < 0 ? "" : fmt::format("layer {}, ", p.layer), p.op,
                     p.tensor);
}

}  // namespace

void expect_dump(const fs::path& folder, int steps) {
  if (!fs::is_directory(folder)) throw InputError("--compare-layers: there is no folder {}", folder.string());
  for (int step = 0; step <= steps; ++step)
    if (!fs::exists(dump_file(folder, step)))
      throw InputError("--compare-layers: there is no {}; the run has {} steps",
                       dump_file(folder, step).string(), steps);
}

double layer_tolerance(DType dtype, const KvFormat& kv, int layer) {
  const double rounded = dtype == DType::fp32 ? 1e-3 : dtype == DType::fp16 ? 1e-2 : 4e-2;
  // Keys of two correct runs may round to neighboring codes: 1/127 in int8, 1/16 of an element in fp8.
  const double code = !kv.quantized ? 0 : *kv.quantized == DType::int8 ? 1.5e-2 : 7e-2;
  return std::hypot(rounded, code) * std::sqrt(1 + layer / 8.0);
}

LayerCompare::LayerCompare(Device& device, fs::path folder, const KvFormat& kv)
    : device_(device), folder_(std::move(folder)), kv_(kv) {}

void LayerCompare::begin(std::span<const Call> calls) {
  file_.emplace(dump_file(folder_, step_));
  rows_.clear();
  deepest_ = 0;
  const auto where = file_->path().string();
  std::set<std::string> here;
  for (const TensorLayout& tensor : dump_layout(calls)) {
    here.insert(tensor.name);
    const auto it = file_->tensors().find(tensor.name);
    if (it == file_->tensors().end()) {
      if (!depends_on_plans(tensor.name))
        throw InputError("{} has no tensor '{}': it is not a dump of this model", where, tensor.name);
      only_in_one_.insert(tensor.name);
      continue;
    }
    if (it->second.shape != tensor.shape)
      throw InputError(
          "{}: tensor '{}' has shape [{}], and [{}] in this run: model, batch or "
          "prompts differ",
          where, tensor.name, fmt::join(it->second.shape, ", "), fmt::join(tensor.shape, ", "));
    const DType stored = dtype_of(it->second, fmt::format("{}: tensor '{}'", where, tensor.name));
    if ((stored == DType::int32) != (tensor.dtype == stored_name(DType::int32)))
      throw InputError("{}: tensor '{}' is of {}: it is not a dump of this program", where, tensor.name,
                       it->second.dtype);
  }
  for (const auto& [name, tensor] : file_->tensors()) {
    if (here.contains(name)) continue;
    if (!depends_on_plans(name))
      throw InputError("{}: this run has no tensor '{}': it is a dump of another model", where, name);
    only_in_one_.insert(name);
  }
}

void LayerCompare::launched(const Call& call) {
  for (const Output& output : call.outputs) {
    const auto it = file_->tensors().find(output.name());
    if (it == file_->tensors().end()) continue;
    std::int64_t& row = rows_[output.name()];
    compare(output, it->second, row);
    row += output.rows;
  }
}

void LayerCompare::compare(const Output& output, const StoredTensor& tensor, std::int64_t first_row) {
  std::vector<std::byte> bytes(output.bytes());
  output.read(device_, bytes.data());
  const DType stored = dtype_of(tensor, output.name());
  const std::size_t row_bytes = static_cast<std::size_t>(output.width) * size_of(stored);
  const auto dumped = tensor.data.subspan(static_cast<std::size_t>(first_row) * row_bytes,
                                          static_cast<std::size_t>(output.rows) * row_bytes);
  if (output.dtype == DType::int32) {  // token ids
    if (!std::ranges::equal(bytes, dumped))
      throw InputError("{}: '{}' differs: the prompts of the dump are not those of this run",
                       file_->path().string(), output.name());
    return;
  }
  Difference worst = worst_of(floats_of(output.dtype, bytes), floats_of(stored, dumped), output.width);
  deepest_ = std::max(deepest_, output.layer);
  const double tolerance =  // that of the coarser dtype
      std::max(layer_tolerance(output.dtype, kv_, deepest_), layer_tolerance(stored, kv_, deepest_));
  ++compared_;
  largest_ = std::max(largest_, worst.relative);
  tolerance_ = std::max(tolerance_, tolerance);
  if (worst.relative <= tolerance) return;
  ++total_;
  worst.row += first_row;
  if (first_.size() < kShown) first_.push_back({worst, step_, output.layer, output.op, output.tensor});
}

void LayerCompare::end() { ++step_; }

std::vector<int> LayerCompare::fed(int step, int batch) const {
  const SafetensorsFile file(dump_file(folder_, step));
  const auto it = file.tensors().find(kIds);
  if (it == file.tensors().end() || it->second.dtype != "I32" ||
      it->second.data.size() != static_cast<std::size_t>(batch) * sizeof(int))
    throw InputError("{} has no tensor '{}' of {} I32, one per sequence", file.path().string(), kIds, batch);
  std::vector<int> ids(it->second.data.size() / sizeof(int));
  std::memcpy(ids.data(), it->second.data.data(), it->second.data.size());
  return ids;
}

std::string LayerCompare::text(bool colored) const {
  std::string text;
  if (!only_in_one_.empty())
    text += fmt::format("{} tensors are in one of the runs only, because it does not fuse their op: {}, ..\n",
                        only_in_one_.size(), *only_in_one_.begin());
  const std::string compared =
      fmt::format("{} tensors of {} files compared, largest relative difference {:.1e}, tolerance {:.1e}",
                  compared_, step_, largest_, tolerance_);
  if (agrees()) return text + fmt::format("the layers agree: {}\n", compared);
  TextTable table({{"step"},
                   {"layer"},
                   text_column("op"),
                   text_column("output"),
                   {"row"},
                   {"column"},
                   {"this run"},
                   {"dump"},
                   {"relative difference"}});
  for (const Parting& p : first_)
    table.add({std::to_string(p.step), p.layer < 0 ? "" : std::to_string(p.layer), p.op, p.tensor,
               std::to_string(p.row), std::to_string(p.column), fmt::format("{:.4g}", p.got),
               fmt::format("{:.4g}", p.want), fmt::format("{:.1e}", p.relative)});
  text += table.text(colored);
  return text + fmt::format("the layers part first at {}; {} of {}\n", label_of(first_[0]), total_, compared);
}

}  // namespace warptune
