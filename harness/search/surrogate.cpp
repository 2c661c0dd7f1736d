// Strategies `bayesian` and `guided`: Gaussian processes model the logarithm of the time, and the candidate
// with the largest expected improvement is next. `bayesian` has one model and random starts. `guided` has a
// model per variant and starts spread over each variant, away from the default tiles; it drops a variant that
// is much slower, and every few proposals it tries the least tried variant, because a few bad starts say
// little about a narrow minimum.
#include <algorithm>
#include <cmath>

#include "harness/search/gaussian_process.h"
#include "harness/search/shuffled.h"
#include "harness/search/strategy.h"

namespace warptune {
namespace {

constexpr std::size_t kMaxObservations = 160;  // per model; the fastest are kept
constexpr std::size_t kMaxPredicted = 2048;    // candidates evaluated per step and model
constexpr double kSlowest = 1.4;               // log: slower times are clipped to 4 times the best
constexpr double kHopeless = 0.4;              // log: a variant 1.5 times slower than the best is dropped
constexpr std::size_t kStarts = 6;             // starts of all models, at least one of each
constexpr std::size_t kMiddles = 16;           // members tried as the middle of a variant
constexpr std::size_t kSampled = 256;          // members whose distances to a middle are added
constexpr std::size_t kSmall = 16;             // a variant with less than this part of the space starts last
constexpr int kTurn = 4;                       // every so many proposals, the least tried variant is next

/// Candidates that one model describes.
struct SearchRegion {
  std::vector<std::size_t> members;         // candidates
  std::vector<std::vector<double>> points;  // points of the members
  std::vector<std::size_t> starts;          // members to try first
  GaussianProcess model;
  std::size_t fitted = 0;  // observations when the lengths were last set
  std::vector<std::size_t> open;
  std::vector<Posterior> predicted;
  bool stale = true;
};

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double square = 0;
  for (std::size_t d = 0; d < a.size(); ++d) square += std::pow(a[d] - b[d], 2);
  return std::sqrt(square);
}

/// Farthest-point sampling: each of `want` members is the one farthest from those before it and from the
/// default tiles among the members. The first is random, or in the middle: of a few random members the one
/// that is nearest to all that no tile is near to.
std::vector<std::size_t> far_apart(const std::vector<std::vector<double>>& points,
                                   const std::vector<std::size_t>& tiles, bool middle_first, std::size_t want,
                                   std::mt19937_64& random) {
  std::vector<double> nearest(points.size(), INFINITY);  // distance to the nearest tile or chosen member
  const auto keep_away_from = [&](std::size_t member) {
    for (std::size_t i = 0; i < points.size(); ++i)
      nearest[i] = std::min(nearest[i], distance(points[i], points[member]));
  };
  const auto distances_with = [&](std::size_t member) {
    double sum = 0;
    for (std::size_t i = 0; i < points.size(); i += 1 + points.size() / kSampled)
      sum += std::min(nearest[i], distance(points[i], points[member]));
    return sum;
  };
  std::ranges::for_each(tiles, keep_away_from);
  std::vector<std::size_t> chosen;
  while (chosen.size() < std::min(want, points.size())) {
    auto order = shuffled(points.size(), random);
    if (middle_first && chosen.empty()) {
      order.resize(std::min(order.size(), kMiddles));
      chosen.push_back(*std::ranges::min_element(order, {}, distances_with));
    } else {
      chosen.push_back(*std::ranges::max_element(order, {}, [&](std::size_t i) { return nearest[i]; }));
    }
    keep_away_from(chosen.back());
  }
  return chosen;
}

double expected_improvement(const Posterior& p, double best) {
  const double z = (best - p.mean) / p.deviation;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * M_PI);
  const double below = std::erfc(-z / std::sqrt(2.0)) / 2;
  return p.deviation * (z * below + density);
}

class Surrogate final : public Strategy {
 public:
  Surrogate(const SearchSpace& space, std::vector<SearchRegion> regions, std::uint64_t seed)
      : regions_(std::move(regions)),
        random_(seed),
        state_(space.candidates.size()),
        log_floor_(std::log(space.floor_us)),
        starts_(space.likely) {
    for (std::size_t r = 0; r < regions_.size(); ++r)
      for (const std::size_t candidate : regions_[r].members) state_[candidate].region = r;
    for (const bool small : {false, true}) add_starts(small);
  }

