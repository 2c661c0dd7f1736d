#pragma once
// The configurations of a problem that were tried, and what their measurements say together.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/device/compile.h"
#include "harness/measure/measurement.h"
#include "harness/measure/speed_table.h"
#include "harness/results/wisdom.h"
#include "harness/tune/schedule.h"

namespace warptune {

/// In canonical order. The lists are parallel.
struct Trials {
  std::vector<Candidate> candidates;
  std::vector<Measurement> measurements;
  std::vector<std::string> runs;   // ids of the runs that hold their rows
  std::vector<double> first_us;    // times of the screening, before finalists are timed again
  std::vector<std::size_t> peers;  // indices of the ones that are timed beside the others and cannot win
  bool any_new = false;            // at least one was measured in this run

  /// "no configuration is correct: 3 wrong_result, 1 timeout (first: ...)"
  std::string why_none() const;
};

/// The speed of a configuration, with the best times of naive and library variants.
Speed speed_of(const SweepItem& item, const Trials& trials, const Measurement& measurement);

/// The times of the screening of all configurations that are correct and can win.
std::map<std::pair<std::string, std::string>, double> screened_times(const Trials& trials);

/// The times that choices for other problems need (TunedPlans::likely()): the 8 fastest and the best of every
/// variant, without those more than 4 times slower than `best_us`. They are the times of the screening:
/// finalists are timed again on a hotter GPU and would look slower than the rest.
std::vector<VariantTimes> times_to_record(const Trials& trials, const OpEntry& op, const Compiler& compiler,
                                          double best_us);

}  // namespace warptune
