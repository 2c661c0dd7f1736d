#include "harness/select/predict_votes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "harness/core/space.h"

namespace warptune {
namespace {

// Chosen by leave-one-out on the recorded grids (docs/choosing.md). With 4 to 12 neighbors, or with half or
// twice these penalties, the mean regret changes by less than half a point for linear and by at most one for
// row-wise ops.
constexpr std::size_t kNeighbors = 6;
constexpr double kOtherLabel = 2;        // distance of another label, in doublings
constexpr double kSoftening = 0.3;       // doublings: limits the weight of a neighbor at distance 0
constexpr double kMaxScore = 1.386;      // log(4): slower configurations score the same
constexpr double kUntimed = 0.1;         // added to the score of the variant's best: not among the fastest
constexpr double kUnknownVariant = 0.2;  // score of a variant that was not timed there

}  // namespace

/// Collects the valid times.
struct VotePredictor::Reader {
  const RecordedTimes& recorded;
  std::vector<Candidate>& candidates;
  std::map<std::pair<const Variant*, std::string>, std::size_t> index_of = {};  // into candidates

  void add(const Variant& variant, const VariantTimes& times, TunedProblem& tuned) {
    for (const VariantTimes::Row& row : times.rows) {
      const auto config = config_of(variant, times, row);
      if (!config) return;
      const auto [it, is_new] = index_of.try_emplace({&variant, config->str()}, candidates.size());
      if (is_new) candidates.push_back({&variant, *config});
      tuned.us[it->second] = row.time_us;
      double& best = tuned.best_of.try_emplace(&variant, row.time_us).first->second;
      best = std::min(best, row.time_us);
      tuned.best_us = std::min(tuned.best_us, row.time_us);
    }
  }

  std::optional<TunedProblem> read(const Winner& winner) {
    const OpEntry& op = recorded.op;
    if (winner.problem.op != op.op.name || winner.problem.dtype != recorded.dtype) return std::nullopt;
    const auto problem = with_defaults(op.op, winner.problem);
    if (!problem) return std::nullopt;
    TunedProblem tuned{
        .problem = winner.problem, .dims = problem->dims, .best_us = std::numeric_limits<double>::infinity()};
    for (const VariantTimes& times : winner.times)
      if (const Variant* variant = op.find_variant(times.variant); variant && recorded.hold(winner, times))
        add(*variant, times, tuned);
    if (tuned.us.empty()) return std::nullopt;
    return tuned;
  }
};

VotePredictor::VotePredictor(const RecordedTimes& times) : op_(times.op), facts_(times.facts) {
  Reader reader{times, candidates_};
  for (const Winner& winner : times.wisdom.winners())
    if (auto tuned = reader.read(winner)) problems_.push_back(std::move(*tuned));
}

double VotePredictor::distance(const Assignment& a, const Assignment& b) const {
  double sum = 0;
  for (const Dim& dim : op_.op.dims) {
    const auto x = a.get(dim.name, 0), y = b.get(dim.name, 0);
    if (x == y) continue;
    const bool is_size = dim.labels.empty() && x > 0 && y > 0;
    sum += is_size ? std::abs(std::log2(static_cast<double>(x) / static_cast<double>(y))) : kOtherLabel;
  }
  return sum;
}

std::vector<VotePredictor::Neighbor> VotePredictor::neighbors(const Problem& problem) const {
  std::vector<std::pair<double, const TunedProblem*>> near;
  for (const TunedProblem& tuned : problems_)
    if (tuned.problem != problem) near.emplace_back(distance(problem.dims, tuned.dims), &tuned);
  const auto count = static_cast<std::ptrdiff_t>(std::min(near.size(), kNeighbors));
  std::ranges::partial_sort(near, near.begin() + count);  // equal distances: in the wisdom's order
  std::vector<Neighbor> list;
  for (const auto& [d, tuned] : std::span(near).first(static_cast<std::size_t>(count)))
    list.push_back({tuned, 1 / ((d + kSoftening) * (d + kSoftening))});
  return list;
}

double VotePredictor::Neighbor::score(std::size_t index, const Candidate& candidate) const {
  const auto loss = [&](double us) { return std::min(kMaxScore, std::log(us / tuned->best_us)); };
  if (const auto own = tuned->us.find(index); own != tuned->us.end()) return loss(own->second);
  const auto best = tuned->best_of.find(candidate.variant);
  return best == tuned->best_of.end() ? kUnknownVariant : loss(best->second) + kUntimed;
}

const VotePredictor::Candidate* VotePredictor::winner(const Problem& problem,
                                                      const std::vector<Neighbor>& neighbors,
                                                      double& least) const {
  std::set<std::size_t> indices;
  for (const Neighbor& neighbor : neighbors)
    for (const auto& [index, us] : neighbor.tuned->us) indices.insert(index);
  double weights = 0;
  for (const Neighbor& neighbor : neighbors) weights += neighbor.weight;
  std::map<const Variant*, Space> spaces;
  const Candidate* best = nullptr;
  least = std::numeric_limits<double>::infinity();
  for (const std::size_t index : indices) {
    const Candidate& candidate = candidates_[index];
    if (!candidate.variant->runs(problem, facts_.backend)) continue;
    double sum = 0;
    for (const Neighbor& neighbor : neighbors) sum += neighbor.weight * neighbor.score(index, candidate);
    if (sum / weights >= least) continue;
    const auto [space, is_new] = spaces.try_emplace(candidate.variant, *candidate.variant, problem, facts_);
    if (space->second.broken_constraint(candidate.config)) continue;
    best = &candidate;
    least = sum / weights;
  }
  return best;
}

double VotePredictor::best_us(const Problem& problem, const std::vector<Neighbor>& neighbors) const {
  const double bytes = op_.op.cost(problem).bytes;
  double sum = 0, weights = 0;
  for (const auto& [tuned, weight] : neighbors) {
    const Problem other{problem.op, tuned->dims, problem.dtype};
    sum += weight * (std::log(tuned->best_us) + 0.5 * std::log(bytes / op_.op.cost(other).bytes));
    weights += weight;
  }
  return std::exp(sum / weights);
}

std::optional<Prediction> VotePredictor::predict(const Problem& problem) const {
  const std::vector<Neighbor> near = neighbors(problem);
  double score = 0;
  const Candidate* best = winner(problem, near, score);
  if (!best) return std::nullopt;
  return Prediction{best->variant, best->config, best_us(problem, near) * std::exp(score)};
}

}  // namespace warptune