  std::optional<std::size_t> next() override {
    while (start_ < starts_.size()) {
      const std::size_t candidate = starts_[start_++];
      if (!state_[candidate].proposed) return propose(candidate);
    }
    std::optional<Promise> best;
    if (++turn_ % kTurn == 0)
      if (SearchRegion* region = least_tried()) best = most_promising(*region, best_of(*region));
    if (!best)
      for (SearchRegion& region : regions_)
        if (const auto found = most_promising(region, best_); found && (!best || found->gain > best->gain))
          best = found;
    if (!best) return std::nullopt;
    regions_[state_[best->candidate].region].stale = true;
    return propose(best->candidate);
  }

  void tell(std::size_t candidate, std::optional<double> time_us) override {
    State& state = state_[candidate];
    state.told = true;
    state.log_time = time_us ? std::log(*time_us) : INFINITY;
    if (time_us && state.log_time < best_) {
      best_ = state.log_time;
      for (SearchRegion& region : regions_)
        region.stale = true;  // slow times are clipped relative to the best
    }
    regions_[state.region].stale = true;
  }

 private:
  struct State {
    bool proposed = false, told = false;
    double log_time = 0;
    std::size_t region = 0;
  };

  struct Promise {
    std::size_t candidate = 0;
    double gain = 0;
  };

  /// Appends the starts of all variants but the small ones, or of these: first one of each, then the next.
  void add_starts(bool small) {
    bool any = true;
    for (std::size_t round = 0; any; ++round) {
      any = false;
      for (const SearchRegion& r : regions_) {
        if (round >= r.starts.size() || (r.members.size() * kSmall < state_.size()) != small) continue;
        starts_.push_back(r.members[r.starts[round]]);
        any = true;
      }
    }
  }

  /// The open member with the largest expected improvement on `target`, the logarithm of a time.
  std::optional<Promise> most_promising(SearchRegion& region, double target) {
    refresh(region);
    std::optional<Promise> best;
    for (std::size_t i = 0; i < region.open.size(); ++i) {
      const double gain = expected_improvement(region.predicted[i], target);
      if (!best || gain > best->gain) best = {region.members[region.open[i]], gain};
    }
    return best;
  }

  double best_of(const SearchRegion& region) const {
    double best = best_ + kSlowest;
    for (const std::size_t m : region.members)
      if (state_[m].told) best = std::min(best, state_[m].log_time);
    return best;
  }

  /// The least tried region with open members that is not hopeless; null if there is only one region.
  SearchRegion* least_tried() {
    SearchRegion* least = nullptr;
    std::size_t fewest = 0;
    for (SearchRegion& region : regions_) {
      const auto tried = static_cast<std::size_t>(
          std::ranges::count_if(region.members, [&](std::size_t m) { return state_[m].proposed; }));
      if (tried == region.members.size() || best_of(region) > best_ + kHopeless) continue;
      if (!least || tried < fewest) {
        least = &region;
        fewest = tried;
      }
    }
    return regions_.size() > 1 ? least : nullptr;
  }

  std::size_t propose(std::size_t candidate) {
    state_[candidate].proposed = true;
    return candidate;
  }

  /// A candidate in flight counts as slow, so that its surroundings are not proposed too.
  double value(const State& state) const {
    const double cut = (std::isfinite(best_) ? best_ : 0) + kSlowest;
    return state.told ? std::min(state.log_time, cut) : pending_;
  }

