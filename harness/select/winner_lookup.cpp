#include "harness/select/winner_lookup.h"

#include <cmath>
#include <limits>

namespace warptune {
namespace {

constexpr double kMaxDoublings = 3;  // a factor of 8
constexpr double kFar = std::numeric_limits<double>::infinity();

/// The sum over dims of |log2(a / b)| for problems of one shape; infinite if a dim is out of bounds.
double distance(const Problem& a, const Problem& b) {
  double sum = 0;
  auto others = b.dims.written();
  auto other = others.begin();
  for (const auto& dim : a.dims.written()) {
    const std::int64_t value = (other++)->value;
    if (value == dim.value) continue;
    if (value <= 0 || dim.value <= 0) return kFar;
    const double doublings = std::abs(std::log2(static_cast<double>(dim.value) / static_cast<double>(value)));
    if (doublings > kMaxDoublings) return kFar;
    sum += doublings;
  }
  return sum;
}

}  // namespace

WinnerLookup::WinnerLookup(const OpTable& ops, const Wisdom& wisdom) : ops_(ops), wisdom_(wisdom) {
  const auto& winners = wisdom.winners();
  for (std::size_t i = 0; i < winners.size(); ++i) by_shape_[shape_of(winners[i].problem)].push_back(i);
}

Problem WinnerLookup::shape_of(Problem problem) const {
  if (const OpEntry* entry = ops_.find_if_known(problem.op))
    for (const Dim& dim : entry->op.dims)
      if (dim.role == DimRole::work && problem.dims.has(dim.name)) problem.dims.set(dim.name, 0);
  return problem;
}

WinnerLookup::Origin WinnerLookup::origin_of(const Winner& winner, const Provenance& here) {
  if (winner.made_on.arch != here.arch) return Origin::elsewhere;
  return winner.made_on.device == here.device ? Origin::this_device : Origin::this_arch;
}

WinnerLookup::Candidate WinnerLookup::exact_match(const Problem& problem, const Provenance& here) const {
  Candidate best;
  for (const std::size_t i : wisdom_.indices(problem)) {
    const Winner& winner = wisdom_.winners()[i];
    if (const Origin origin = origin_of(winner, here); origin < best.origin) best = {&winner, origin};
  }
  return best;
}

WinnerLookup::Candidate WinnerLookup::nearest_match(const Problem& problem, const Provenance& here,
                                                    const Problem* left_out) const {
  Candidate best;
  double least = kFar;
  const auto it = by_shape_.find(shape_of(problem));
  if (it == by_shape_.end()) return best;
  for (const std::size_t i : it->second) {
    const Winner& winner = wisdom_.winners()[i];
    const double d = distance(problem, winner.problem);
    if (d == kFar || (left_out && winner.problem == *left_out)) continue;
    const Origin origin = origin_of(winner, here);
    if (origin < best.origin || (origin == best.origin && d < least)) {
      best = {&winner, origin};
      least = d;
    }
  }
  return best;
}

WinnerLookup::Match WinnerLookup::find(const Problem& problem, const Provenance& here,
                                       const Problem* left_out) const {
  const Candidate same = left_out && problem == *left_out ? Candidate{} : exact_match(problem, here);
  if (same.origin < Origin::elsewhere) return {same.winner, true};
  const Candidate near = nearest_match(problem, here, left_out);
  if (near.origin < same.origin) return {near.winner, false};
  return {same.winner, same.winner != nullptr};
}

}  // namespace warptune
