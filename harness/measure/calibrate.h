#pragma once
// What a device can do, beyond the peaks that floors need: writes, launches, and its cache.
#include <span>
#include <vector>

#include "harness/device/device.h"

namespace warptune {

/// Reading `bytes` in rotation, chunk by chunk.
struct RotationPoint {
  double bytes = 0;  // of all chunks together
  double us = 0;     // median per chunk
};

/// 0 where not measured.
struct Calibration {
  DeviceFacts facts;  // with measured peaks
  double write_gb_per_s = 0;
  double launch_us = 0;          // empty kernels, launched one by one
  double graph_node_us = 0;      // the same as nodes of a graph
  double graph_node_pdl_us = 0;  // and with programmatic dependent launch
  std::vector<RotationPoint> rotation;
  double cold_bytes = 0;  // the least rotation whose time no longer rises
};

/// The least bytes from which on all points are within `tolerance` of the last one's time; 0 for no points.
double where_time_stops_rising(std::span<const RotationPoint> points, double tolerance = 0.03);

/// Takes one or two seconds; sets the device's peaks.
Calibration calibrate(Device& device);

}  // namespace warptune
