#pragma once
// The rows of model steps in a CSV: their time is that of a whole decode step, not of a launch.
#include <map>
#include <string>

namespace warptune {

/// The value of their column `cache`.
inline constexpr const char* kStepCache = "step";

/// The variant of the row of a step with the plans that won.
inline constexpr const char* kStepPlans = "plans";

inline bool is_step_row(const std::map<std::string, std::string>& row) {
  const auto cache = row.find("cache");
  return cache != row.end() && cache->second == kStepCache;
}

}  // namespace warptune
