#pragma once
// The activations of a run on disk: a folder with one safetensors file for the prefill (step 0) and for each
// decode step. A tensor has a row per token and is named after layer, op and output:
// "layer.3.attention_decode.out". The rows of all chunks of a prefill are one tensor.
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "harness/llama/call.h"
#include "harness/llama/kv_format.h"
#include "harness/llama/safetensors.h"

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

/// An element that differs.
struct Difference {
  std::int64_t row = 0, column = 0;
  double got = 0, want = 0, relative = 0;
};

/// Where an output differs by more than the tolerance, at its worst element.
struct Parting : Difference {
  int step = 0, layer = -1;
  std::string op, tensor;
};

/// Throws InputError if a file of the prefill and `steps` steps is not in the folder.
void expect_dump(const std::filesystem::path& folder, int steps);

/// The relative difference that two correct runs may have in a layer: 1e-3 in fp32, 1e-2 in fp16, 4e-2 in
/// bf16 in the first one, and more where the cache is quantized. It grows as a random walk of rounding errors
/// through the residual stream does: two runs of 32 layers in bf16 part by 4.2e-2, of two layers by 2.3e-2.
double layer_tolerance(DType dtype, const KvFormat& kv = {}, int layer = 0);

/// The relative difference of a row is max |difference| over max |element| of the dump's row.
class LayerCompare : public LaunchWatcher {
 public:
  /// `kv`: the format of the run's cache.
  LayerCompare(Device& device, std::filesystem::path folder, const KvFormat& kv = {});
  /// Throws InputError if the dump is not of this model, batch or prompt.
  void begin(std::span<const Call> calls) override;
  void launched(const Call& call) override;
  void end() override;

  /// The tokens that the dumped run fed in a step. Throws InputError if they are not of `batch` sequences.
  std::vector<int> fed(int step, int batch) const;
  bool agrees() const { return total_ == 0; }
  /// The first outputs that part, in the order in which they are computed; at most kShown.
  const std::vector<Parting>& first() const { return first_; }
  static constexpr std::size_t kShown = 10;
  /// The table of the first partings, and a sentence.
  std::string text(bool colored = false) const;

 private:
  void compare(const Output& output, const StoredTensor& tensor, std::int64_t first_row);
  Device& device_;
  std::filesystem::path folder_;
  KvFormat kv_;
  std::optional<SafetensorsFile> file_;       // the file of the step
  std::map<std::string, std::int64_t> rows_;  // rows of each tensor so far
  std::set<std::string> only_in_one_;         // tensors that fused ops do not have
  std::vector<Parting> first_;
  int step_ = 0, deepest_ = 0;             // deepest_: the last layer of this step so far
  std::int64_t total_ = 0, compared_ = 0;  // tensors that part, and all
  double largest_ = 0, tolerance_ = 0;
};

}  // namespace warptune
