#pragma once
// Notices logits that are NaN or infinite in any step, without a wait of the host.
#include <memory>
#include <optional>
#include <string>

#include "harness/core/dtype.h"
#include "harness/device/device.h"
#include "kernels/support/args.h"

namespace warptune {

class LogitsCheck {
 public:
  LogitsCheck(Device& device, DType dtype);
  /// Forgets earlier steps.
  void clear();
  /// Enqueues the check of a step, after its tokens are sampled. `args.first` is filled in.
  void enqueue(LogitsCheckArgs args);

  struct Found {
    int step = 0, sequence = 0;  // step 0 is the prefill
    /// "the logits of step 3 are NaN or infinite (sequence 1)"
    std::string str() const;
  };
  /// The first step with such logits. Waits for the device.
  std::optional<Found> found() const;

 private:
  Device& device_;
  std::unique_ptr<Plan> plan_;
  Buffer first_;
};

}  // namespace warptune
