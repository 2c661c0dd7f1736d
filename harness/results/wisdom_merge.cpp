#include "harness/results/wisdom_merge.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/results/source_hash.h"

namespace warptune {
namespace {

CacheMode cache_of(const Winner& winner) { return winner.cache; }
CacheMode cache_of(const StepWinner&) { return CacheMode::cold; }

}  // namespace

WinnerJudge::WinnerJudge(const OpTable& ops, std::vector<DeviceFacts> devices)
    : ops_(ops), devices_(std::move(devices)), compiler_(KernelSources(), default_cache_folder()) {}

double WinnerJudge::impossible_us_of(const Winner& winner) const {
  const OpEntry* op = ops_.find_if_known(winner.problem.op);
  if (!op) return 0;
  const auto peaks = std::ranges::find(devices_, winner.made_on.device, &DeviceFacts::name);
  return impossible_us(*op, winner, peaks == devices_.end() ? DeviceFacts{} : *peaks);
}

std::string WinnerJudge::why_impossible(const Winner& winner) const {
  return why_too_fast(winner, impossible_us_of(winner));
}

std::string WinnerJudge::why_impossible(const StepWinner& step) const {
  if (step.plans.plans.empty()) return "the step has no plans";
  for (const StepPlan& plan : step.plans.plans)
    if (std::string why = why_impossible(as_winner(step, plan)); !why.empty()) return why;
  return {};
}

Judgement WinnerJudge::judged(const Winner& winner, const Provenance& here) const {
  const auto [it, is_new] = source_hashes_.try_emplace({winner.problem.op, winner.variant});
  if (is_new) it->second = source_hash(compiler_, ops_, winner);
  CodeNow now{.source_hash = it->second, .impossible_us = impossible_us_of(winner)};
  if (const OpEntry* op = ops_.find_if_known(winner.problem.op))
    now.code_hash = [this, op, &winner] { return code_hash(compiler_, *op, winner); };
  return judge(winner, here, now);
}

Judgement WinnerJudge::judged(const StepWinner& step, const Provenance& here) const {
  Judgement all;
  if (step.plans.plans.empty()) {
    all.use = Use::refused;
    all.refusals.push_back(why_impossible(step));
  }
  for (const StepPlan& plan : step.plans.plans) {
    const Judgement one = judged(as_winner(step, plan), here);
    all.use = std::max(all.use, one.use);
    all.warnings.insert(all.warnings.end(), one.warnings.begin(), one.warnings.end());
    all.refusals.insert(all.refusals.end(), one.refusals.begin(), one.refusals.end());
  }
  return all;
}

RefusedWinner refused_winner(const Winner& winner, std::string reason) {
  return {fmt::format("{} {}{}{}", winner.problem.key(), winner.variant, winner.config.empty() ? "" : " ",
                      winner.config.str()),
          std::move(reason)};
}
RefusedWinner refused_winner(const StepWinner& step, std::string reason) {
  return {fmt::format("{} {}", step.step.key(), step.plans.options.str()), std::move(reason)};
}

template <class AnyWinner>
bool WisdomMerge::wins(const AnyWinner& second, const AnyWinner& first) const {
  const auto stale = [&](const AnyWinner& winner) { return judge_.judged(winner, here_).use != Use::yes; };
  const double second_us = prefer_ == Prefer::first ? first.time_us : second.time_us;
  return is_better({.time_us = second_us, .cache = cache_of(second)}, stale(second),
                   {.time_us = first.time_us, .cache = cache_of(first)}, stale(first));
}

template <class AnyWinner>
bool WisdomMerge::refuses(const AnyWinner& winner) {
  std::string why = judge_.why_impossible(winner);
  if (why.empty()) return false;
  refused_.insert(refused_winner(winner, std::move(why)));
  return true;
}

bool WisdomMerge::add(Wisdom& into, Winner winner) {
  if (refuses(winner)) return false;
  const Winner* known = into.rival(winner);
  if (!known || refuses(*known)) {
    into.put(std::move(winner));
    return true;
  }
  if (record_of(winner) == record_of(*known)) return false;
  const bool better = wins(winner, *known);
  Winner kept = better ? winner : *known;
  const Winner& other = better ? *known : winner;
  if (kept.cache == other.cache) add_times(kept.times, other.times, Added::older);
  into.put(std::move(kept));
  return better;
}

bool WisdomMerge::add(Wisdom& into, StepWinner step) {
  if (refuses(step)) return false;
  const StepWinner* known = into.rival(step);
  if (known && !refuses(*known) && !wins(step, *known)) return false;
  into.put(std::move(step));
  return true;
}

void WisdomMerge::add(Wisdom& into, const Wisdom& other) {
  for (const Winner& winner : other.winners()) add(into, winner);
  for (const StepWinner& step : other.steps()) add(into, step);
}

}  // namespace warptune
