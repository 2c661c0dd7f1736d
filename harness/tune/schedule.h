#pragma once
// The schedule of a sweep on one device: the configurations to try of each problem, and how shards and
// devices divide them.
#include <memory>
#include <string>
#include <vector>

#include "harness/core/space.h"
#include "harness/device/device.h"
#include "harness/tune/sweep.h"
#include "harness/tune/tune_options.h"

namespace warptune {

/// A configuration by its index in a space, since a space may have millions of them.
class Candidate {
 public:
  Candidate(const Variant& of, std::shared_ptr<const Space> space, std::int64_t index)
      : variant(&of), space_(std::move(space)), index_(index) {}
  Config config() const { return space_->at(index_); }

  const Variant* variant;

 private:
  std::shared_ptr<const Space> space_;
  std::int64_t index_;
};

/// The size of a variant's space for a problem: all configurations, the legal ones, which meet the
/// constraints, and the ones that the sweep plans to try.
struct SpaceCount {
  const Variant* variant = nullptr;
  std::int64_t all = 0, legal = 0, planned = 0;
};

/// A configuration that breaks a constraint.
struct Excluded {
  Candidate candidate;
  std::string constraint;
};

struct ScheduledProblem {
  const SweepItem* item = nullptr;
  std::vector<SpaceCount> counts;
  std::vector<Candidate> candidates;  // in canonical order: variants as listed, configurations as in Space
  std::vector<Excluded> excluded;     // only where the sweep asks for rows of them
  std::string why_none;               // without candidates: the constraint that excludes the first of them
};

using Schedule = std::vector<ScheduledProblem>;

/// `filter`: a regular expression searched for in "op/variant", with a '=' or "\[" in the problems' keys,
/// too; empty: all. Throws InputError for a wrong filter, and where a file names variants but none of them
/// runs on this device.
Schedule make_schedule(const Sweep& sweep, const DeviceFacts& facts, const std::string& filter = {});

/// The error of a sweep without a configuration for a device: it names the first constraint that excludes
/// one.
InputError no_configuration(const Sweep& sweep, const Schedule& schedule, const DeviceFacts& facts);

/// "2/8". Throws InputError.
Shard parse_shard(const std::string& text);

/// Keeps the configurations of one shard. The shard of a configuration depends on the configuration alone,
/// so the shards of all nodes cover a sweep without overlap.
Schedule keep_shard(Schedule schedule, Shard shard);

/// Sorts the problems by their shares of the time of their models' steps, the largest first.
void sort_by_share(Schedule& schedule);

/// Removes the problems whose tensors exceed the memory of the device. Returns a sentence about each.
std::vector<std::string> leave_out_too_large(Schedule& schedule, const DeviceFacts& facts);

/// Distributes whole problems over devices, the largest first, each to the device with the least work.
std::vector<Schedule> distribute(Schedule schedule, int devices);

}  // namespace warptune
