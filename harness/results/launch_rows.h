#pragma once
// The rows of a CSV that say what launching costs on the device, and are of no configuration: op `launch`.
#include <map>
#include <string>
#include <string_view>

#include "core/problem.h"

namespace warptune {

inline constexpr std::string_view kLaunchOp = "launch";

/// One empty block: "launch[blocks=1,threads=32,dtype=fp32]".
inline Problem launch_problem() {
  return {.op = std::string(kLaunchOp), .dims = {{"blocks", 1}, {"threads", 32}}, .dtype = DType::fp32};
}

inline bool is_launch_row(const std::map<std::string, std::string>& row) {
  const auto problem = row.find("problem");
  return problem != row.end() && problem->second.starts_with(std::string(kLaunchOp) + "[");
}

}  // namespace warptune
