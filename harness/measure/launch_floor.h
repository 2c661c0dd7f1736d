#pragma once
// What launching costs, whatever the kernel does: the time of an empty one, sampled as rows of a sweep are.
#include "device/device.h"
#include "measure/measurement.h"

namespace warptune {

struct LaunchFloors {
  Measurement graph_node;     // one of many in a graph, as in cold and hot rows
  Measurement single_launch;  // a graph of one, after a flush, as in isolated rows
};

/// A fraction of a second. Without samples on the host, which launches nothing. Throws what compiling and the
/// device throw.
LaunchFloors measure_launch_floors(Device& device);

}  // namespace warptune
