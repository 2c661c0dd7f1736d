#pragma once
// How a launch loads a device, and what its time should be made of.
#include <array>

#include "harness/core/op.h"
#include "harness/core/variant.h"

namespace warptune {

/// How a launch loads a device.
struct LaunchLoad {
  double work = 0;      // bytes, or what arithmetic is worth in bytes
  bool memory = false;  // whether bytes take at least twice as long as arithmetic
  double blocks = 1;    // or pieces of work that persistent ones share
  double slots = 1;     // blocks that run at a time
  double sms = 1;       // multiprocessors that they find room on
  double splits = 1;
  Dealt dealt;
  double last_end = 0;  // work of the block that ends last, where blocks draw what is not alike
  double group = 1;     // query heads that share keys
};

/// That of a variant's first stage; of a variant that does not say how it launches, the work alone.
LaunchLoad load_of(const Op& op, const Variant& variant, const Problem& problem, const Config& config,
                   const DeviceFacts& facts);

inline constexpr std::size_t kTimeParts = 7;
using TimeParts = std::array<double, kTimeParts>;

/// What the time of a launch is made of: a constant, its whole work, the work of the busiest multiprocessor
/// (by its blocks, and by the rounds of as many as run at a time), those rounds, each as many times as a warp
/// goes to memory (a few), and the merging of splits, by their number and at all. Where blocks draw pieces: a
/// constant, all work, that of the block that ends last, and merging.
TimeParts parts_of(const LaunchLoad& load);

/// The logarithms of a load, to base 2: loads whose logarithms are near take alike times.
using Place = std::array<double, 4>;
Place place_of(const LaunchLoad& load);
/// In doublings.
double distance(const Place& a, const Place& b);

}  // namespace warptune
