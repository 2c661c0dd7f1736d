#pragma once
// How the work of a sweep is divided among nodes and among the devices of one.
#include <string>
#include <vector>

#include "harness/tune/plan.h"

namespace warptune {

/// Part `index` (from 1) of `count`.
struct Shard {
  int index = 1, count = 1;
};
/// "2/8". Throws InputError.
Shard parse_shard(const std::string& text);

/// Keeps the configurations of a shard. A configuration belongs to one shard whatever else the sweep holds
/// and whatever the device, so that the shards of all nodes are the whole, and none overlaps another.
std::vector<PlannedProblem> keep_shard(std::vector<PlannedProblem> problems, Shard shard);

/// Deals problems out to so many devices, whole, the largest first, each to the device with the least work.
std::vector<std::vector<PlannedProblem>> deal(std::vector<PlannedProblem> problems, int devices);

/// "cuda:0,cuda:1" at its commas.
std::vector<std::string> split_devices(const std::string& devices);

}  // namespace warptune
