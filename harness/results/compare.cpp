#include "harness/results/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "harness/measure/clock_watch.h"
#include "harness/results/mann_whitney.h"
#include "harness/results/student_t.h"

namespace warptune {
namespace {

/// A change in percent, for messages.
std::string percent(double fraction) { return fmt::format("{:.3g} %", 100 * fraction); }

/// The highest SM clock of a run; NaN where unknown.
double highest_clock(const TimedConfig& config) {
  double clock = NAN;
  for (const TimedRun& run : config.runs) clock = std::fmax(clock, run.sm_clock_mhz);
  return clock;
}

/// The reasons of a configuration that was throttled in all runs; else empty. A power cap shows in the
/// clocks.
std::string throttling_of(const TimedConfig& config) {
  for (const TimedRun& run : config.runs)
    if (!is_throttling(run.throttled)) return {};
  return config.runs.empty() ? "" : config.runs.front().throttled;
}

/// Sets the doubt of a row whose times cannot be compared.
void doubt_conditions(RowChange& row, double max_clock_change) {
  const std::string before = throttling_of(row.base), after = throttling_of(row.now);
  const double old_clock = highest_clock(row.base), new_clock = highest_clock(row.now);
  if (before != after) {
    row.doubt = Doubt::throttled;
    row.note = before.empty() ? fmt::format("the new run was throttled ({})", after)
                              : fmt::format("the base was throttled ({})", before);
  } else if (std::abs(new_clock / old_clock - 1) > max_clock_change) {
    row.doubt = Doubt::clock;
    row.note = fmt::format("the SM clock was {:.0f} MHz and is {:.0f} MHz", old_clock, new_clock);
  }
}

/// One row's part of the family-wise test.
struct Evidence {
  double p = 1;
  double min_effect = 0;  // smaller changes are noise
  std::string weakness;   // why a change of at least options.min_effect may be noise
};

Evidence evidence_of(RowChange& row, const CompareOptions& options) {
  const RunNoise noise = run_noise(row.base.time_us(), row.base.on_host);
  const StudentT runs = compare_runs(row.base.times_us(), row.now.times_us(), noise);
  row.effect = runs.effect;
  if (row.base.runs.size() > 1 && row.now.runs.size() > 1) {
    const double drift = options.interleaved ? 0 : noise.drift;
    return {runs.p, std::max(options.min_effect, drift),
            std::abs(row.effect) < drift
                ? fmt::format("recordings of one program differ by up to {}; time both with --base-program",
                              percent(drift))
                : "the runs of one side differ by as much"};
  }
  const std::vector<double>&old = row.base.runs.back().samples, &now = row.now.runs.back().samples;
  Evidence evidence{mann_whitney(old, now).p, std::max(options.min_effect, noise.floor), ""};
  evidence.weakness = direction(row.effect, evidence.min_effect) != Change::same
                          ? fmt::format("{} and {} samples do not tell them apart", old.size(), now.size())
                          : fmt::format("single runs of one program differ by up to {}; use rerun --runs 3",
                                        percent(noise.floor));
  return evidence;
}

/// Sets the verdicts of rows that are in both files and can be compared.
void judge(std::span<RowChange* const> rows, const CompareOptions& options) {
  std::vector<Evidence> evidence;
  std::vector<double> p;
  for (RowChange* row : rows) {
    evidence.push_back(evidence_of(*row, options));
    p.push_back(evidence.back().p);
  }
  const std::vector<double> adjusted = holm(p);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    RowChange& row = *rows[i];
    row.p = adjusted[i];
    row.change = direction(row.effect, options.min_effect);
    const bool is_noise =
        row.p > options.alpha || direction(row.effect, evidence[i].min_effect) == Change::same;
    if (row.change == Change::same || !is_noise) continue;
    row.change = Change::ambiguous;
    row.doubt = Doubt::noise;
    row.note = evidence[i].weakness;
  }
}

/// Entries by key; of one key the deciding ones come first.
using ByKey = std::map<std::string, std::vector<const TimedConfig*>>;

ByKey by_key(std::span<const TimedConfig> configs) {
  ByKey map;
  for (const TimedConfig& config : configs) map[config.key()].push_back(&config);
  for (auto& [key, entries] : map)
    std::ranges::stable_sort(entries, std::greater(), [](const TimedConfig* c) { return c->decides(); });
  return map;
}

/// The row of an ok entry of the base and the entries of its key in the new file. Undecided: AMBIGUOUS or
/// SAME.
RowChange matched_row(const TimedConfig& base, const std::vector<const TimedConfig*>& now,
                      const CompareOptions& options) {
  RowChange row{.base = base};
  const auto same = std::ranges::find(now, base.sampling, &TimedConfig::sampling);
  if (same != now.end() && (*same)->ok()) {
    row.now = **same;
    row.effect = row.now.time_us() / base.time_us() - 1;
    doubt_conditions(row, options.max_clock_change);
  } else if (const auto other = std::ranges::find_if(now, &TimedConfig::ok);
             other != now.end() && same == now.end()) {
    row.now = **other;
    row.doubt = Doubt::sampling;
    row.note = fmt::format("its times are {} in the base and {} now, which differ in sampling",
                           name_of(base.sampling), name_of(row.now.sampling));
  } else {
    row.change = Change::missing;
    if (!now.empty()) row.note = fmt::format("its status is {} now", now.front()->failure);
  }
  if (row.doubt != Doubt::none) row.change = Change::ambiguous;
  return row;
}

std::vector<RowChange> rows_of(std::span<const TimedConfig> base, std::span<const TimedConfig> now,
                               bool decide, const CompareOptions& options) {
  const ByKey news = by_key(now);
  const std::vector<const TimedConfig*> none;
  std::vector<RowChange> rows;
  std::set<std::string> known;
  for (const TimedConfig& config : base) {
    if (!config.ok() || config.decides() != decide) continue;
    known.insert(config.key());
    const auto it = news.find(config.key());
    rows.push_back(matched_row(config, it == news.end() ? none : it->second, options));
  }
  std::vector<RowChange*> comparable;
  for (RowChange& row : rows)
    if (row.change == Change::same) comparable.push_back(&row);
  judge(comparable, options);
  for (const TimedConfig& config : now)
    if (config.ok() && config.decides() == decide && known.insert(config.key()).second)
      rows.push_back({.now = config, .change = Change::fresh});
  std::ranges::stable_sort(rows, {}, &RowChange::change);
  return rows;
}

bool is_matched(const RowChange& row) { return row.change != Change::missing && row.change != Change::fresh; }

}  // namespace