  void refresh(SearchRegion& region) {
    if (!region.stale) return;
    region.stale = false;
    std::vector<std::size_t> seen;
    region.open.clear();
    for (std::size_t m = 0; m < region.members.size(); ++m)
      (state_[region.members[m]].proposed ? seen : region.open).push_back(m);
    if (region.open.size() > kMaxPredicted) {
      for (std::size_t i = 0; i < kMaxPredicted; ++i)
        std::swap(region.open[i], region.open[i + random_() % (region.open.size() - i)]);
      region.open.resize(kMaxPredicted);
    }
    // A candidate still being measured counts as the mean of its model's known ones.
    double sum = 0;
    std::size_t told = 0;
    for (const std::size_t m : seen)
      if (const State& s = state_[region.members[m]]; s.told) {
        sum += value(s);
        ++told;
      }
    pending_ = told > 0 ? sum / static_cast<double>(told) : (std::isfinite(best_) ? best_ : 0) + kSlowest;
    std::ranges::sort(seen, {}, [&](std::size_t m) { return value(state_[region.members[m]]); });
    if (seen.size() > kMaxObservations) seen.resize(kMaxObservations);
    std::vector<std::vector<double>> points;
    std::vector<double> values;
    for (const std::size_t m : seen) {
      points.push_back(region.points[m]);
      values.push_back(value(state_[region.members[m]]));
    }
    if (points.empty()) {
      region.predicted.assign(region.open.size(), {.mean = 0, .deviation = 1});
      return;
    }
    const bool refit = seen.size() < 8 || seen.size() >= region.fitted + region.fitted / 8 + 1;
    if (refit) region.fitted = seen.size();
    region.model.fit(std::move(points), values, refit);
    std::vector<const std::vector<double>*> wanted;
    for (const std::size_t m : region.open) wanted.push_back(&region.points[m]);
    region.predicted = region.model.predict(wanted);
    for (Posterior& p : region.predicted)  // nothing is faster than the floor
      if (std::isfinite(log_floor_)) p.mean = std::max(p.mean, log_floor_);
  }

  std::vector<SearchRegion> regions_;
  std::mt19937_64 random_;
  std::vector<State> state_;
  double log_floor_;
  std::vector<std::size_t> starts_;
  std::size_t start_ = 0;
  int turn_ = 0;
  double best_ = INFINITY, pending_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> make_guided(const SearchSpace& space, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<SearchRegion> regions;
  const auto grids = grids_of(space);
  const std::size_t most = std::max<std::size_t>(1, kStarts / std::max<std::size_t>(1, grids.size()));
  for (const VariantGrid& grid : grids) {
    SearchRegion region{.members = grid.members(), .model = GaussianProcess(grid.point(0).size())};
    for (std::size_t m = 0; m < grid.members().size(); ++m) region.points.push_back(grid.point(m));
    const std::size_t want = std::min({2 + grid.axes() / 2, 1 + grid.members().size() / 16, most});
    std::vector<std::size_t> tiles;
    for (std::size_t m = 0; m < grid.members().size(); ++m)
      if (std::ranges::find(space.likely, grid.members()[m]) != space.likely.end()) tiles.push_back(m);
    region.starts = far_apart(region.points, tiles, !space.likely.empty(), want, random);
    regions.push_back(std::move(region));
  }
  return std::make_unique<Surrogate>(space, std::move(regions), seed);
}

/// One model of all variants: an axis per variant, then the axes of each variant. Members of other variants
/// are at the middle of those axes.
std::unique_ptr<Strategy> make_bayesian(const SearchSpace& space, std::uint64_t seed) {
  const auto grids = grids_of(space);
  std::size_t axes = grids.size();
  for (const VariantGrid& grid : grids) axes += grid.axes();
  SearchRegion region{.members = {}, .model = GaussianProcess(axes)};
  std::size_t first = grids.size();
  for (std::size_t g = 0; g < grids.size(); ++g) {
    for (std::size_t m = 0; m < grids[g].members().size(); ++m) {
      std::vector<double> point(axes, 0.5);
      for (std::size_t v = 0; v < grids.size(); ++v) point[v] = v == g ? 1 : 0;
      std::copy_n(grids[g].point(m).begin(), grids[g].axes(), point.begin() + static_cast<long>(first));
      region.members.push_back(grids[g].members()[m]);
      region.points.push_back(std::move(point));
    }
    first += grids[g].axes();
  }
  std::mt19937_64 random(seed);
  region.starts = shuffled(region.members.size(), random);
  region.starts.resize(std::min<std::size_t>(region.starts.size(), 10));
  std::vector<SearchRegion> regions;
  regions.push_back(std::move(region));
  return std::make_unique<Surrogate>(space, std::move(regions), seed);
}

}  // namespace warptune
