#include "harness/results/wisdom_merge.h"

#include <algorithm>

#include "harness/results/source_hash.h"
#include "harness/results/wisdom_json.h"

namespace warptune {
namespace {

CacheMode cache_of(const Winner& winner) { return winner.cache; }
CacheMode cache_of(const StepWinner&) { return CacheMode::cold; }

/// Adds the times of `older` that `times` lacks, so that the times of the kept winner stay as they are.
void add_missing_times(std::vector<VariantTimes>& times, const std::vector<VariantTimes>& older) {
  for (const VariantTimes& t : older) {
    const auto same = std::ranges::find(times, t.variant, &VariantTimes::variant);
    if (same == times.end()) {
      times.push_back(t);
    } else if (same->source_hash == t.source_hash && same->parameters == t.parameters) {
      for (const VariantTimes::Row& row : t.rows)
        if (std::ranges::find(same->rows, row.values, &VariantTimes::Row::values) == same->rows.end())
          same->rows.push_back(row);
    }
  }
}

}  // namespace

WinnerJudge::WinnerJudge(const OpTable& ops)
    : ops_(ops), compiler_(KernelSources(), default_cache_folder()) {}

Judgement WinnerJudge::judged(const Winner& winner, const Provenance& here) const {
  const auto [it, is_new] = source_hashes_.try_emplace({winner.problem.op, winner.variant});
  if (is_new) it->second = source_hash(compiler_, ops_, winner);
  CodeNow now{it->second};
  if (const OpEntry* op = ops_.find_if_known(winner.problem.op))
    now.code_hash = [this, op, &winner] { return code_hash(compiler_, *op, winner); };
  return judge(winner, here, now);
}

Judgement WinnerJudge::judged(const StepWinner& step, const Provenance& here) const {
  Judgement all;
  for (const StepPlan& plan : step.plans.plans) {
    const Judgement one = judged(as_winner(step, plan), here);
    all.use = std::max(all.use, one.use);
    all.warnings.insert(all.warnings.end(), one.warnings.begin(), one.warnings.end());
    all.refusals.insert(all.refusals.end(), one.refusals.begin(), one.refusals.end());
  }
  return all;
}

template <class AnyWinner>
bool WisdomMerge::wins(const AnyWinner& second, const AnyWinner& first) const {
  const auto stale = [&](const AnyWinner& winner) { return judge_.judged(winner, here_).use != Use::yes; };
  const double second_us = prefer_ == Prefer::first ? first.time_us : second.time_us;
  return is_better({.time_us = second_us, .cache = cache_of(second)}, stale(second),
                   {.time_us = first.time_us, .cache = cache_of(first)}, stale(first));
}

bool WisdomMerge::add(Wisdom& into, const Winner& winner) const {
  const Winner* known = into.winner_on(winner.problem, winner.made_on.device);
  if (!known) {
    into.put(winner);
    return true;
  }
  if (record_of(winner) == record_of(*known)) return false;
  const bool better = wins(winner, *known);
  Winner kept = better ? winner : *known;
  const Winner& other = better ? *known : winner;
  if (kept.cache == other.cache) add_missing_times(kept.times, other.times);
  into.put(std::move(kept));
  return better;
}

bool WisdomMerge::add(Wisdom& into, const StepWinner& step) const {
  const StepWinner* known = into.step_on(step.step, step.made_on.device);
  if (known && !wins(step, *known)) return false;
  into.put(step);
  return true;
}

void WisdomMerge::add(Wisdom& into, const Wisdom& other) const {
  for (const Winner& winner : other.winners()) add(into, winner);
  for (const StepWinner& step : other.steps()) add(into, step);
}

}  // namespace warptune
