#include "harness/results/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "harness/results/launch_rows.h"
#include "harness/results/rank_test.h"
#include "harness/results/samples_file.h"
#include "harness/results/sweep_file.h"

namespace warptune {
namespace {

std::string key_of(const TimedRow& row) {
  return row.device + '\n' + row.op + '\n' + row.problem + '\n' + row.variant + '\n' + row.config + '\n' +
         row.cache;
}

/// One row per key, in the order of their first rows.
std::vector<TimedRow> one_per_key(const std::vector<TimedRow>& rows) {
  std::vector<TimedRow> kept;
  std::map<std::string, std::size_t> index;
  for (const TimedRow& row : rows) {
    const auto [it, is_new] = index.try_emplace(key_of(row), kept.size());
    if (is_new)
      kept.push_back(row);
    else if (row.ok() || !kept[it->second].ok())
      kept[it->second] = row;
  }
  return kept;
}

bool was_throttled(const TimedRow& row) { return !row.throttled.empty() && row.throttled != "none"; }

/// Why two times cannot be compared; empty if they can. Rows that were throttled for the same reason, such as
/// a power cap, can be compared if their clocks are equal.
std::string why_incomparable(const TimedRow& base, const TimedRow& now, double max_clock_change) {
  const bool both = base.throttled == now.throttled;
  if (was_throttled(base) && !both) return fmt::format("the base was throttled ({})", base.throttled);
  if (was_throttled(now) && !both) return fmt::format("the new row was throttled ({})", now.throttled);
  const double change = now.sm_clock_mhz / base.sm_clock_mhz - 1;
  if (std::abs(change) > max_clock_change)
    return fmt::format("the SM clock was {:.0f} MHz and is {:.0f} MHz", base.sm_clock_mhz, now.sm_clock_mhz);
  return {};
}

/// The interval of the median, or the range of the samples if they are fewer than 6.
std::pair<double, double> range_of(const TimedRow& row) {
  if (!row.samples.empty() && row.samples.size() < 6) {
    const auto [low, high] = std::ranges::minmax(row.samples);
    return {low, high};
  }
  if (std::isfinite(row.ci_low_us) && std::isfinite(row.ci_high_us)) return {row.ci_low_us, row.ci_high_us};
  return {row.time_us, row.time_us};
}

bool apart(const TimedRow& a, const TimedRow& b) {
  const auto [a_low, a_high] = range_of(a);
  const auto [b_low, b_high] = range_of(b);
  return a_high < b_low || b_high < a_low;
}

Change direction(double effect, double min_effect) {
  if (effect >= min_effect) return Change::slower;
  // The inverse of the same ratio: 1 / (1 + 2 %).
  if (effect <= 1 / (1 + min_effect) - 1) return Change::faster;
  return Change::same;
}

/// Sets the verdicts of rows that are in both files and can be compared.
void judge(std::vector<RowChange*>& rows, const CompareOptions& options) {
  std::vector<double> p;
  std::vector<RankTest> tests;
  for (const RowChange* row : rows) {
    tests.push_back(mann_whitney(row->base.samples, row->now.samples));
    p.push_back(tests.back().p);
  }
  const std::vector<double> adjusted = holm(p);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    RowChange& row = *rows[i];
    const Change change = direction(row.effect, options.min_effect);
    bool different = false;
    const bool sampled = !row.base.samples.empty() && !row.now.samples.empty();
    if (!sampled || tests[i].least_p * static_cast<double>(rows.size()) > options.alpha) {
      different = apart(row.base, row.now);
      row.note = sampled ? fmt::format("{} and {} samples are too few for a rank test: intervals compared",
                                       row.base.samples.size(), row.now.samples.size())
                         : "no samples kept: intervals compared";
    } else {
      row.p = adjusted[i];
      different = row.p <= options.alpha;
    }
    row.change = different || change == Change::same ? change : Change::ambiguous;
    if (row.change == Change::ambiguous)
      row.note += fmt::format("{}the medians differ, but the difference of the samples is not significant",
                              row.note.empty() ? "" : "; ");
  }
}

double value_of(const std::map<std::string, std::string>& row, const char* column) {
  const std::string& text = row.at(column);
  return text.empty() ? NAN : std::strtod(text.c_str(), nullptr);
}

}  // namespace

std::string_view name_of(Change change) {
  static constexpr std::string_view kNames[] = {"SLOWER", "MISSING", "AMBIGUOUS", "FASTER", "NEW", "SAME"};
  return kNames[static_cast<int>(change)];
}

std::size_t Comparison::count(Change change) const {
  return static_cast<std::size_t>(std::ranges::count(rows, change, &RowChange::change));
}

int Comparison::exit_code() const {
  if (count(Change::slower)) return 1;
  return matched == 0 || count(Change::missing) ? 2 : 0;
}

Comparison compare(const std::vector<TimedRow>& base, const std::vector<TimedRow>& now,
                   const CompareOptions& options) {
  Comparison result{.options = options};
  const std::vector<TimedRow> olds = one_per_key(base), news = one_per_key(now);
  std::map<std::string, const TimedRow*> by_key;
  for (const TimedRow& row : news) by_key[key_of(row)] = &row;
  result.rows.reserve(olds.size() + news.size());
  std::vector<RowChange*> judged;
  std::map<std::string, bool> was_ok;
  for (const TimedRow& old : olds) {
    if (!old.ok()) continue;
    was_ok[key_of(old)] = true;
    RowChange& row = result.rows.emplace_back();
    row.base = old;
    const auto it = by_key.find(key_of(old));
    if (it == by_key.end() || !it->second->ok()) {
      row.change = Change::missing;
      if (it != by_key.end()) row.note = fmt::format("its status is {} now", it->second->status);
      continue;
    }
    ++result.matched;
    row.now = *it->second;
    row.effect = row.now.time_us / row.base.time_us - 1;
    row.note = why_incomparable(row.base, row.now, options.max_clock_change);
    if (row.note.empty())
      judged.push_back(&row);
    else
      row.change = Change::ambiguous;
  }
  judge(judged, options);
  for (const TimedRow& row : news)
    if (row.ok() && !was_ok.contains(key_of(row)))
      result.rows.push_back({.base = {}, .now = row, .change = Change::fresh, .note = ""});
  std::ranges::stable_sort(result.rows, {}, &RowChange::change);
  return result;
}

std::vector<TimedRow> read_timed_rows(const std::filesystem::path& csv) {
  const auto samples = read_samples(samples_path(csv));
  std::vector<TimedRow> rows;
  for (const CsvRow& row : read_sweep(csv)) {
    if (is_launch_row(row)) continue;
    TimedRow& timed = rows.emplace_back(TimedRow{.device = row.at("device"),
                                                 .op = row.at("op"),
                                                 .problem = row.at("problem"),
                                                 .variant = row.at("variant"),
                                                 .config = row.at("config"),
                                                 .cache = row.at("cache"),
                                                 .status = row.at("status"),
                                                 .time_us = value_of(row, "time_us"),
                                                 .ci_low_us = value_of(row, "ci_low_us"),
                                                 .ci_high_us = value_of(row, "ci_high_us"),
                                                 .sm_clock_mhz = value_of(row, "sm_clock_mhz"),
                                                 .throttled = row.at("throttled")});
    if (const auto it = samples.find(samples_key(row)); it != samples.end()) timed.samples = it->second;
  }
  return rows;
}

}  // namespace warptune
