#pragma once
// What launching costs, whatever the kernel does: the time of an empty one, sampled as rows of a sweep are.
#include <string>
#include <string_view>

#include "harness/core/problem.h"
#include "harness/device/device.h"
#include "harness/measure/measurement.h"

namespace warptune {

inline constexpr std::string_view kLaunchOp = "launch";

/// What is launched, one empty block: "launch[blocks=1,threads=32,dtype=fp32]".
inline Problem launch_problem() {
  return {.op = std::string(kLaunchOp), .dims = {{"blocks", 1}, {"threads", 32}}, .dtype = DType::fp32};
}

struct LaunchFloors {
  Measurement graph_node;     // one of many in a graph, as in cold and hot rows
  Measurement single_launch;  // a graph of one, after a flush, as in isolated rows
};

/// A fraction of a second. Without samples on the host, which launches nothing. Throws what compiling and the
/// device throw.
LaunchFloors measure_launch_floors(Device& device);

}  // namespace warptune
