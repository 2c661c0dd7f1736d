#include "harness/select/predict_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <string>

#include "harness/core/space.h"

namespace warptune {
namespace {

constexpr double kMaxDistance = 2.2;       // doublings to the nearest timed launch
constexpr std::size_t kMinLaunches = 6;    // a fit needs
constexpr std::size_t kMaxLaunches = 200;  // a fit uses at most, the nearest
constexpr std::ptrdiff_t kMinProblemShare =
    5;                                // a kernel needs 1/5 of the problems of the most often timed one
constexpr double kOtherPrefetch = 2;  // distance of another L2 prefetch, in doublings
constexpr double kOtherFeatures = 3;  // distance of other features: another head_dim, or an append
constexpr double kErrorWeight = 0.8;  // weight of a fit's error as a penalty on its time
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The parameters that identify a kernel: all but the splits and the L2 prefetch.
Config kernel_of(const Variant& variant, const Config& config) {
  Config kernel = config;
  for (const Parameter& p : variant.parameters)
    if (p.role == ParameterRole::splits || p.role == ParameterRole::l2_prefetch) kernel.set(p.name, 0);
  return kernel;
}

/// The kernels that a configuration's time belongs to, its own first. Without splits there is nothing to
/// combine, so the time also belongs to the kernels with every other `combine`.
std::vector<Config> kernels_of(const Variant& variant, const Config& config) {
  std::vector<Config> kernels = {kernel_of(variant, config)};
  const auto combine = std::ranges::find(variant.parameters, ParameterRole::combine, &Parameter::role);
  if (combine == variant.parameters.end() || variant.value_of(ParameterRole::splits, config, 0) != 1)
    return kernels;
  for (const std::int64_t way : combine->values) {
    if (way == config[combine->name]) continue;
    kernels.push_back(kernels.front());
    kernels.back().set(combine->name, way, label_of(*combine, way));
  }
  return kernels;
}

bool none_above(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  return std::ranges::equal(a, b, [](std::int64_t x, std::int64_t y) { return x <= y; });
}

/// Adds an index unless it is the last one already.
void add_once(std::vector<std::size_t>& list, std::size_t index) {
  if (list.empty() || list.back() != index) list.push_back(index);
}

}  // namespace

/// Bounds of a configuration's time: its times with as many splits on problems whose sizes are all at most,
/// or all at least, as large.
struct FitPredictor::Bounds {
  double lower = 0, upper = kInfinity;

  void add(double time_us, const Sizes& timed, const Sizes& wanted) {
    if (none_above(timed, wanted)) lower = std::max(lower, time_us);
    if (none_above(wanted, timed)) upper = std::min(upper, time_us);
  }
  double within(double us) const { return std::max(lower, std::min(upper, us)); }
};

/// Collects the times of one variant.
struct FitPredictor::Reader {
  TimedVariant timed;
  std::map<std::string, std::size_t> kernels;
  std::map<std::string, Candidate> candidates;

