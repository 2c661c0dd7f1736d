// The part of a wisdom that the regression gate times.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "harness/results/wisdom_export.h"

namespace warptune {

Watched watched_part(const Wisdom& wisdom, std::size_t problems_per_variant) {
  Watched watched{.wisdom = Wisdom(wisdom.provenance())};
  std::set<std::string> of_steps;
  for (const StepWinner& step : wisdom.steps()) {
    watched.wisdom.put(step);
    for (const StepPlan& plan : step.plans.plans) of_steps.insert(plan.problem.key());
  }
  std::map<std::string, std::vector<const Winner*>> by_variant;
  for (const Winner& winner : wisdom.winners())
    by_variant[winner.problem.op + "/" + winner.variant].push_back(&winner);
  for (auto& [name, winners] : by_variant) {
    std::ranges::stable_sort(winners, std::greater<>(), [&](const Winner* winner) {
      return std::tuple(of_steps.contains(winner->problem.key()), winner->time_us);
    });
    const std::size_t count = std::min(winners.size(), problems_per_variant);
    for (std::size_t i = 0; i < count; ++i) {
      Winner winner = *winners[i];
      winner.times.clear();
      winner.tied.clear();
      watched.wisdom.put(std::move(winner));
    }
    if (count < winners.size()) watched.left_out[name] = winners.size() - count;
  }
  return watched;
}

std::string summary_of(const Watched& watched) {
  std::size_t left_out = 0;
  std::string list;
  for (const auto& [name, count] : watched.left_out) {
    left_out += count;
    list += fmt::format("{}{} {}", list.empty() ? ": " : ", ", name, count);
  }
  return fmt::format("watches {} steps and {} winners; does not watch {} winners{}\n",
                     watched.wisdom.steps().size(), watched.wisdom.winners().size(), left_out, list);
}

}  // namespace warptune
