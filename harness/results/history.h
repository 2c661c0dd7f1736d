#pragma once
// A history: a folder with one CSV per process that measured, named by date, commit, device and driver. A
// file is written once, under a name that no other writer uses, and never changed: several machines may share
// the folder.
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/results/compare.h"
#include "harness/results/csv.h"
#include "harness/results/timed_config.h"

namespace warptune {

/// What the name of a file tells.
struct HistoryFile {
  std::filesystem::path path;
  std::string run_id, commit, device, driver;  // device: DeviceFacts::slug()
};

/// A run: the files of one commit, machine and card that begin within 12 hours, such as those of
/// `rerun --runs 3`.
struct HistoryRun {
  HistoryFile file;                  // the first
  std::string host, toolkit, card;   // empty where unknown
  std::vector<TimedConfig> configs;  // those that decide a comparison, and failures
};

/// Adds the rows that decide a comparison (TimedConfig::decides()) and failures of `rerun`, of the run ids
/// that no file has yet: after a kill the next call adds what is missing. Returns the new files. Throws
/// InputError where a row has no run id, std::runtime_error where the folder cannot be written.
std::vector<std::filesystem::path> add_to_history(const std::filesystem::path& folder,
                                                  std::vector<CsvRow> rows);

/// The files in the order of their dates. Files with other names are left out. Throws InputError where there
/// is no such folder.
std::vector<HistoryFile> history_files(const std::filesystem::path& folder);

/// The runs in the same order, read by several threads. Throws InputError with file and line for what is no
/// row.
std::vector<HistoryRun> read_history(const std::vector<HistoryFile>& files);

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

/// A level of a row needs this many runs of the history, and this many processes in them.
inline constexpr int kMinRunsOfALevel = 3, kMinProcessesOfALevel = 9;

/// Since when is a configuration slower or faster, and why? docs/regression.md has the rules.
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
