#include "harness/search/space.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace warptune {

VariantGrid::VariantGrid(const SearchSpace& space, std::vector<std::size_t> members)
    : members_(std::move(members)), ranks_(members_.size()), points_(members_.size()) {
  add_axes(space);
  for (std::size_t m = 0; m < members_.size(); ++m) by_ranks_.emplace(ranks_[m], m);
  std::vector<double> product, occupancy, registers;
  for (const std::size_t i : members_) {
    const SearchCandidate& c = space.candidates[i];
    double sum = 0;
    for (const auto& entry : c.config)
      if (entry.label.empty() && entry.value > 0) sum += std::log2(static_cast<double>(entry.value));
    product.push_back(sum);
    if (c.occupancy_pct) occupancy.push_back(*c.occupancy_pct);
    if (c.registers) registers.push_back(*c.registers);
  }
  if (axes() > 1) add_feature(product);
  if (occupancy.size() == members_.size()) add_feature(occupancy);
  if (registers.size() == members_.size()) add_feature(registers);
}

void VariantGrid::add_axes(const SearchSpace& space) {
  for (const auto& parameter : space.candidates[members_.front()].config) {
    std::set<std::int64_t> values;
    for (const std::size_t i : members_) values.insert(space.candidates[i].config.get(parameter.name, 0));
    if (values.size() < 2) continue;
    levels_.push_back(static_cast<int>(values.size()));
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const std::int64_t value = space.candidates[members_[m]].config.get(parameter.name, 0);
      const auto rank = static_cast<int>(std::distance(values.begin(), values.find(value)));
      ranks_[m].push_back(rank);
      points_[m].push_back(rank / static_cast<double>(values.size() - 1));
    }
  }
}

void VariantGrid::add_feature(const std::vector<double>& values) {
  const auto [low, high] = std::ranges::minmax(values);
  if (low == high) return;
  for (std::size_t m = 0; m < members_.size(); ++m) points_[m].push_back((values[m] - low) / (high - low));
}

std::vector<std::size_t> VariantGrid::neighbors(std::size_t member) const {
  std::vector<std::size_t> found;
  for (std::size_t axis = 0; axis < axes(); ++axis)
    for (const int step : {-1, 1}) {
      std::vector<int> ranks = ranks_[member];
      for (ranks[axis] += step; ranks[axis] >= 0 && ranks[axis] < levels_[axis]; ranks[axis] += step) {
        const auto it = by_ranks_.find(ranks);
        if (it == by_ranks_.end()) continue;
        found.push_back(it->second);
        break;
      }
    }
  return found;
}

std::vector<VariantGrid> grids_of(const SearchSpace& space) {
  std::vector<std::string> names;
  std::vector<std::vector<std::size_t>> members;
  for (std::size_t i = 0; i < space.candidates.size(); ++i) {
    const auto it = std::ranges::find(names, space.candidates[i].variant);
    const auto at = static_cast<std::size_t>(it - names.begin());
    if (it == names.end()) {
      names.push_back(space.candidates[i].variant);
      members.emplace_back();
    }
    members[at].push_back(i);
  }
  std::vector<VariantGrid> grids;
  for (auto& list : members) grids.emplace_back(space, std::move(list));
  return grids;
}

}  // namespace warptune
