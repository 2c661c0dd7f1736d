#pragma once
// The rows of op `launch` in a CSV: launch floors of the device, which belong to no configuration.
#include <string>

#include "harness/measure/launch_floor.h"
#include "harness/results/csv.h"

namespace warptune {

inline bool is_launch_row(const CsvRow& row) {
  return field(row, "problem").starts_with(std::string(kLaunchOp) + "[");
}

}  // namespace warptune
