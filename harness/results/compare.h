#pragma once
// Finds the configurations of a sweep that are faster or slower than in another one. docs/regression.md has
// the rules.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/results/timed_config.h"

namespace warptune {

/// In the order of the report: the most important first.
enum class Change { slower, missing, ambiguous, faster, fresh, same };
/// "SLOWER", "MISSING", "AMBIGUOUS", "FASTER", "NEW", "SAME".
std::string_view name_of(Change change);

/// Why a row has no verdict.
enum class Doubt { none, clock, throttled, sampling, noise, card };

struct CompareOptions {
  double min_effect = 0.02;  // as a fraction
  double alpha = 0.05;       // probability that two equal files have any changed row
  double max_clock_change = 0.03;
  bool all_rows = false;     // also judge rows that do not decide
  bool interleaved = false;  // the runs of both files were interleaved: no drift between them
};

struct RowChange {
  TimedConfig base, now;  // empty if the row is missing
  Change change = Change::same;
  Doubt doubt = Doubt::none;
  double effect = Measurement::NAN_VALUE;  // now / base - 1
  double p = Measurement::NAN_VALUE;       // adjusted by Holm's method
  std::string note;                        // one sentence, or empty
  // Of a change in a history: the first run with it, that run's commit, and what else changed with it.
  std::string since = {}, commit = {}, cause = {};

  const TimedConfig& row() const { return base.device.empty() ? now : base; }
  bool is_judged() const { return change != Change::ambiguous; }
};

struct Comparison {
  CompareOptions options;
  std::vector<RowChange> rows;   // the rows that decide, in the order of Change, then of the files
  std::vector<RowChange> aside;  // with options.all_rows the others, in the same order
  std::size_t matched = 0;       // rows that are in both and decide
  std::size_t judged = 0;        // matched rows with a verdict

  std::size_t count(Change change) const;
  /// 1 if a row is slower; 2 if none matched; 3 if fewer than half of the matched rows were judged; 2 if a
  /// row is missing; else 0.
  int exit_code() const;
  /// Where fewer than half were judged, one sentence that says why; else empty.
  std::string why_unjudged() const;
};

/// SLOWER, FASTER or SAME; a change of 1 + min_effect counts in both directions.
Change direction(double effect, double min_effect);
/// Sets `matched` and `judged` from the rows.
void count_rows(Comparison& comparison);

/// Matches entries of one key and sampling. An entry of `base` that decides and has another sampling in `now`
/// is AMBIGUOUS. One family-wise test covers all rows that decide.
Comparison compare(std::span<const TimedConfig> base, std::span<const TimedConfig> now,
                   const CompareOptions& options);

/// The rows that seem slower, by what was measured: SLOWER ones, and AMBIGUOUS ones whose change is large
/// enough.
std::vector<const RowChange*> suspects(const Comparison& comparison);

/// The comparison with the verdicts of `again` for its rows, suspects that were timed again.
Comparison confirmed(Comparison comparison, const Comparison& again);

}  // namespace warptune
