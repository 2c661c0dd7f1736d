#include "results/prediction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/space.h"
#include "table.h"

namespace warptune {
namespace {

constexpr double kNearest = 2.2;       // something must have been timed as near as so many doublings
constexpr std::size_t kFewest = 6;     // times that a fit needs
constexpr std::size_t kRarely = 5;     // times fewer problems that timed a kernel: it is not chosen
constexpr double kFlopsPerByte = 200;  // where arithmetic takes as long as memory, roughly
constexpr std::string_view kWorkDims[] = {"tokens", "batch",   "context",  "q_len",
                                          "kv_len", "q_heads", "kv_heads", "uneven"};
constexpr std::string_view kSplits = "splits", kAhead = "ahead", kCombine = "combine";
constexpr double kOtherAhead = 2;     // doublings that another `ahead` is worth
constexpr double kOtherFeatures = 3;  // and another head_dim, or an append
constexpr double kMostTrips = 4;      // a warp waits for its first chunks; later ones come while it works
constexpr double kDoubt = 0.8;        // what the error of a fit counts against a configuration

/// How a launch loads a device.
struct Load {
  double work = 0;      // bytes, or what arithmetic is worth in bytes
  bool memory = false;  // whether bytes take at least twice as long as arithmetic
  double blocks = 1;    // or pieces of work that persistent ones share
  double slots = 1;     // blocks that run at a time
  double sms = 1;       // multiprocessors that they find room on
  double splits = 1;
  Dealt dealt;
  double last_end = 0;  // work of the block that ends last, where blocks draw what is not alike
  double group = 1;     // query heads that share keys
};

double group_of(const Problem& problem) {
  if (!problem.dims.has("q_heads") || !problem.dims.has("kv_heads")) return 1;
  return static_cast<double>(problem["q_heads"]) / static_cast<double>(problem["kv_heads"]);
}

/// Blocks of a launch that a multiprocessor has room for, as far as that is known before it is compiled:
/// registers only where the launch says how many they are.
double blocks_per_sm(const Launch& launch, const DeviceFacts& facts) {
  constexpr std::int64_t kReserved = 1024;  // bytes of shared memory that each block costs besides
  constexpr std::int64_t kUnit = 8;         // a thread gets registers by so many
  const auto threads = static_cast<std::int64_t>(launch.block.x) * launch.block.y * launch.block.z;
  std::int64_t room = std::min(facts.shared_per_sm / (launch.shared_bytes + kReserved),
                               facts.threads_per_sm / std::max<std::int64_t>(1, threads));
  if (launch.registers > 0)
    room = std::min(room, facts.registers_per_sm / (ceil_div(launch.registers, kUnit) * kUnit * threads));
  return static_cast<double>(std::clamp<std::int64_t>(room, 1, 32));
}

/// Multiprocessors that a launch finds room on. A cluster lies in one part of the device (GPC), and their
/// numbers of multiprocessors are no multiples of four: an H200 runs 128 blocks in clusters of four in two
/// rounds, 96 in one.
double sms_for(const Launch& launch, double sms) { return launch.cluster < 4 ? sms : std::floor(0.91 * sms); }

double total_length(const Drawn& drawn) {
  double sum = 0;
  for (const auto& [length, pieces] : drawn.runs) sum += length * static_cast<double>(pieces);
  return sum;
}
/// When the last of `slots` blocks ends that begin together and draw these pieces.
double last_end(const Drawn& drawn, double slots) {
  std::map<double, std::int64_t> ends = {{0, static_cast<std::int64_t>(slots)}};  // when how many are free
  for (const auto& [length, pieces] : drawn.runs)
    for (std::int64_t left = pieces; left > 0;) {
      auto& [when, free] = *ends.begin();
      const std::int64_t taken = std::min(left, free);
      ends[when + length] += taken;
      left -= taken;
      if (taken == free)
        ends.erase(ends.begin());
      else
        free -= taken;
    }
  return ends.rbegin()->first;
}

Load load_of(const Op& op, const Variant& variant, const Problem& problem, const Config& config,
             const DeviceFacts& facts) {
  const Cost cost = op.cost(problem);
  const double sms = std::max(1, facts.sms);
  Load load{.work = std::max(cost.bytes, cost.flops / kFlopsPerByte),
            .memory = cost.bytes >= 2 * cost.flops / kFlopsPerByte,
            .blocks = sms,
            .slots = sms,
            .sms = sms,
            .splits = static_cast<double>(std::max<std::int64_t>(1, config.get(kSplits, 1))),
            .group = group_of(problem)};
  if (!variant.stages.empty() && variant.stages.front().launch) {
    const Launch launch = variant.stages.front().launch(problem, config);
    load.dealt = launch.dealt;
    load.blocks = 1.0 * launch.grid.x * launch.grid.y * launch.grid.z * (launch.per_sm ? sms : 1);
    load.sms = sms_for(launch, sms);
    load.slots = load.sms * (launch.per_sm ? launch.grid.x : blocks_per_sm(launch, facts));
    if (launch.pieces > 0) load.blocks = launch.pieces;
    if (launch.drawn) {
      const Drawn drawn = launch.drawn();
      const double work_of_length = cost.flops / kFlopsPerByte / drawn.asked;
      load.last_end = last_end(drawn, load.slots) * work_of_length;
      load.work = total_length(drawn) * work_of_length;
    }
  }
  return load;
}

constexpr std::size_t kParts = 7;
using Parts = std::array<double, kParts>;

/// What the time of a launch is made of.
Parts parts_of(const Load& load) {
  const double merges = load.splits > 1 ? 1 : 0;
  if (load.last_end > 0) return {1, load.work, load.last_end, 0, 0, load.splits, merges};
  const double piece = load.work / load.blocks * load.dealt.longest,
               rounds = std::ceil(load.blocks / load.slots);
  return {1,
          load.work,
          std::ceil(load.blocks / load.sms) * piece,
          rounds * load.slots / load.sms * piece,
          rounds * std::min(load.dealt.trips, kMostTrips),
          load.splits,
          merges};
}

/// The logarithms of a load, to base 2: loads whose logarithms are near take alike times.
using Place = std::array<double, 4>;
Place place_of(const Load& load) {
  return {std::log2(load.blocks), std::log2(load.work / load.blocks), std::log2(load.splits),
          std::log2(load.group)};
}
double distance(const Place& a, const Place& b) {
  constexpr Place kWeights = {1, 1, 0.5, 1.5};
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += kWeights[i] * std::abs(a[i] - b[i]);
  return sum;
}

/// What kWorkDims are of a problem; 0 for those that it has not.
using Sizes = std::array<std::int64_t, std::size(kWorkDims)>;
Sizes sizes_of(const Problem& problem) {
  Sizes sizes{};
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (problem.dims.has(kWorkDims[i])) sizes[i] = problem[kWorkDims[i]];
  return sizes;
}
bool none_above(const Sizes& a, const Sizes& b) {
  return std::ranges::equal(a, b, [](std::int64_t x, std::int64_t y) { return x <= y; });
}

struct Timed {
  Place place;
  Parts parts;
  double time_us;
  Sizes sizes;
  double splits;
  std::int64_t ahead;
  bool memory;
  bool same_features;
};

/// What a configuration took on problems that are nowhere larger, and on those that are nowhere smaller, with
/// as many splits: it takes something between.
struct Bounds {
  double least = 0, most = std::numeric_limits<double>::infinity();

