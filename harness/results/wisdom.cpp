#include "harness/results/wisdom.h"

#include <cmath>
#include <limits>
#include <utility>

namespace warptune {
namespace {

/// |log2(a / b)| of the contexts of two steps that are else the same; infinite for other steps.
double context_distance(const Problem& a, const Problem& b) {
  if (a == b) return 0;
  const auto x = a.dims.get("context", 0), y = b.dims.get("context", 0);
  Problem same = a;
  same.dims.set("context", y);
  if (x < 1 || y < 1 || !(same == b)) return std::numeric_limits<double>::infinity();
  return std::abs(std::log2(static_cast<double>(x) / static_cast<double>(y)));
}

}  // namespace

void add_times(std::vector<VariantTimes>& times, const std::vector<VariantTimes>& more, Added added) {
  for (const VariantTimes& t : more) {
    const auto same = std::ranges::find(times, t.variant, &VariantTimes::variant);
    if (same == times.end()) {
      times.push_back(t);
    } else if (same->source_hash != t.source_hash || same->parameters != t.parameters) {
      if (added == Added::newer) *same = t;
    } else {
      for (const VariantTimes::Row& row : t.rows) {
        const auto old = std::ranges::find(same->rows, row.values, &VariantTimes::Row::values);
        if (old == same->rows.end())
          same->rows.push_back(row);
        else if (added == Added::newer)
          *old = row;
      }
    }
  }
}

std::size_t ProblemHash::operator()(const Problem& problem) const {
  const std::hash<std::string_view> text;
  std::size_t hash = text(problem.op) + static_cast<std::size_t>(problem.dtype);
  for (const auto& dim : problem.dims.written())  // the op fixes the names of its dims
    hash = (hash ^ static_cast<std::size_t>(dim.value)) * 0x9e3779b97f4a7c15u + (hash >> 29);
  return hash;
}

void Wisdom::put(Winner winner) {
  if (winner.made_on == Provenance{}) winner.made_on = provenance_;
  if (const Winner* known = winner_on(winner.problem, winner.made_on.device)) {
    winners_[known - winners_.data()] = std::move(winner);
    return;
  }
  by_hash_.emplace(ProblemHash{}(winner.problem), winners_.size());
  winners_.push_back(std::move(winner));
}

const Winner* Wisdom::winner_on(const Problem& problem, const std::string& device) const {
  const auto [first, last] = by_hash_.equal_range(ProblemHash{}(problem));
  for (auto it = first; it != last; ++it) {
    const Winner& winner = winners_[it->second];
    if (winner.made_on.device == device && winner.problem == problem) return &winner;
  }
  return nullptr;
}

const Winner* Wisdom::exact(const Problem& problem) const {
  const std::vector<std::size_t> found = indices(problem);
  return found.empty() ? nullptr : &winners_[found.front()];
}

Winner as_winner(const StepWinner& step, const StepPlan& plan) {
  Winner winner{.problem = plan.problem,
                .variant = plan.variant,
                .config = plan.config,
                .time_us = step.time_us,
                .source_hash = plan.source_hash,
                .run_id = step.run_id,
                .csv = step.csv,
                .made_on = step.made_on,
                .cache = CacheMode::hot};  // in a step its data may be in a cache
  winner.code_hash = plan.code_hash;
  return winner;
}

void Wisdom::put(StepWinner winner) {
  if (winner.made_on == Provenance{}) winner.made_on = provenance_;
  const auto same = std::ranges::find_if(steps_, [&](const StepWinner& other) {
    return other.step == winner.step && other.made_on.device == winner.made_on.device;
  });
  if (same == steps_.end())
    steps_.push_back(std::move(winner));
  else
    *same = std::move(winner);
}

const StepWinner* Wisdom::step_on(const Problem& step, const std::string& device) const {
  const auto it = std::ranges::find_if(steps_, [&](const StepWinner& winner) {
    return winner.step == step && winner.made_on.device == device;
  });
  return it == steps_.end() ? nullptr : &*it;
}

const StepWinner* Wisdom::nearest_step(const Problem& step, const std::string& arch,
                                       const std::string& device) const {
  constexpr double kFarthest = 3;  // a factor of 8
  const StepWinner* found = nullptr;
  std::pair<double, bool> least;  // the distance of the contexts, and whether the device is another
  for (const StepWinner& winner : steps_) {
    const std::pair distance(context_distance(winner.step, step), winner.made_on.device != device);
    if (winner.made_on.arch != arch || distance.first > kFarthest) continue;
    if (found && distance >= least) continue;
    found = &winner;
    least = distance;
  }
  return found;
}

std::vector<std::size_t> Wisdom::indices(const Problem& problem) const {
  std::vector<std::size_t> found;
  const auto [first, last] = by_hash_.equal_range(ProblemHash{}(problem));
  for (auto it = first; it != last; ++it)
    if (winners_[it->second].problem == problem) found.push_back(it->second);
  std::ranges::sort(found);
  return found;
}

}  // namespace warptune
