#pragma once
// One launch of a model: a plan, its arguments, and what it computes.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/llama/plan_book.h"

namespace warptune {

/// Rows that a launch writes, as dumps name and read them.
struct Output {
  int layer = -1;          // below 0: outside the layers
  std::string op, tensor;  // "linear_down", "out"
  DType dtype = DType::fp32;
  std::int64_t rows = 0, width = 0;
  /// Copies the rows to host memory, after all earlier work of the device.
  std::function<void(Device&, void* to)> read;

  /// "layer.3.linear_down.out", "lm_head.out".
  std::string name() const {
    return (layer < 0 ? "" : "layer." + std::to_string(layer) + ".") + op + "." + tensor;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(rows * width) * size_of(dtype); }
  /// Adjacent rows on the device.
  static Output dense(int layer, std::string op, std::string tensor, DType dtype, std::int64_t rows,
                      std::int64_t width, const void* data) {
    Output output{layer, std::move(op), std::move(tensor), dtype, rows, width, {}};
    output.read = [data, bytes = output.bytes()](Device& device, void* to) {
      device.download(to, data, bytes);
    };
    return output;
  }
};

/// A plan and its args.h struct.
struct Call {
  std::shared_ptr<const PlanEntry> entry;
  Args args;
  std::vector<Output> outputs = {};
  int layer = -1;  // below 0: outside the layers
  void launch(Stream stream) const { entry->plan->launch(args.data(), stream); }
};

/// Sees the launches of a model, which then run one by one without graphs.
class LaunchWatcher {
 public:
  virtual ~LaunchWatcher() = default;
  /// Before the first launch of a prefill or a step.
  virtual void begin(std::span<const Call> calls) = 0;
  virtual void launched(const Call& call) = 0;
  /// After the last launch.
  virtual void end() = 0;
};

}  // namespace warptune
