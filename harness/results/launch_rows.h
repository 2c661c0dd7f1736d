#pragma once
// The rows of op `launch` in a CSV: launch floors of the device, which belong to no configuration.
#include <map>
#include <string>

#include "harness/measure/launch_floor.h"

namespace warptune {

inline bool is_launch_row(const std::map<std::string, std::string>& row) {
  const auto problem = row.find("problem");
  return problem != row.end() && problem->second.starts_with(std::string(kLaunchOp) + "[");
}

}  // namespace warptune
