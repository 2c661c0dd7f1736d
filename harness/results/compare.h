#pragma once
// Finds the rows of a sweep that are faster or slower than in another one. docs/regression.md has the rules.
#include <filesystem>
#include <string>
#include <vector>

#include "harness/measure/measurement.h"

namespace warptune {

/// In the order of the report: the most important first.
enum class Change { slower, missing, ambiguous, faster, fresh, same };
/// "SLOWER", "MISSING", "AMBIGUOUS", "FASTER", "NEW", "SAME".
std::string_view name_of(Change change);

/// The fields of a CSV row that a comparison needs.
struct TimedRow {
  std::string device, op, problem, variant, config, cache;
  std::string status;
  double time_us = Measurement::NAN_VALUE;
  double ci_low_us = Measurement::NAN_VALUE, ci_high_us = Measurement::NAN_VALUE;
  double sm_clock_mhz = Measurement::NAN_VALUE;
  std::string throttled;             // reasons, "none", or empty where unknown
  std::vector<double> samples = {};  // empty where they were not kept

  bool ok() const { return status == "ok" && time_us > 0; }
};

struct CompareOptions {
  double min_effect = 0.02;  // of medians, as a fraction
  double alpha = 0.05;       // probability that two equal runs have any changed row
  double max_clock_change = 0.03;
};

struct RowChange {
  TimedRow base, now;  // empty if the row is missing
  Change change = Change::same;
  double effect = Measurement::NAN_VALUE;  // now / base - 1 of the medians
  double p = Measurement::NAN_VALUE;       // adjusted; NaN if intervals were compared instead
  std::string note;                        // one sentence, or empty

  const TimedRow& row() const { return base.device.empty() ? now : base; }
};

struct Comparison {
  CompareOptions options;
  std::vector<RowChange> rows;  // in the order of Change, then of the files
  std::size_t matched = 0;      // rows that are in both

  std::size_t count(Change change) const;
  /// 1 if a row is slower, else 2 if a row is missing or none matched, else 0.
  int exit_code() const;
};

/// Matches rows by device, op, problem, variant, config and cache. Of several rows with one key it takes the
/// last ok one, else the last.
Comparison compare(const std::vector<TimedRow>& base, const std::vector<TimedRow>& now,
                   const CompareOptions& options);

/// The rows of configurations in a sweep's CSV, with their samples from the samples file. Throws InputError.
std::vector<TimedRow> read_timed_rows(const std::filesystem::path& csv);

}  // namespace warptune
