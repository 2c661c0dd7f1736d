#include "measure/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/error.h"
#include "measure/sampler.h"
#include "measure/statistics.h"
#include "verify/oracle.h"

namespace warptune {
namespace {

constexpr double kSampleUs = 1000;  // a sample lasts at least this long, so that event resolution is noise
constexpr double kRotation = 2.5;   // cold sets are together at least this many times the L2
constexpr std::int64_t kMostSets = 256;
constexpr int kMostLaunches = 4096;  // graph nodes of a sample
constexpr double kImpossible = 1.1;  // faster than the floor by this much is an error, not a record

std::int64_t bytes_of(std::span<const TensorSpec> specs, CacheState state) {
  std::int64_t bytes = 0;
  for (const TensorSpec& spec : specs)
    if (spec.cache == state) bytes += spec.bytes();
  return bytes;
}

}  // namespace

struct Bench::State {
  Device& device;
  const OpEntry& entry;
  Problem problem;
  BenchOptions options;
  Oracle first, second;  // the same problem on two sets of inputs
  std::vector<TensorSpec> specs;
  std::vector<TensorSet> sets;
  const Oracle* current = nullptr;  // whose inputs are in sets.back()
  bool flush = false;               // too many sets would be needed: flush the caches before each sample
  double cold_bytes_floor = 0;      // compulsory bytes that cannot come from a cache

  State(Device& d, const OpEntry& e, Problem p, BenchOptions o)
      : device(d),
        entry(e),
        problem(std::move(p)),
        options(o),
        first(e.op, problem, o.seed),
        second(e.op, problem, o.seed + 1),
        specs(first.specs().begin(), first.specs().end()) {
    decide_cache_states();
    // What a launch touches of the cold tensors: less than their size where it looks up a few rows.
    const std::int64_t cold =
        std::min(bytes_of(specs, CacheState::cold), static_cast<std::int64_t>(std::ceil(cold_bytes_floor)));
    const std::int64_t l2 = device.facts().l2_bytes;
    std::int64_t count = 1;
    if (cold > 0 && cold < 5 * l2)
      count = static_cast<std::int64_t>(
                  std::ceil(kRotation * static_cast<double>(l2) / static_cast<double>(cold))) +
              1;
    if (count > kMostSets) {
      count = kMostSets;
      flush = true;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      sets.emplace_back(device, specs, i ? &sets.front() : nullptr);
      if (i == 0) sets.reserve(static_cast<std::size_t>(count));
      // The last set is the one that is checked, since it is the last that a replay runs on.
      sets.back().fill(specs, options.seed + 100 * static_cast<std::uint64_t>(count - 1 - i));
    }
    current = &first;
    device.synchronize();
  }

  /// What a tensor says holds where it can: activations too large to stay in the cache are cold all the same.
  void decide_cache_states() {
    const std::int64_t l2 = device.facts().l2_bytes, hot = bytes_of(specs, CacheState::hot);
    for (TensorSpec& spec : specs) {
      if (options.cache == CacheMode::hot)
        spec.cache = CacheState::hot;
      else if (hot > l2 / 8)
        spec.cache = CacheState::cold;
    }
    cold_bytes_floor =
        std::max(0.0, entry.op.cost(problem).bytes - static_cast<double>(bytes_of(specs, CacheState::hot)));
  }

  bool changes_inputs() const {
    return std::ranges::any_of(specs, [](const TensorSpec& spec) { return spec.role == Role::inout; });
  }

  void load_inputs(const Oracle& oracle) {
    if (current == &oracle) return;
    sets.back().fill(oracle.specs(), oracle.seed());
    current = &oracle;
  }