  void add(const Timed& timed, const Sizes& sizes, double splits) {
    if (timed.splits != splits) return;
    if (none_above(timed.sizes, sizes)) least = std::max(least, timed.time_us);
    if (none_above(sizes, timed.sizes)) most = std::min(most, timed.time_us);
  }
  double within(double us) const { return std::max(least, std::min(most, us)); }
};

/// A weighted least-squares fit of relative errors, no coefficient negative.
class Fit {
 public:
  void add(const Timed& timed, double weight) {
    Parts row = timed.parts;
    for (double& part : row) part *= weight / timed.time_us;
    for (std::size_t i = 0; i < kParts; ++i) {
      for (std::size_t j = 0; j < kParts; ++j) products_[i][j] += row[i] * row[j];
      target_[i] += row[i] * weight;
    }
    weights_ += weight * weight;
    ++count_;
  }
  std::size_t count() const { return count_; }
  struct Estimate {
    double time_us = 0;
    double error = 0;  // relative, of the times that it was made from, near ones most
  };
  /// The best of the fits of every subset of the parts that has no negative coefficient.
  Estimate at(const Parts& parts) const {
    double best = 0, time = 0;
    for (unsigned subset = 1; subset < 1u << kParts; ++subset) {
      const auto c = solved(subset);
      if (!c) continue;
      const double explained = std::inner_product(c->begin(), c->end(), target_.begin(), 0.0);
      if (explained <= best) continue;
      best = explained;
      time = std::inner_product(c->begin(), c->end(), parts.begin(), 0.0);
    }
    return {time, std::sqrt(std::max(0.0, 1 - best / weights_))};
  }

