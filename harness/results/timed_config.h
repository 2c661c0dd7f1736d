#pragma once
// The times of a sweep's CSV by configuration: one per run, and only times that were sampled in the same way
// together.
#include <filesystem>
#include <string>
#include <vector>

#include "harness/measure/measurement.h"

namespace warptune {

/// One row: a configuration in one run.
struct TimedRun {
  std::string run_id;
  double time_us = Measurement::NAN_VALUE;
  double sm_clock_mhz = Measurement::NAN_VALUE;
  std::string throttled;             // reasons, "none", or empty where unknown
  std::string code_hash;             // empty for a library and on the host
  std::vector<double> samples = {};  // empty where they were not kept
};

struct TimedConfig {
  std::string device, op, problem, variant, config, cache;
  bool on_host = false;
  SamplingClass sampling = SamplingClass::screened;
  std::vector<TimedRun> runs;  // those with status ok
  std::string failure;         // the last status that is not ok, or empty

  /// Whether it has a time, and no run of `rerun` failed.
  bool ok() const { return !runs.empty() && !(sampling == SamplingClass::rerun && !failure.empty()); }
  /// Whether its times decide a comparison: those of a winner or a finalist in the sweep's own cache state,
  /// and those of `rerun`.
  bool decides() const;
  /// One time per run.
  std::vector<double> times_us() const;
  /// The geometric mean of the faster half of the runs (results/student_t.h); NaN without runs.
  double time_us() const;
  /// Device, op, problem, variant, config and cache.
  std::string key() const;
};

/// Puts entries of one key and sampling together, in the order of their first. Of two rows of one run the
/// later counts, and of rows with different machine code those with the newest. A row that is not ok belongs
/// to every entry of its key; alone it is an entry without runs.
std::vector<TimedConfig> grouped(const std::vector<TimedConfig>& rows);

/// The configurations in a sweep's CSV, with their samples from the samples file. Throws InputError.
std::vector<TimedConfig> read_timed_configs(const std::filesystem::path& csv);

}  // namespace warptune
