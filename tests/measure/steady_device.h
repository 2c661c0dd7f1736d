#pragma once
// The host with a clock of its own: launches take a fixed time, and nothing else takes any. Tests of timing
// logic then do not depend on the speed and the load of the machine.
#include <functional>
#include <memory>

#include "tests/measure/forwarding_device.h"

namespace warptune::testing {

class SteadyDevice : public ForwardingDevice {
 public:
  /// Every launch takes `launch_us`. The samples are `spread` below it and above it in turn.
  explicit SteadyDevice(double launch_us, double spread = 0)
      : ForwardingDevice(open_device("host")), launch_us_(launch_us), spread_(spread) {}

  /// Refers to the device.
  std::function<double()> clock() const {
    return [this] { return seconds_; };
  }
  void advance(double seconds) const { seconds_ += seconds; }

  std::unique_ptr<Plan> prepare(const Variant& variant, const Problem& problem,
                                const Config& config) override {
    return std::make_unique<CountedPlan>(real_->prepare(variant, problem, config), launches_);
  }
  double time_us(CapturedGraph& graph) override {
    const int before = launches_;
    real_->time_us(graph);
    const double us = launch_us_ * (launches_ - before) * (timed_++ % 2 == 0 ? 1 - spread_ : 1 + spread_);
    advance(us * 1e-6);
    return us;
  }

 private:
  struct CountedPlan : Plan {
    CountedPlan(std::unique_ptr<Plan> real, int& launches) : real(std::move(real)), launches(launches) {}
    void launch(const void* args, Stream stream) const override {
      ++launches;
      real->launch(args, stream);
    }
    std::int64_t workspace_bytes() const override { return real->workspace_bytes(); }
    Resources resources() const override { return real->resources(); }
    std::unique_ptr<Plan> real;
    int& launches;
  };

  const double launch_us_, spread_;
  int launches_ = 0, timed_ = 0;
  mutable double seconds_ = 0;
};

}  // namespace warptune::testing