Change direction(double effect, double min_effect) {
  if (effect >= min_effect) return Change::slower;
  // The inverse of the same ratio: 1 / (1 + 2 %).
  if (effect <= 1 / (1 + min_effect) - 1) return Change::faster;
  return Change::same;
}

void count_rows(Comparison& c) {
  c.matched = static_cast<std::size_t>(std::ranges::count_if(c.rows, is_matched));
  c.judged = static_cast<std::size_t>(
      std::ranges::count_if(c.rows, [](const RowChange& r) { return is_matched(r) && r.is_judged(); }));
}

std::string_view name_of(Change change) {
  static constexpr std::string_view kNames[] = {"SLOWER", "MISSING", "AMBIGUOUS", "FASTER", "NEW", "SAME"};
  return kNames[static_cast<int>(change)];
}

std::size_t Comparison::count(Change change) const {
  return static_cast<std::size_t>(std::ranges::count(rows, change, &RowChange::change));
}

int Comparison::exit_code() const {
  if (count(Change::slower)) return 1;
  if (matched == 0) return 2;
  if (2 * judged < matched) return 3;
  return count(Change::missing) ? 2 : 0;
}

std::string Comparison::why_unjudged() const {
  if (matched == 0 || 2 * judged >= matched) return {};
  static constexpr std::array<std::string_view, 6> kReasons = {
      "", "SM clock differs", "throttled", "sampled in another way", "noise", "another card"};
  std::string reasons, example;
  std::size_t most = 0;
  for (std::size_t d = 1; d < kReasons.size(); ++d) {
    const auto of_it = [&](const RowChange& r) { return r.doubt == static_cast<Doubt>(d); };
    const auto count = static_cast<std::size_t>(std::ranges::count_if(rows, of_it));
    if (count == 0) continue;
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : ", ", kReasons[d], count);
    if (count > most) example = std::ranges::find_if(rows, of_it)->note;
    most = std::max(most, count);
  }
  return fmt::format("only {} of {} rows were judged ({}); for one of them {}", judged, matched, reasons,
                     example);
}

Comparison compare(std::span<const TimedConfig> base, std::span<const TimedConfig> now,
                   const CompareOptions& options) {
  Comparison c{.options = options, .rows = rows_of(base, now, true, options)};
  if (options.all_rows) c.aside = rows_of(base, now, false, options);
  count_rows(c);
  return c;
}

std::vector<const RowChange*> suspects(const Comparison& comparison) {
  std::vector<const RowChange*> found;
  for (const RowChange& row : comparison.rows)
    if (is_matched(row) && direction(row.effect, comparison.options.min_effect) == Change::slower)
      found.push_back(&row);
  return found;
}

Comparison confirmed(Comparison comparison, const Comparison& again) {
  std::map<std::string, const RowChange*> verdicts;
  for (const RowChange& row : again.rows) verdicts[row.row().key()] = &row;
  for (RowChange& row : comparison.rows) {
    const auto it = verdicts.find(row.row().key());
    if (it == verdicts.end()) continue;
    const double first = row.effect;
    row = *it->second;
    row.note = fmt::format("{:+.2f} % at first, timed again in {} runs{}{}", 100 * first, row.now.runs.size(),
                           row.note.empty() ? "" : "; ", row.note);
  }
  std::ranges::stable_sort(comparison.rows, {}, &RowChange::change);
  count_rows(comparison);
  return comparison;
}

}  // namespace warptune
