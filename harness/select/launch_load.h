#pragma once
// How a launch loads a device, and the parts that its time should be made of.
#include <array>

#include "harness/core/variant.h"

namespace warptune {

/// How a launch loads a device.
struct LaunchLoad {
  double work = 0;            // bytes, or arithmetic in the bytes that take as long
  bool memory_bound = false;  // whether bytes take at least twice as long as arithmetic
  double tiles = 1;           // work tiles; without a tile scheduler each block is one
  double slots = 1;           // blocks that run at a time
  double sms = 1;             // multiprocessors that the blocks can use
  double splits = 1;
  double imbalance = 1, tiles_of_busiest_warp = 1;  // of a round-robin assignment (WorkDistribution)
  double makespan =
      0;  // work of the block that ends last, where a scheduler hands out tiles of different lengths
  double sharing = 1;  // query heads per KV head
};

/// Of a variant's first stage; of a variant that does not say how it launches, the work alone.
LaunchLoad load_of(const Op& op, const Variant& variant, const Problem& problem, const Config& config,
                   const DeviceFacts& facts);

inline constexpr std::size_t kTimeParts = 7;
using TimeParts = std::array<double, kTimeParts>;

/// The parts of the time of a launch: a constant, its whole work, the work of the busiest multiprocessor (by
/// its tiles, and by rounds of as many as run at a time), the rounds, each as many times as a warp goes to
/// memory (a few), the number of splits, and whether there are several. Where tiles differ in length: a
/// constant, the whole work, the work of the block that ends last, and the splits.
TimeParts time_parts(const LaunchLoad& load);

/// The logarithms of a load, to base 2: launches at near points take similar times.
using LoadPoint = std::array<double, 4>;
LoadPoint point_of(const LaunchLoad& load);
/// In doublings.
double distance(const LoadPoint& a, const LoadPoint& b);

}  // namespace warptune
