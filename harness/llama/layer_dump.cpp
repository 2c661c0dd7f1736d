#include "harness/llama/layer_dump.h"

#include <fmt/format.h>

#include "harness/core/error.h"
#include "harness/results/durable_file.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;

constexpr double kMiB = 1 << 20;
constexpr double kHeaderPerTensor = 128;  // name, dtype, shape and offsets as JSON

double file_bytes(std::span<const Call> calls) {
  double bytes = 0;
  for (const TensorLayout& tensor : dump_layout(calls))
    bytes += static_cast<double>(tensor.bytes()) + kHeaderPerTensor;
  return bytes;
}

}  // namespace

fs::path dump_file(const fs::path& folder, int step) {
  return folder / fmt::format("step-{:04}.safetensors", step);
}

std::vector<TensorLayout> dump_layout(std::span<const Call> calls) {
  std::vector<TensorLayout> layout;
  std::map<std::string, std::size_t> at;
  for (const Call& call : calls)
    for (const Output& output : call.outputs) {
      const auto [it, is_new] = at.emplace(output.name(), layout.size());
      if (is_new)
        layout.push_back({output.name(), stored_name(output.dtype), {output.rows, output.width}});
      else
        layout[it->second].shape[0] += output.rows;  // another chunk of the prompts
    }
  return layout;
}

void expect_new_dump(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return;
  if (!fs::is_directory(folder, error) || !fs::is_empty(folder, error))
    throw InputError("--dump-layers: {} is not an empty folder", folder.string());
}

void expect_room(const fs::path& folder, double bytes) {
  fs::path there = fs::absolute(folder);
  while (!fs::exists(there) && there.has_relative_path()) there = there.parent_path();
  const auto free = static_cast<double>(fs::space(there).available);
  if (bytes > free)
    throw InputError("the activations take {:.1f} MiB and the disk of {} has {:.1f} MiB free", bytes / kMiB,
                     folder.string(), free / kMiB);
}

LayerDump::LayerDump(Device& device, fs::path folder, std::span<const Call> step_calls, int steps)
    : device_(device), folder_(std::move(folder)), bytes_of_steps_(steps * file_bytes(step_calls)) {}

void LayerDump::begin(std::span<const Call> calls) {
  if (step_ == 0) {
    expect_room(folder_, file_bytes(calls) + bytes_of_steps_);
    make_folder(folder_);
  }
  writer_.emplace(dump_file(folder_, step_), dump_layout(calls));
}

void LayerDump::launched(const Call& call) {
  for (const Output& output : call.outputs) {
    buffer_.resize(output.bytes());
    output.read(device_, buffer_.data());
    writer_->append(output.name(), buffer_);
  }
}

void LayerDump::end() {
  writer_->finish();
  writer_.reset();
  bytes_ += static_cast<double>(fs::file_size(dump_file(folder_, step_)));
  ++step_;
}

}  // namespace warptune
