// Change points over the runs of a history.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/core/python_process.h"
#include "harness/core/text_table.h"
#include "harness/measure/clock_watch.h"
#include "harness/measure/statistics.h"
#include "harness/results/history.h"
#include "harness/results/student_t.h"

namespace warptune {
namespace {

/// A configuration in the runs that timed it.
struct Series {
  std::vector<const TimedConfig*> points;
  std::vector<const HistoryRun*> runs;
  std::string failure;  // in its newest run; else empty
};

std::vector<Series> series_of(std::span<const HistoryRun> runs) {
  std::vector<Series> list;
  std::map<std::pair<std::string, SamplingClass>, std::size_t> index;
  std::map<std::string, std::size_t> newest;  // by key: where its newest time is
  for (const HistoryRun& run : runs)
    for (const TimedConfig& config : run.configs) {
      if (config.runs.empty()) {
        if (const auto it = newest.find(config.key()); it != newest.end())
          list[it->second].failure = config.failure;
        continue;
      }
      const auto at = index.try_emplace({config.key(), config.sampling}, list.size()).first->second;
      if (at == list.size()) list.emplace_back();
      newest[config.key()] = at;
      list[at].failure = config.ok() ? "" : config.failure;
      list[at].points.push_back(&config);
      list[at].runs.push_back(&run);
    }
  return list;
}

/// The points as one entry with the times of all their processes.
TimedConfig level(std::span<const TimedConfig* const> points) {
  TimedConfig all = *points.back();
  all.runs.clear();
  for (const TimedConfig* point : points)
    all.runs.insert(all.runs.end(), point->runs.begin(), point->runs.end());
  return all;
}

std::vector<double> times_of(std::span<const TimedConfig* const> points) {
  std::vector<double> us;
  for (const TimedConfig* point : points) us.push_back(point->time_us());
  return us;
}

/// The typical range of the processes of a run, as a fraction: a row whose processes are in one of several
/// modes has runs that are all in one by chance.
double range_within_runs(std::span<const TimedConfig* const> points) {
  std::vector<double> ranges;
  for (const TimedConfig* point : points) {
    const auto [least, most] = std::ranges::minmax(point->times_us());
    ranges.push_back(most / least - 1);
  }
  return median(ranges);
}

struct ChangePoint {
  std::size_t at = 0;  // the first point after it
  TimedConfig before, after;
  double effect = 0, p = 1;
  Change change = Change::same;
};

/// The change between the points [begin, at) and [at, end). Both the processes and the runs must tell them
/// apart: processes of one run have more in common than those of two.
ChangePoint change_at(const Series& series, std::size_t begin, std::size_t at, std::size_t end, double tests,
                      const CompareOptions& options) {
  const std::span points(series.points);
  const auto left = points.subspan(begin, at - begin), right = points.subspan(at, end - at);
  ChangePoint change{.at = at, .before = level(left), .after = level(right)};
  const RunNoise noise = run_noise(change.before.time_us(), change.before.on_host);
  const StudentT processes = compare_runs(change.before.times_us(), change.after.times_us(), noise),
                 runs = compare_runs(times_of(left), times_of(right), noise);
  change.effect = processes.effect;
  change.p = std::min(1.0, tests * std::max(processes.p, runs.p));
  const bool is_short =
      std::min(change.before.runs.size(), change.after.runs.size()) < std::size_t{kMinProcessesOfALevel};
  const double modes = range_within_runs(points.subspan(begin, end - begin));
  if (!is_short && change.p <= options.alpha)
    change.change = direction(change.effect, std::max({options.min_effect, noise.drift, modes}));
  return change;
}

/// The proposed changes that are large and significant: the weakest of the others is dropped until none is
/// left, since without it the levels beside it are longer.
std::vector<ChangePoint> changes_of(const Series& series, std::vector<std::size_t> proposed, double tests,
                                    const CompareOptions& options) {
  for (;;) {
    std::vector<ChangePoint> changes;
    for (std::size_t i = 0; i < proposed.size(); ++i)
      changes.push_back(change_at(series, i ? proposed[i - 1] : 0, proposed[i],
                                  i + 1 < proposed.size() ? proposed[i + 1] : series.points.size(), tests,
                                  options));
    const auto weakest = std::ranges::max_element(
        changes, {}, [](const ChangePoint& c) { return std::pair(c.change == Change::same, c.p); });
    if (weakest == changes.end() || weakest->change != Change::same) return changes;
    proposed.erase(proposed.begin() + (weakest - changes.begin()));
  }
}

/// Whether what a text says can be why two levels differ: it is another one from the change on. A machine
/// that is another one in every run explains no level.
bool differs(std::span<const HistoryRun* const> runs, std::size_t at, std::string HistoryRun::*fact) {
  const auto values = [&](std::size_t begin, std::size_t end) {
    std::vector<std::string> list;
    for (std::size_t i = begin; i < end; ++i) list.push_back(runs[i]->*fact);
    std::ranges::sort(list);
    list.erase(std::unique(list.begin(), list.end()), list.end());
    return list;
  };
  const std::vector<std::string> before = values(0, at), after = values(at, runs.size());
  return std::ranges::find_first_of(before, after) == before.end() &&
         std::min(before.size(), after.size()) == 1;
}

/// The median SM clock; NaN where unknown.
double median_clock(const TimedConfig& level) {
  std::vector<double> clocks;
  for (const TimedRun& run : level.runs)
    if (std::isfinite(run.sm_clock_mhz)) clocks.push_back(run.sm_clock_mhz);
  return clocks.empty() ? Measurement::NAN_VALUE : median(clocks);
}

/// What changed with the times: what the project's code or its tools did (`judged`), or what the machine did.
struct Causes {
  std::vector<std::string> judged, machine;
  Doubt doubt = Doubt::noise;
};

Causes causes_of(const Series& series, const ChangePoint& change, std::size_t begin, std::size_t end) {
  const std::size_t at = change.at;
  const HistoryRun &before = *series.runs[at - 1], &after = *series.runs[at];
  const std::string &old_code = series.points[at - 1]->runs.back().code_hash,
                    &new_code = series.points[at]->runs.back().code_hash;
  Causes causes;
  const bool other_toolkit = before.toolkit != after.toolkit,
             other_commit = before.file.commit != after.file.commit,
             has_code = !old_code.empty() && !new_code.empty();
  // The hash covers the toolkit. On the host, where there is none, only the commit tells.
  if (has_code ? old_code != new_code && (other_commit || !other_toolkit)
               : other_commit && change.after.on_host)
    causes.judged.emplace_back("code");
  if (other_toolkit) causes.judged.emplace_back("toolkit");
  if (before.file.driver != after.file.driver) causes.judged.emplace_back("driver");
  const auto near = std::span(series.runs).subspan(begin, end - begin);
  if (differs(near, at - begin, &HistoryRun::card) || differs(near, at - begin, &HistoryRun::host)) {
    causes.machine.emplace_back("card");
    causes.doubt = Doubt::card;
  }
  // A clock explains a change of which it has at least half.
  const double clock = median_clock(change.after) / median_clock(change.before) - 1;
  const auto slowed = [](const TimedRun& run) { return is_throttling(run.throttled); };
  if (std::abs(clock) >= std::abs(change.effect) / 2 && (clock < 0) == (change.effect > 0)) {
    causes.machine.emplace_back("clocks");
    causes.doubt = Doubt::clock;
  } else if (std::ranges::all_of(change.before.runs, slowed) !=
             std::ranges::all_of(change.after.runs, slowed)) {
    causes.machine.emplace_back("power");
    causes.doubt = Doubt::throttled;
  }
  return causes;
}

std::string cause_text(const Causes& causes) {
  std::vector<std::string> all = causes.judged;
  all.insert(all.end(), causes.machine.begin(), causes.machine.end());
  return all.empty() ? "noise" : fmt::format("{}", fmt::join(all, " or "));
}

/// The row of a series with changes, of which the last decides.
RowChange changed_row(const Series& series, const std::vector<ChangePoint>& changes,
                      const std::string& since) {
  const ChangePoint& last = changes.back();
  const std::size_t begin = changes.size() > 1 ? changes[changes.size() - 2].at : 0;
  const Causes causes = causes_of(series, last, begin, series.points.size());
  const HistoryFile& first = series.runs[last.at]->file;
  RowChange row{.base = last.before,
                .now = last.after,
                .change = last.change,
                .effect = last.effect,
                .p = last.p,
                .since = first.run_id,
                .commit = first.commit,
                .cause = cause_text(causes)};
  row.note = fmt::format("since {}, commit {}: {}", first.run_id, first.commit,
                         row.cause == "noise" ? "nothing recorded changed with it" : row.cause);
  for (std::size_t i = 0; i + 1 < changes.size(); ++i)
    row.note +=
        fmt::format("; {:+.2f} % at {}", 100 * changes[i].effect, series.runs[changes[i].at]->file.run_id);
  if (first.run_id < since)
    row.change = Change::same;
  else if (causes.judged.empty() || !causes.machine.empty())
    row.change = Change::ambiguous, row.doubt = causes.doubt;
  return row;
}

RowChange row_of(const Series& series, const std::vector<ChangePoint>& changes, const std::string& since) {
  const std::span points(series.points);
  if (!series.failure.empty())
    return {.base = level(points),
            .change = Change::missing,
            .note = fmt::format("its status is {} in its newest run", series.failure)};
  if (!changes.empty()) return changed_row(series, changes, since);
  const TimedConfig all = level(points);
  if (points.size() < 2 * kMinRunsOfALevel || all.runs.size() < 2 * kMinProcessesOfALevel)
    return {.now = all,
            .change = Change::fresh,
            .note = fmt::format("{}, processes: {}; a change needs {} runs and {} processes",
                                counted(points.size(), "run"), all.runs.size(), 2 * kMinRunsOfALevel,
                                2 * kMinProcessesOfALevel)};
  return {.base = all,
          .now = *points.back(),
          .change = Change::same,
          .effect = points.back()->time_us() / all.time_us() - 1};
}

}  // namespace

std::vector<std::vector<std::size_t>> changes_by_python(const std::vector<TimeSeries>& series, int min_runs) {
  nlohmann::json request = {{"series", nlohmann::json::array()}, {"spread", nlohmann::json::array()}};
  for (const TimeSeries& one : series) {
    request["series"].push_back(one.us);
    request["spread"].push_back(one.spread);
  }
  request["min_runs"] = min_runs;
  PythonProcess python("warptune.history", {}, 600);
  auto changes = python.ask<std::vector<std::vector<std::size_t>>>(request, "changes");
  bool is_wrong = changes.size() != series.size();
  for (std::size_t i = 0; !is_wrong && i < series.size(); ++i)
    is_wrong = !std::ranges::is_sorted(changes[i]) ||
               (!changes[i].empty() && (changes[i].front() == 0 || changes[i].back() >= series[i].us.size()));
  if (is_wrong) throw InputError("warptune.history answered indices that are none of its series");
  return changes;
}

Comparison check_history(std::span<const HistoryRun> runs, const HistoryOptions& options,
                         const ProposeChanges& propose) {
  const std::vector<Series> all = series_of(runs);
  std::vector<TimeSeries> times;
  std::vector<std::size_t> long_enough;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].points.size() < 2 * kMinRunsOfALevel || !all[i].failure.empty()) continue;
    const TimedConfig& point = *all[i].points.back();
    times.push_back({times_of(all[i].points), run_noise(point.time_us(), point.on_host).spread});
    long_enough.push_back(i);
  }
  std::vector<std::vector<ChangePoint>> changes(all.size());
  if (!times.empty()) {
    const auto proposed = propose(times, kMinRunsOfALevel);
    for (std::size_t i = 0; i < times.size(); ++i) {
      // Bonferroni's correction: a change may be at any run of any row.
      const auto tests = static_cast<double>(times.size() * times[i].us.size());
      changes[long_enough[i]] = changes_of(all[long_enough[i]], proposed[i], tests, options.compare);
    }
  }
  Comparison check{.options = options.compare};
  for (std::size_t i = 0; i < all.size(); ++i)
    check.rows.push_back(row_of(all[i], changes[i], options.since));
  std::ranges::stable_sort(check.rows, {}, &RowChange::change);
  count_rows(check);
  return check;
}

}  // namespace warptune
