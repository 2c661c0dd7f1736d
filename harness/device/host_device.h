#pragma once
#include <functional>
#include <utility>

#include "harness/device/device.h"

namespace warptune {

/// A function in place of a captured graph: the host has no others, and a GPU runs its launches one by one.
class FunctionGraph : public CapturedGraph {
 public:
  explicit FunctionGraph(std::function<void(Stream)> body) : body_(std::move(body)) {}
  void launch(Stream stream) override { body_(stream); }

 private:
  std::function<void(Stream)> body_;
};

/// The CPU as a device: plans are functions, replays call them, time is the steady clock.
OwnedDevice make_host_device(std::shared_ptr<RankGroup> group = nullptr);

}  // namespace warptune
