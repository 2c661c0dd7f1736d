#include "harness/results/wisdom.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace warptune {

void add_times(std::vector<VariantTimes>& times, const std::vector<VariantTimes>& newer) {
  for (const VariantTimes& t : newer) {
    const auto same = std::ranges::find(times, t.variant, &VariantTimes::variant);
    if (same == times.end()) {
      times.push_back(t);
    } else if (same->source_hash != t.source_hash || same->parameters != t.parameters) {
      *same = t;
    } else {
      for (const VariantTimes::Row& row : t.rows) {
        const auto old = std::ranges::find(same->rows, row.values, &VariantTimes::Row::values);
        if (old == same->rows.end())
          same->rows.push_back(row);
        else
          *old = row;
      }
    }
  }
}

namespace {

constexpr std::string_view kWorkDims[] = {"tokens", "batch", "context", "q_len", "kv_len"};

/// The problem without how much work there is.
Problem shape_of(Problem problem) {
  for (const std::string_view dim : kWorkDims)
    if (problem.dims.has(dim)) problem.dims.set(dim, 0);
  return problem;
}

}  // namespace

std::size_t Wisdom::Hash::operator()(const Problem& problem) const {
  const std::hash<std::string_view> text;
  std::size_t hash = text(problem.op) + static_cast<std::size_t>(problem.dtype);
  for (const auto& dim : problem.dims.said())  // the op fixes the names of its dims
    hash = (hash ^ static_cast<std::size_t>(dim.value)) * 0x9e3779b97f4a7c15u + (hash >> 29);
  return hash;
}

void Wisdom::put(Winner winner) {
  if (winner.made_on == Provenance{}) winner.made_on = provenance_;
  auto& same = by_problem_[winner.problem];
  for (const std::size_t i : same)
    if (winners_[i].made_on.device == winner.made_on.device) {
      winners_[i] = std::move(winner);
      return;
    }
  same.push_back(winners_.size());
  by_shape_[shape_of(winner.problem)].push_back(winners_.size());
  winners_.push_back(std::move(winner));
}

namespace {

constexpr double kMostDoublings = 3;  // a factor of 8
constexpr double kFar = std::numeric_limits<double>::infinity();

/// 0: made on this device, 1: on another of this architecture, 2: elsewhere.
int kinship_of(const Winner& winner, const Provenance& here) {
  if (winner.made_on.arch != here.arch) return 2;
  return winner.made_on.device == here.device ? 0 : 1;
}

/// Sum over dims of |log2(a / b)| for problems of one shape; infinite where one is out of bounds.
double distance(const Problem& a, const Problem& b) {
  double sum = 0;
  auto others = b.dims.said();
  auto other = others.begin();
  for (const auto& dim : a.dims.said()) {
    const std::int64_t value = (other++)->value;
    if (value == dim.value) continue;
    if (value <= 0 || dim.value <= 0) return kFar;
    const double doublings = std::abs(std::log2(static_cast<double>(dim.value) / static_cast<double>(value)));
    if (doublings > kMostDoublings) return kFar;
    sum += doublings;
  }
  return sum;
}

}  // namespace

struct Wisdom::Kin {
  const Winner* winner = nullptr;
  int kinship = 3;
};

const Winner* Wisdom::held(const Problem& problem, const std::string& device) const {
  if (const auto it = by_problem_.find(problem); it != by_problem_.end())
    for (const std::size_t i : it->second)
      if (winners_[i].made_on.device == device) return &winners_[i];
  return nullptr;
}

const Winner* Wisdom::exact(const Problem& problem) const {
  const auto it = by_problem_.find(problem);
  return it == by_problem_.end() ? nullptr : &winners_[it->second.front()];
}

Wisdom::Kin Wisdom::exact_for(const Problem& problem, const Provenance& here) const {
  Kin best;
  if (const auto it = by_problem_.find(problem); it != by_problem_.end())
    for (const std::size_t i : it->second)
      if (const int kinship = kinship_of(winners_[i], here); kinship < best.kinship)
        best = {&winners_[i], kinship};
  return best;
}

Wisdom::Kin Wisdom::nearest_for(const Problem& problem, const Provenance& here,
                                const Problem* left_out) const {
  Kin best;
  double least = kFar;
  if (const auto it = by_shape_.find(shape_of(problem)); it != by_shape_.end())
    for (const std::size_t i : it->second) {
      const double d = distance(problem, winners_[i].problem);
      if (d == kFar || (left_out && winners_[i].problem == *left_out)) continue;
      const int kinship = kinship_of(winners_[i], here);
      if (kinship < best.kinship || (kinship == best.kinship && d < least)) {
        best = {&winners_[i], kinship};
        least = d;
      }
    }
  return best;
}

Wisdom::Match Wisdom::find(const Problem& problem, const Provenance& here, const Problem* left_out) const {
  const Kin same = left_out && problem == *left_out ? Kin{} : exact_for(problem, here);
  if (same.kinship < 2) return {same.winner, true};
  const Kin near = nearest_for(problem, here, left_out);
  if (near.kinship < same.kinship) return {near.winner, false};
  return {same.winner, same.winner != nullptr};
}

}  // namespace warptune