  /// Poisons the outputs of the checked set, runs, and compares.
  Verdict verify(const std::function<void()>& run) {
    sets.back().reset_outputs(current->specs(), current->seed());
    run();
    device.synchronize();
    return current->compare(sets.back());
  }
};

Bench::Bench(Device& device, const OpEntry& entry, Problem problem, BenchOptions options)
    : state_(std::make_unique<State>(device, entry, std::move(problem), options)) {}
Bench::~Bench() = default;
const Problem& Bench::problem() const { return state_->problem; }

namespace {

void put_verdict(Measurement& m, const Verdict& verdict, const char* when) {
  m.max_abs_err =
      std::isnan(m.max_abs_err) ? verdict.max_abs_err : std::max(m.max_abs_err, verdict.max_abs_err);
  m.rel_l2_err = std::isnan(m.rel_l2_err) ? verdict.rel_l2_err : std::max(m.rel_l2_err, verdict.rel_l2_err);
  if (verdict.ok) return;
  m.status = Status::wrong_result;
  m.detail = fmt::format("{}: {}", when, verdict.detail);
}

void put_samples(Measurement& m, std::vector<double> samples, int launches) {
  for (double& s : samples) s /= launches;
  std::ranges::sort(samples);
  m.samples = static_cast<int>(samples.size());
  m.launches_per_sample = launches;
  m.time_us = quantile(samples, 0.5);
  m.time_us_min = samples.front();
  m.time_us_p10 = quantile(samples, 0.1);
  m.time_us_p90 = quantile(samples, 0.9);
  std::tie(m.ci_low_us, m.ci_high_us) = median_interval(samples);
}

}  // namespace

Measurement Bench::run(const Variant& variant, const Config& config) {
  State& s = *state_;
  Measurement m;
  const Cost cost = s.entry.op.cost(s.problem);
  m.floor_us = floor_us(s.device.facts(), cost, s.problem.dtype);
  std::unique_ptr<Plan> plan;
  try {
    plan = s.device.prepare(variant, s.problem, config);
  } catch (const CompileError& e) {
    m.status = Status::compile_error;
    m.detail = e.what();
    return m;
  } catch (const ResourceError& e) {
    m.status = Status::resource;
    m.detail = e.what();
    return m;
  }
  m.resources = plan->resources();

  try {
    Buffer workspace;
    if (const auto bytes = static_cast<std::size_t>(plan->workspace_bytes())) {
      workspace = s.device.allocate(bytes);
      s.device.set_bytes(workspace.data(), 0, bytes, s.device.stream());
    }
    std::vector<Args> args;
    for (const TensorSet& set : s.sets)
      args.push_back(s.entry.op.bind(s.problem, set.addresses(), workspace.data()));

    const auto one = [&] { plan->launch(args.back().data(), s.device.stream()); };
    put_verdict(m, s.verify(one), "before timing");
    if (m.status != Status::ok) return m;

    const int sets = static_cast<int>(s.sets.size());
    const auto replay_of = [&](int launches) {
      return s.device.record([&, launches](Stream stream) {
        for (int i = 0; i < launches; ++i)
          plan->launch(args[static_cast<std::size_t>(i % sets)].data(), stream);
      });
    };
    auto replay = replay_of(sets);
    s.device.time_us(*replay);
    const double each = std::max(s.device.time_us(*replay) / sets, 0.05);
    int launches = sets;
    if (!s.flush) {
      const int rounds = static_cast<int>(std::ceil(kSampleUs / each / sets));
      launches = std::clamp(rounds * sets, sets, std::max(kMostLaunches / sets, 1) * sets);
      if (launches != sets) replay = replay_of(launches);
    }
    const SamplingRule rule{s.options.max_rel_ci, s.options.min_samples, s.options.max_seconds};
    put_samples(m,
                sample_until(rule,
                             [&] {
                               if (s.flush) s.device.flush_cache(s.device.stream());
                               return s.device.time_us(*replay);
                             }),
                launches);
    m.clocks = s.device.clocks();

    s.load_inputs(s.current == &s.first ? s.second : s.first);
    // What was timed is checked as it was timed; an op that changes its inputs has no right answer after many
    // launches, so that one launch, recorded the same way, stands for it.
    if (s.changes_inputs())
      replay = s.device.record([&](Stream stream) { plan->launch(args.back().data(), stream); });
    put_verdict(m, s.verify([&] { replay->launch(s.device.stream()); }), "after timing");
  } catch (const ResourceError& e) {
    m.status = Status::resource;
    m.detail = e.what();
    return m;
  } catch (const std::bad_alloc&) {
    m.status = Status::resource;
    m.detail = "the memory of the host was used up";
    return m;
  } catch (const std::exception& e) {
    m.status = Status::launch_error;
    m.detail = e.what();
    s.device.synchronize();  // throws where the device is lost; then the process must be replaced
    return m;
  }

  const Cost sure{.bytes = s.options.cache == CacheMode::hot ? 0 : s.cold_bytes_floor, .flops = cost.flops};
  const double impossible = floor_us(s.device.facts(), sure, s.problem.dtype) / kImpossible;
  if (m.status == Status::ok && m.time_us < impossible) {
    m.status = Status::too_fast;
    m.detail = fmt::format("{:.3f} us is below what the device can do ({:.3f} us)", m.time_us, impossible);
  }
  return m;
}

double floor_us(const DeviceFacts& facts, const Cost& cost, DType dtype) {
  const double rate = dtype == DType::fp32 ? facts.vector_tflop_per_s : facts.matrix_tflop_per_s;
  const double memory = facts.read_gb_per_s > 0 ? cost.bytes / facts.read_gb_per_s * 1e-3 : 0;
  const double arithmetic = rate > 0 ? cost.flops / rate * 1e-6 : 0;
  return std::max(memory, arithmetic);
}

}  // namespace warptune
