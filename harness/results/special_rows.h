#pragma once
// The rows of a CSV that belong to no configuration: launch floors of the device, and decode steps of a
// model.
#include <string>

#include "harness/measure/launch_floor.h"
#include "harness/results/csv.h"

namespace warptune {

inline bool is_launch_row(const CsvRow& row) {
  return field(row, "problem").starts_with(std::string(kLaunchOp) + "[");
}

/// The column `cache` of a step.
inline constexpr const char* kStepCache = "step";
/// The variant of the row of a step with the plans that won.
inline constexpr const char* kStepPlans = "plans";

inline bool is_step_row(const CsvRow& row) { return field(row, "cache") == kStepCache; }

}  // namespace warptune
