#pragma once
// The activations of a run on disk: a folder with one safetensors file for the prefill (step 0) and for each
// decode step. A tensor has a row per token and is named after layer, op and output:
// "layer.3.attention_decode.out". The rows of all chunks of a prefill are one tensor.
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "harness/llama/call.h"
#include "harness/llama/safetensors_writer.h"

namespace warptune {

/// "FOLDER/step-0000.safetensors".
std::filesystem::path dump_file(const std::filesystem::path& folder, int step);
/// The tensors of a prefill or a step, in the order in which they are computed.
std::vector<TensorLayout> dump_layout(std::span<const Call> calls);

/// Throws InputError if the folder is not empty, or something else has its name.
void expect_new_dump(const std::filesystem::path& folder);
/// Throws InputError with both sizes if the disk of the folder does not have this many bytes free.
void expect_room(const std::filesystem::path& folder, double bytes);

/// Writes what a model computes.
class LayerDump : public LaunchWatcher {
 public:
  /// `step_calls`: the launches of a decode step, of which `steps` follow the prefill. The room on the disk
  /// is checked before the first launch.
  LayerDump(Device& device, std::filesystem::path folder, std::span<const Call> step_calls, int steps);
  void begin(std::span<const Call> calls) override;
  void launched(const Call& call) override;
  void end() override;
  int files() const { return step_; }
  double bytes() const { return bytes_; }

 private:
  Device& device_;
  std::filesystem::path folder_;
  double bytes_of_steps_;
  int step_ = 0;
  double bytes_ = 0;  // written
  std::optional<SafetensorsWriter> writer_;
  std::vector<std::byte> buffer_;
};

}  // namespace warptune
