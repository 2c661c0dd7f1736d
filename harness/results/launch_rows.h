#pragma once
// The rows of a CSV that say what launching costs on the device, and are of no configuration: op `launch`.
#include <map>
#include <string>

#include "harness/measure/launch_floor.h"

namespace warptune {

inline bool is_launch_row(const std::map<std::string, std::string>& row) {
  const auto problem = row.find("problem");
  return problem != row.end() && problem->second.starts_with(std::string(kLaunchOp) + "[");
}

}  // namespace warptune
