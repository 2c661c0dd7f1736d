#include "harness/tune/trials.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/core/lookup.h"
#include "harness/results/source_hash.h"

namespace warptune {

std::string Trials::why_none() const {
  std::map<std::string, int> counts;
  for (const Measurement& m : measurements) ++counts[std::string(name_of(m.status))];
  std::vector<std::string> parts;
  for (const auto& [status, n] : counts) parts.push_back(fmt::format("{} {}", n, status));
  std::string first = measurements.front().detail.substr(0, 200);
  std::ranges::replace(first, '\n', ' ');
  return fmt::format("no configuration is correct: {} (first: {})", fmt::join(parts, ", "), first);
}

Speed speed_of(const SweepItem& item, const Trials& trials, const Measurement& m) {
  Speed speed{.time_us = m.time_us, .cost = item.entry->op.cost(item.problem)};
  if (m.floor_us > 0) speed.floor_us = m.floor_us;
  for (std::size_t i = 0; i < trials.candidates.size(); ++i) {
    const Variant& variant = *trials.candidates[i].variant;
    const double us = trials.measurements[i].time_us;
    if (trials.measurements[i].status == Status::ok && us > 0)
      speed.note(variant.name, calls_library(variant), us);
  }
  return speed;
}

std::map<std::pair<std::string, std::string>, double> screened_times(const Trials& trials) {
  std::map<std::pair<std::string, std::string>, double> times;
  for (std::size_t i = 0; i < trials.candidates.size(); ++i)
    if (trials.measurements[i].status == Status::ok && !contains(trials.peers, i))
      times[{trials.candidates[i].variant->name, trials.candidates[i].config().str()}] = trials.first_us[i];
  return times;
}

std::vector<VariantTimes> times_to_record(const Trials& trials, const OpEntry& op, const Compiler& compiler,
                                          double best_us) {
  constexpr double kSlowest = 4;
  constexpr std::size_t kMaxTimes = 8;  // as good as 32 (docs/choosing.md)
  std::vector<std::size_t> by_time;
  for (std::size_t i = 0; i < trials.candidates.size(); ++i)
    if (trials.measurements[i].status == Status::ok && trials.first_us[i] <= kSlowest * best_us &&
        !contains(trials.peers, i))
      by_time.push_back(i);
  std::ranges::stable_sort(by_time, {}, [&](std::size_t i) { return trials.first_us[i]; });

  std::vector<std::size_t> kept;
  std::set<const Variant*> variants;
  for (const std::size_t i : by_time)
    if (variants.insert(trials.candidates[i].variant).second || kept.size() < kMaxTimes) kept.push_back(i);
  std::ranges::sort(kept);  // candidates of a variant follow each other

  std::vector<VariantTimes> times;
  for (const std::size_t i : kept) {
    const Variant* variant = trials.candidates[i].variant;
    const Config config = trials.candidates[i].config();
    if (times.empty() || times.back().variant != variant->name) {
      times.push_back({.variant = variant->name, .source_hash = source_hash(compiler, op, *variant)});
      for (const auto& entry : config) times.back().parameters.push_back(entry.name);
    }
    VariantTimes::Row& row = times.back().rows.emplace_back();
    for (const auto& entry : config) row.values.push_back(entry.value);
    row.time_us = trials.first_us[i];
  }
  return times;
}

}  // namespace warptune