 private:
  /// The coefficients of these parts alone; nothing where one is negative or they hang on each other.
  std::optional<Parts> solved(unsigned subset) const {
    std::array<Parts, kParts> m = products_;
    Parts c = target_;
    const auto in = [&](std::size_t i) { return (subset >> i & 1) != 0; };
    for (std::size_t k = 0; k < kParts; ++k) {
      if (!in(k)) continue;
      if (m[k][k] <= 1e-9 * products_[k][k]) return std::nullopt;
      for (std::size_t i = 0; i < kParts; ++i) {
        if (i == k || !in(i)) continue;
        const double factor = m[i][k] / m[k][k];
        for (std::size_t j = k; j < kParts; ++j) m[i][j] -= factor * m[k][j];
        c[i] -= factor * c[k];
      }
    }
    for (std::size_t k = 0; k < kParts; ++k) {
      c[k] = in(k) ? c[k] / m[k][k] : 0;
      if (c[k] < 0) return std::nullopt;
    }
    return c;
  }

  std::array<Parts, kParts> products_{};
  Parts target_{};
  double weights_ = 0;
  std::size_t count_ = 0;
};

/// Whether problems differ only in how much work there is.
bool same_features(const Problem& a, const Problem& b) {
  const auto all_in = [](const Problem& p, const Problem& other) {
    return std::ranges::all_of(p.dims.said(), [&](const auto& dim) {
      return std::ranges::find(kWorkDims, dim.name) != std::end(kWorkDims) ||
             (other.dims.has(dim.name) && other.dims[dim.name] == dim.value);
    });
  };
  return all_in(a, b) && all_in(b, a);
}

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

/// The kernels that a time of a configuration is of: its own; without splits, those of every way to merge
/// them.
std::vector<Config> kernels_of(const Variant& variant, const Config& config) {
  const Config kernel = kernel_of(config);
  const auto combine = std::ranges::find(variant.parameters, kCombine, &Parameter::name);
  if (combine == variant.parameters.end() || config.get(kSplits, 0) != 1) return {kernel};
  std::vector<Config> kernels;
  for (const std::int64_t way : combine->values) {
    const auto label = static_cast<std::size_t>(way);
    kernels.push_back(kernel);
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

struct Known {
  const Variant* variant = nullptr;
  std::map<std::string, std::vector<Timed>> kernels;
  std::map<std::string, std::set<std::string>> problems;  // of the same features, on which a kernel was timed
  std::map<std::string, Config> configs;
};

/// What a configuration of this load takes, by the times of kernels like its own; nothing where too few are
/// known or none is near. Of two fits, one hangs on near times more than the other; where they differ, the
/// truth lies between.
std::optional<Fit::Estimate> time_of(const std::vector<Timed>& times, const Load& load, const Sizes& sizes,
                                     std::int64_t ahead) {
  const Place place = place_of(load);
  Fit wide, close;
  Bounds bounds;
  double nearest = std::numeric_limits<double>::infinity();
  for (const Timed& timed : times) {
    // Bytes take as long whatever they are for; arithmetic does not.
    if (!timed.same_features && !(timed.memory && load.memory)) continue;
    double d = distance(place, timed.place);
    if (timed.same_features && timed.ahead == ahead) {
      bounds.add(timed, sizes, load.splits);
      nearest = std::min(nearest, d);
    }
    d += (timed.same_features ? 0 : kOtherFeatures) + (timed.ahead == ahead ? 0 : kOtherAhead);
    const double weight = 1 / (d + 0.3);
    wide.add(timed, weight);
    close.add(timed, weight * weight);
  }
  if (wide.count() < kFewest || nearest > kNearest) return std::nullopt;
  const Parts parts = parts_of(load);
  const auto [us, error] = wide.at(parts);
  return Fit::Estimate{bounds.within(std::sqrt(us * close.at(parts).time_us)), error};
}

}  // namespace

std::optional<Prediction> predict(const Wisdom& wisdom, const Problem& problem, const DeviceFacts& facts,
                                  const Holds& holds) {
  const OpEntry& entry = find_op(problem.op);
  std::map<std::string, Known> variants;
  double best_rate = std::numeric_limits<double>::infinity();  // us of a byte of work
  for (const Winner& winner : wisdom.winners()) {
    if (winner.times.empty() || winner.problem.op != problem.op || winner.problem.dtype != problem.dtype ||
        winner.problem == problem)
      continue;
    const bool same = same_features(winner.problem, problem);
    const auto tuned = whole(entry.op, winner.problem);
    if (!tuned) continue;
    for (const VariantTimes& times : winner.times) {
      const auto variant = std::ranges::find(entry.variants, times.variant, &Variant::name);
      if (variant == entry.variants.end() || !holds(winner, times)) continue;
      Known& known = variants[times.variant];
      known.variant = &*variant;
      for (const VariantTimes::Row& row : times.rows) {
        auto config = config_of(*variant, times, row);
        if (!config) break;
        const Load load = load_of(entry.op, *variant, *tuned, *config, facts);
        const Timed timed{place_of(load), parts_of(load),         row.time_us, sizes_of(*tuned),
                          load.splits,    config->get(kAhead, 0), load.memory, same};
        for (const Config& kernel : kernels_of(*variant, *config))
          known.kernels[kernel.str()].push_back(timed);
        if (!same) continue;
        known.problems[kernel_of(*config).str()].insert(winner.problem.key());
        best_rate = std::min(best_rate, row.time_us / load.work);
        known.configs.try_emplace(config->str(), std::move(*config));
      }
    }
  }
  std::optional<Prediction> best;
  double least = std::numeric_limits<double>::infinity();  // of times with what their fits leave in doubt
  const Sizes sizes = sizes_of(problem);
  std::size_t most = 0;  // problems on which one kernel was timed
  for (const auto& [name, known] : variants)
    for (const auto& [kernel, problems] : known.problems) most = std::max(most, problems.size());
  for (const auto& [name, known] : variants) {
    const Space space(*known.variant, problem, facts);
    for (const auto& [text, config] : known.configs) {
      if (space.broken_constraint(config)) continue;
      const std::string kernel = kernel_of(config).str();
      if (kRarely * known.problems.at(kernel).size() < most) continue;
      const Load load = load_of(entry.op, *known.variant, problem, config, facts);
      const auto fitted = time_of(known.kernels.at(kernel), load, sizes, config.get(kAhead, 0));
      if (!fitted) continue;
      const double us = std::max(fitted->time_us, best_rate * load.work);
      const double with_doubt = us * (1 + kDoubt * fitted->error);
      if (with_doubt >= least) continue;
      least = with_doubt;
      best = {known.variant, config, us};
    }
  }
  return best;
}

}  // namespace warptune
