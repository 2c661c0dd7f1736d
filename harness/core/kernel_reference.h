#pragma once
// A reference that is a kernel as well as a function of the host.
#include <functional>
#include <memory>
#include <span>

#include "harness/core/variant.h"

namespace warptune {

/// What Op::reference holds where the reference also runs on GPUs: op.reference.target<KernelReference>().
/// Called, it runs on the host. The kernel computes all units at once. It takes an array of fp64 or fp32 in
/// place of each tensor of floating point, and int32 as they are.
struct KernelReference {
  std::function<void(const Problem&, const Inputs&, std::int64_t unit, Expected&)> on_host;
  std::shared_ptr<const Variant> variant;  // one stage, no parameters
  bool in_fp64 = true;
  std::function<Args(const Problem&, std::span<void* const> arrays)> bind;

  void operator()(const Problem& problem, const Inputs& inputs, std::int64_t unit, Expected& out) const {
    on_host(problem, inputs, unit, out);
  }
};

}  // namespace warptune
