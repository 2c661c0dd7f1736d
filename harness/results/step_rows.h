#pragma once
// The rows of model steps in a CSV: their time is that of a whole decode step, not of a launch.
#include "harness/results/csv.h"

namespace warptune {

/// The value of their column `cache`.
inline constexpr const char* kStepCache = "step";

/// The variant of the row of a step with the plans that won.
inline constexpr const char* kStepPlans = "plans";

inline bool is_step_row(const CsvRow& row) { return field(row, "cache") == kStepCache; }

}  // namespace warptune
