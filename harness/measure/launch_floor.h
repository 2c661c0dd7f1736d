#pragma once
// The cost of a launch: the time of an empty kernel, sampled like the rows of a sweep.
#include <string>
#include <string_view>

#include "harness/core/problem.h"
#include "harness/device/device.h"
#include "harness/measure/measurement.h"

namespace warptune {

inline constexpr std::string_view kLaunchOp = "launch";

/// The problem of the empty kernel: "launch[blocks=1,threads=32,dtype=fp32]".
inline Problem launch_problem() {
  return {.op = std::string(kLaunchOp), .dims = {{"blocks", 1}, {"threads", 32}}, .dtype = DType::fp32};
}

struct LaunchFloors {
  Measurement graph_node;     // one of many in a graph, as in cold and hot rows
  Measurement single_launch;  // a graph of one, after a flush, as in isolated rows
};

/// Takes a fraction of a second. Returns no samples on the host, which has no launches. Throws the errors of
/// the compiler and the device.
LaunchFloors measure_launch_floors(Device& device);

}  // namespace warptune
