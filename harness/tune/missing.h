#pragma once
// The part of a sweep that a wisdom does not know, with the configurations that are likely to be fast.
#include "harness/select/plan_chooser.h"
#include "harness/tune/sweep.h"
#include "harness/tune/tune_options.h"

namespace warptune {

/// The items whose problem has no winner that may be used on the device, each once, with the variants' likely
/// configurations (TunedPlans::likely()) in place of their spaces: 12 at most, instead of hundreds. The
/// simulated loss against the best configuration is 0.3 to 2 % on average (docs/choosing.md). Items without a
/// likely configuration are left out.
Sweep missing_part(const Sweep& sweep, const DeviceFacts& facts, const PlanOptions& known);

/// What is to be tuned on a device: the missing part where the sweep says `missing: true`, else the sweep.
Sweep part_to_tune(const Sweep& sweep, const DeviceFacts& facts, const TuneOptions& options);

}  // namespace warptune
