#include "harness/results/predictor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <string>

#include "harness/core/error.h"
#include "harness/core/space.h"
#include "variants/table.h"

namespace warptune {
namespace {

constexpr double kNearest = 2.2;       // something must have been timed as near as so many doublings
constexpr std::size_t kFewest = 6;     // times that a fit needs
constexpr std::size_t kMost = 200;     // and that it is made from: the nearest
constexpr std::ptrdiff_t kRarely = 5;  // times fewer problems that timed a kernel: it is not chosen
constexpr double kOtherAhead = 2;      // doublings that another `ahead` is worth
constexpr double kOtherFeatures = 3;   // and another head_dim, or an append
constexpr double kDoubt = 0.8;         // what the error of a fit counts against a configuration
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::string_view kSplits = "splits", kAhead = "ahead", kCombine = "combine";

/// The configuration of a row, with labels; nothing where the variant has other parameters now.
std::optional<Config> config_of(const Variant& variant, const VariantTimes& times,
                                const VariantTimes::Row& row) {
  if (times.parameters.size() != variant.parameters.size()) return std::nullopt;
  Config config;
  for (std::size_t i = 0; i < times.parameters.size(); ++i) {
    const Parameter& p = variant.parameters[i];
    if (p.name != times.parameters[i]) return std::nullopt;
    const auto value = static_cast<std::size_t>(row.values[i]);
    config.set(p.name, row.values[i], value < p.labels.size() ? p.labels[value] : "");
  }
  return config;
}

/// A variant's parameters but the splits, and how far ahead it asks: one fit is for all of these.
Config kernel_of(const Config& config) {
  Config kernel = config;
  for (const std::string_view name : {kSplits, kAhead})
    if (kernel.has(name)) kernel.set(name, 0);
  return kernel;
}

/// The kernels that a time of a configuration is of, its own first; without splits, those of every other way
/// to merge them, too.
std::vector<Config> kernels_of(const Variant& variant, const Config& config) {
  std::vector<Config> kernels = {kernel_of(config)};
  const auto combine = std::ranges::find(variant.parameters, kCombine, &Parameter::name);
  if (combine == variant.parameters.end() || config.get(kSplits, 0) != 1) return kernels;
  for (const std::int64_t way : combine->values) {
    if (way == config[kCombine]) continue;
    const auto label = static_cast<std::size_t>(way);
    kernels.push_back(kernels.front());
    kernels.back().set(kCombine, way, label < combine->labels.size() ? combine->labels[label] : "");
  }
  return kernels;
}

/// With the defaults of the dims that go unsaid; nothing where its op has other dims now.
std::optional<Problem> whole(const Op& op, const Problem& problem) {
  Assignment dims;
  for (const auto& dim : problem.dims.said()) dims.set(dim.name, dim.value, dim.label);
  try {
    return op.problem(dims, problem.dtype);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

bool none_above(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  return std::ranges::equal(a, b, [](std::int64_t x, std::int64_t y) { return x <= y; });
}

/// Adds an index unless it was the last to be added.
void add_once(std::vector<std::size_t>& list, std::size_t index) {
  if (list.empty() || list.back() != index) list.push_back(index);
}

}  // namespace

/// What a configuration took on problems that are nowhere larger, and on those that are nowhere smaller, with
/// as many splits: it takes something between.
struct Predictor::Bounds {
  double least = 0, most = kInfinity;

  void add(double time_us, const Sizes& timed, const Sizes& asked) {
    if (none_above(timed, asked)) least = std::max(least, time_us);
    if (none_above(asked, timed)) most = std::min(most, time_us);
  }
  double within(double us) const { return std::max(least, std::min(most, us)); }
};

/// Collects the times of one variant.
struct Predictor::Reader {
  Known known;
  std::map<std::string, std::size_t> kernels;
  std::map<std::string, Candidate> candidates;

  Kernel& kernel(const Config& config) {
    const auto [it, is_new] = kernels.try_emplace(config.str(), known.kernels.size());
    if (is_new) known.kernels.emplace_back();
    return known.kernels[it->second];
  }
  void add(const Config& config, const Timed& timed) {
    const std::vector<Config> all = kernels_of(*known.variant, config);
    for (const Config& k : all) kernel(k).times.push_back(timed);
    add_once(kernel(all.front()).timed_on, timed.tuned);
    auto& candidate =
        candidates.try_emplace(config.str(), Candidate{config, kernels.at(all.front().str()), {}})
            .first->second;
    add_once(candidate.timed_on, timed.tuned);
  }
  Known done() && {
    for (auto& [text, candidate] : candidates) known.candidates.push_back(std::move(candidate));
    return std::move(known);
  }
};

Predictor::Predictor(const Wisdom& wisdom, std::string_view op, DType dtype, const DeviceFacts& facts,
                     const Holds& holds)
    : entry_(find_op(std::string(op))), facts_(facts) {
  std::map<std::string, Reader> readers;
  std::map<std::string, std::size_t> numbers;  // of problems
  for (const Winner& winner : wisdom.winners()) {
    if (winner.times.empty() || winner.problem.op != op || winner.problem.dtype != dtype) continue;
    const auto problem = whole(entry_.op, winner.problem);
    if (!problem) continue;
    const auto [number, is_new] = numbers.try_emplace(winner.problem.key(), tuned_.size());
    if (is_new) tuned_.push_back({winner.problem, sizes_of(*problem), kInfinity});
    Tuned& tuned = tuned_[number->second];
    for (const VariantTimes& times : winner.times) {
      const auto variant = std::ranges::find(entry_.variants, times.variant, &Variant::name);
      if (variant == entry_.variants.end() || !holds(winner, times)) continue;
      Reader& reader = readers[times.variant];
      reader.known.variant = &*variant;
      for (const VariantTimes::Row& row : times.rows) {
        const auto config = config_of(*variant, times, row);
        if (!config) break;
        const LaunchLoad load = load_of(entry_.op, *variant, *problem, *config, facts);
        reader.add(*config, {number->second, place_of(load), parts_of(load), load.splits,
                             config->get(kAhead, 0), load.memory, row.time_us});
        tuned.least_rate = std::min(tuned.least_rate, row.time_us / load.work);
      }
    }
  }
  for (auto& [name, reader] : readers) known_.push_back(std::move(reader).done());
}

Predictor::Sizes Predictor::sizes_of(const Problem& problem) {
  Sizes sizes{};
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (problem.dims.has(kWorkDims[i])) sizes[i] = problem[kWorkDims[i]];
  return sizes;
}

/// Whether problems differ only in how much work there is.
bool Predictor::same_features(const Problem& a, const Problem& b) {
  const auto all_in = [](const Problem& p, const Problem& other) {
    return std::ranges::all_of(p.dims.said(), [&](const auto& dim) {
      return std::ranges::find(kWorkDims, dim.name) != std::end(kWorkDims) ||
             (other.dims.has(dim.name) && other.dims[dim.name] == dim.value);
    });
  };
  return all_in(a, b) && all_in(b, a);
}

std::vector<Predictor::Kin> Predictor::kin_of(const Problem& problem) const {
  std::vector<Kin> kin;
  for (const Tuned& tuned : tuned_)
    kin.push_back(tuned.problem == problem                ? Kin::itself
                  : same_features(tuned.problem, problem) ? Kin::same_features
                                                          : Kin::other_features);
  return kin;
}

/// What a configuration of this load takes, by the times of kernels like its own; nothing where too few are
/// known or none is near. Of two fits, one hangs on near times more than the other; where they differ, the
/// truth lies between.
std::optional<TimeFit::Estimate> Predictor::time_of(const Kernel& kernel, const std::vector<Kin>& kin,
                                                    const LaunchLoad& load, const Sizes& sizes,
                                                    std::int64_t ahead) const {
  struct Near {
    double d;
    const Timed* timed;
  };
  const Place place = place_of(load);
  std::vector<Near> near;
  Bounds bounds;
  double nearest = kInfinity;
  for (const Timed& timed : kernel.times) {
    if (kin[timed.tuned] == Kin::itself) continue;
    const bool same = kin[timed.tuned] == Kin::same_features;
    // Bytes take as long whatever they are for; arithmetic does not.
    if (!same && !(timed.memory && load.memory)) continue;
    const double d = distance(place, timed.place);
    if (same && timed.ahead == ahead) {
      if (timed.splits == load.splits) bounds.add(timed.time_us, tuned_[timed.tuned].sizes, sizes);
      nearest = std::min(nearest, d);
    }
    near.push_back({d + (same ? 0 : kOtherFeatures) + (timed.ahead == ahead ? 0 : kOtherAhead), &timed});
  }
  if (near.size() < kFewest || nearest > kNearest) return std::nullopt;
  if (near.size() > kMost) {
    std::ranges::nth_element(near, near.begin() + kMost, {}, &Near::d);
    near.resize(kMost);
  }
  TimeFit wide, close;
  for (const auto& [d, timed] : near) {
    const double weight = 1 / (d + 0.3);
    wide.add(timed->parts, timed->time_us, weight);
    close.add(timed->parts, timed->time_us, weight * weight);
  }
  const TimeParts parts = parts_of(load);
  const auto [us, error] = wide.at(parts);
  return TimeFit::Estimate{bounds.within(std::sqrt(us * close.at(parts).time_us)), error};
}

std::optional<PredictedConfig> Predictor::at(const Problem& problem) const {
  const std::vector<Kin> kin = kin_of(problem);
  const auto is_same = [&](std::size_t tuned) { return kin[tuned] == Kin::same_features; };
  const auto timed_on = [&](const Kernel& kernel) { return std::ranges::count_if(kernel.timed_on, is_same); };
  double least_rate = kInfinity;
  for (std::size_t i = 0; i < tuned_.size(); ++i)
    if (is_same(i)) least_rate = std::min(least_rate, tuned_[i].least_rate);
  std::ptrdiff_t most = 0;  // problems on which one kernel was timed
  for (const Known& known : known_)
    for (const Kernel& kernel : known.kernels) most = std::max(most, timed_on(kernel));

  std::optional<PredictedConfig> best;
  double least = kInfinity;  // of times with what their fits leave in doubt
  const Sizes sizes = sizes_of(problem);
  for (const Known& known : known_) {
    const Space space(*known.variant, problem, facts_);
    for (const Candidate& candidate : known.candidates) {
      const Kernel& kernel = known.kernels[candidate.kernel];
      if (!std::ranges::any_of(candidate.timed_on, is_same) || kRarely * timed_on(kernel) < most ||
          space.broken_constraint(candidate.config))
        continue;
      const LaunchLoad load = load_of(entry_.op, *known.variant, problem, candidate.config, facts_);
      const auto fitted = time_of(kernel, kin, load, sizes, candidate.config.get(kAhead, 0));
      if (!fitted) continue;
      const double us = std::max(fitted->time_us, least_rate * load.work);
      const double with_doubt = us * (1 + kDoubt * fitted->error);
      if (with_doubt >= least) continue;
      least = with_doubt;
      best = {known.variant, candidate.config, us};
    }
  }
  return best;
}

}  // namespace warptune