  Kernel& kernel(const Config& config) {
    const auto [it, is_new] = kernels.try_emplace(config.str(), timed.kernels.size());
    if (is_new) timed.kernels.emplace_back();
    return timed.kernels[it->second];
  }
  void add(const Config& config, const TimedLaunch& launch) {
    const std::vector<Config> all = kernels_of(*timed.variant, config);
    for (const Config& k : all) kernel(k).launches.push_back(launch);
    add_once(kernel(all.front()).problems, launch.problem);
    auto& candidate =
        candidates.try_emplace(config.str(), Candidate{config, kernels.at(all.front().str()), {}})
            .first->second;
    add_once(candidate.problems, launch.problem);
  }
  TimedVariant done() && {
    for (auto& [text, candidate] : candidates) timed.candidates.push_back(std::move(candidate));
    return std::move(timed);
  }
};

FitPredictor::FitPredictor(const RecordedTimes& recorded) : op_(recorded.op), facts_(recorded.facts) {
  std::map<std::string, Reader> readers;
  std::map<std::string, std::size_t> index_of;  // by problem key, into problems_
  for (const Winner& winner : recorded.wisdom.winners()) {
    if (winner.times.empty() || winner.problem.op != op_.op.name || winner.problem.dtype != recorded.dtype)
      continue;
    const auto problem = with_defaults(op_.op, winner.problem);
    if (!problem) continue;
    const auto [index, is_new] = index_of.try_emplace(winner.problem.key(), problems_.size());
    if (is_new) problems_.push_back({winner.problem, sizes_of(*problem), kInfinity});
    TunedProblem& tuned = problems_[index->second];
    for (const VariantTimes& times : winner.times) {
      const Variant* variant = op_.find_variant(times.variant);
      if (!variant || !recorded.hold(winner, times)) continue;
      Reader& reader = readers[times.variant];
      reader.timed.variant = variant;
      for (const VariantTimes::Row& row : times.rows) {
        const auto config = config_of(*variant, times, row);
        if (!config) break;
        const LaunchLoad load = load_of(op_.op, *variant, *problem, *config, facts_);
        reader.add(*config, {.problem = index->second,
                             .point = point_of(load),
                             .parts = time_parts(load),
                             .splits = load.splits,
                             .l2_prefetch = variant->value_of(ParameterRole::l2_prefetch, *config, 0),
                             .memory_bound = load.memory_bound,
                             .time_us = row.time_us});
        tuned.least_us_per_byte = std::min(tuned.least_us_per_byte, row.time_us / load.work);
      }
    }
  }
  for (auto& [name, reader] : readers)
    if (reader.timed.variant) variants_.push_back(std::move(reader).done());
}

FitPredictor::Sizes FitPredictor::sizes_of(const Problem& problem) const {
  Sizes sizes;
  for (const Dim& dim : op_.op.dims)
    if (dim.role != DimRole::shape) sizes.push_back(problem.dims.get(dim.name, 0));
  return sizes;
}

/// Whether problems differ only in the amount of work.
bool FitPredictor::same_features(const Problem& a, const Problem& b) const {
  const auto all_in = [&](const Problem& p, const Problem& other) {
    return std::ranges::all_of(p.dims.written(), [&](const auto& value) {
      const Dim* dim = op_.op.find_dim(value.name);
      return (dim && dim->role != DimRole::shape) ||
             (other.dims.has(value.name) && other.dims[value.name] == value.value);
    });
  };
  return all_in(a, b) && all_in(b, a);
}

std::vector<FitPredictor::Similarity> FitPredictor::similarities(const Problem& problem) const {
  std::vector<Similarity> similar;
  for (const TunedProblem& tuned : problems_)
    similar.push_back(tuned.problem == problem                ? Similarity::itself
                      : same_features(tuned.problem, problem) ? Similarity::same_features
                                                              : Similarity::other_features);
  return similar;
}

/// Estimates the time of a configuration with this load from the times of its kernel; empty if there are too
/// few or none is near. The estimate is the geometric mean of two fits, one with steeper weights than the
/// other.
std::optional<TimeFit::Estimate> FitPredictor::estimate(const Kernel& kernel,
                                                        const std::vector<Similarity>& similar,
                                                        const LaunchLoad& load, const Sizes& sizes,
                                                        std::int64_t l2_prefetch) const {
  struct Near {
    double d;
    const TimedLaunch* launch;
  };
  const LoadPoint point = point_of(load);
  std::vector<Near> near;
  Bounds bounds;
  double nearest = kInfinity;
  for (const TimedLaunch& launch : kernel.launches) {
    if (similar[launch.problem] == Similarity::itself) continue;
    const bool same = similar[launch.problem] == Similarity::same_features;
    // Other features do not change the time per byte, but the time of arithmetic.
    if (!same && !(launch.memory_bound && load.memory_bound)) continue;
    const double d = distance(point, launch.point);
    if (same && launch.l2_prefetch == l2_prefetch) {
      if (launch.splits == load.splits) bounds.add(launch.time_us, problems_[launch.problem].sizes, sizes);
      nearest = std::min(nearest, d);
    }
    near.push_back(
        {d + (same ? 0 : kOtherFeatures) + (launch.l2_prefetch == l2_prefetch ? 0 : kOtherPrefetch),
         &launch});
  }
  if (near.size() < kMinLaunches || nearest > kMaxDistance) return std::nullopt;
  if (near.size() > kMaxLaunches) {
    std::ranges::nth_element(near, near.begin() + kMaxLaunches, {}, &Near::d);
    near.resize(kMaxLaunches);
  }
  TimeFit wide, close;
  for (const auto& [d, launch] : near) {
    const double weight = 1 / (d + 0.3);
    wide.add(launch->parts, launch->time_us, weight);
    close.add(launch->parts, launch->time_us, weight * weight);
  }
  const TimeParts parts = time_parts(load);
  const auto [us, error] = wide.at(parts);
  return TimeFit::Estimate{bounds.within(std::sqrt(us * close.at(parts).time_us)), error};
}

std::optional<Prediction> FitPredictor::predict(const Problem& problem) const {
  const std::vector<Similarity> similar = similarities(problem);
  const auto is_same = [&](std::size_t tuned) { return similar[tuned] == Similarity::same_features; };
  const auto problem_count = [&](const Kernel& kernel) {
    return std::ranges::count_if(kernel.problems, is_same);
  };
  double least_us_per_byte = kInfinity;
  for (std::size_t i = 0; i < problems_.size(); ++i)
    if (is_same(i)) least_us_per_byte = std::min(least_us_per_byte, problems_[i].least_us_per_byte);
  std::ptrdiff_t max_problems = 0;
  for (const TimedVariant& timed : variants_)
    for (const Kernel& kernel : timed.kernels) max_problems = std::max(max_problems, problem_count(kernel));

  std::optional<Prediction> best;
  double least = kInfinity;  // the least time with its error penalty
  const Sizes sizes = sizes_of(problem);
  for (const TimedVariant& timed : variants_) {
    const Space space(*timed.variant, problem, facts_);
    for (const Candidate& candidate : timed.candidates) {
      const Kernel& kernel = timed.kernels[candidate.kernel];
      if (!std::ranges::any_of(candidate.problems, is_same) ||
          kMinProblemShare * problem_count(kernel) < max_problems ||
          space.broken_constraint(candidate.config))
        continue;
      const LaunchLoad load = load_of(op_.op, *timed.variant, problem, candidate.config, facts_);
      const auto fitted = estimate(kernel, similar, load, sizes,
                                   timed.variant->value_of(ParameterRole::l2_prefetch, candidate.config, 0));
      if (!fitted) continue;
      const double us = std::max(fitted->time_us, least_us_per_byte * load.work);
      const double with_error = us * (1 + kErrorWeight * fitted->error);
      if (with_error >= least) continue;
      least = with_error;
      best = {timed.variant, candidate.config, us};
    }
  }
  return best;
}

}  // namespace warptune
