#pragma once
// Device properties beyond the peaks that floors need: write rate, launch times, cache size.
#include <span>
#include <vector>

#include "harness/device/device.h"

namespace warptune {

/// The time of reading `bytes` in rotation, chunk by chunk.
struct RotationPoint {
  double bytes = 0;  // the sum over all chunks
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
  double cold_bytes = 0;  // the smallest rotation whose time no longer rises
};

/// The smallest `bytes` from which on all times are within `tolerance` of the last one; 0 for no points.
double where_time_stops_rising(std::span<const RotationPoint> points, double tolerance = 0.03);

/// Takes one or two seconds; sets the device's peaks.
Calibration calibrate(Device& device);

}  // namespace warptune
