#pragma once
// How a launch loads a device, and the terms of a model of its time.
#include <array>

#include "harness/core/variant.h"

namespace warptune {

/// How a launch loads a device.
struct LaunchLoad {
  double work = 0;            // bytes, or flops converted to bytes by the ridge point: the larger
  bool memory_bound = false;  // bytes take at least twice as long as arithmetic
  double tiles = 1;           // work tiles; without a tile scheduler each block is one
  double slots = 1;           // blocks that run at the same time
  double sms = 1;             // SMs that the blocks can use
  double splits = 1;
  double imbalance = 1, tiles_of_busiest_warp = 1;  // of a round-robin assignment (WorkDistribution)
  double makespan =
      0;  // work of the block that ends last, with a dynamic scheduler and tiles of different lengths
  double sharing = 1;  // query heads per KV head
};

/// The load of a variant's first stage; only the work for a variant without launch geometry.
LaunchLoad load_of(const Op& op, const Variant& variant, const Problem& problem, const Config& config,
                   const DeviceFacts& facts);

inline constexpr std::size_t kTimeParts = 7;
using TimeParts = std::array<double, kTimeParts>;

/// The terms of the time model of a launch: a constant; the total work; the work of the busiest SM, counted
/// in tiles and in waves of blocks; the waves times the memory trips of a warp (at most a few); the number of
/// splits; whether there are several splits. If tiles differ in length: a constant, the total work, the work
/// of the block that ends last, and the two terms of splits.
TimeParts time_parts(const LaunchLoad& load);

/// The base-2 logarithms of a load. Launches at near points take similar times.
using LoadPoint = std::array<double, 4>;
LoadPoint point_of(const LaunchLoad& load);
/// The weighted sum of differences, in doublings.
double distance(const LoadPoint& a, const LoadPoint& b);

}  // namespace warptune
