#pragma once
// Since when is a configuration slower or faster, and why? Change points over the runs of a history.
// docs/regression.md has the rules.
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/results/compare.h"
#include "harness/results/history.h"

namespace warptune {

/// The times of a configuration, one per run of the history.
struct TimeSeries {
  std::vector<double> us;
  double spread = 0;  // the least standard deviation, as a fraction
};
/// Proposes, for each series, the indices of the first values after a change; between two are at least
/// `min_runs` values.
using ProposeChanges =
    std::function<std::vector<std::vector<std::size_t>>(const std::vector<TimeSeries>&, int min_runs)>;
/// Asks the Python package (python -m warptune.history, which uses ruptures). Throws InputError, also where
/// Python or the package is missing.
std::vector<std::vector<std::size_t>> changes_by_python(const std::vector<TimeSeries>& series, int min_runs);

/// A level of a row needs so many runs of the history, and so many processes in them.
inline constexpr int kMinRunsOfALevel = 3, kMinProcessesOfALevel = 9;

struct HistoryOptions {
  CompareOptions compare;
  std::string since;  // earlier changes raise no alarm: "20261101"; empty: all count
};

/// The last change of each row whose newest run belongs to `runs`: `base` and `now` hold the times before and
/// after it. A change is judged as compare() judges two files; only one that comes with another code, toolkit
/// or driver is SLOWER or FASTER, and one that comes with another card or clock, or with nothing, is
/// AMBIGUOUS. A row without a change is SAME, one with too few runs NEW, one that fails in its newest run
/// MISSING.
Comparison check_history(std::span<const HistoryRun> runs, const HistoryOptions& options,
                         const ProposeChanges& propose = changes_by_python);

}  // namespace warptune
