// warptune bench: the winners of a wisdom file as Google Benchmarks. The library decides how long to sample
// and reports; verification and cold replays are those of every other command.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <list>
#include <map>
#include <memory>
#include <numeric>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/wisdom_in_use.h"
#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/print.h"
#include "harness/core/space.h"
#include "harness/measure/verified_run.h"
#include "harness/results/run_info.h"
#include "harness/results/wisdom_export.h"
#include "harness/select/tuned_plans.h"
#include "harness/tune/device_file.h"
#include "harness/tune/device_lock.h"
#include "harness/tune/winners_sweep.h"

namespace warptune {
namespace {

constexpr int kMaxDiscarded = 32;  // throttled samples per run that are taken again

/// The one configuration of a winner.
Config config_of(const VariantChoice& choice) {
  Assignment values;
  for (const Override& value : choice.overrides) values.set(value.parameter, value.values.front());
  return parse_config(*choice.variant, values.str());
}

/// One workbench per problem, kept while half of the device's memory is free, so that each has as many sets
/// of tensors as the first.
class Workbenches {
 public:
  explicit Workbenches(Device& device) : device_(device), free_bytes_(device.free_bytes()) {}

  const Device& device() const { return device_; }

  Measurement run(const SweepItem& item, const TimedRule& rule) {
    Entry& entry = entry_of(item);
    const VariantChoice& choice = item.choices.front();
    Measurement m = verified_run(*entry.work, *choice.variant, config_of(choice), rule);
    check_peaks(*entry.work, m, rule.timing, measure_peaks, entry.raised);
    return m;
  }

 private:
  struct Entry {
    std::unique_ptr<Workbench> work;
    int raised = 0;  // how often the peaks were measured again
  };

  Entry& entry_of(const SweepItem& item) {
    const std::string key = item.problem.key();
    if (entries_.contains(key)) return entries_[key];
    if (device_.free_bytes() < free_bytes_ / 2) entries_.clear();
    try {
      entries_[key] = make(item);
    } catch (const ResourceError&) {
      entries_.clear();
      entries_[key] = make(item);
    }
    return entries_[key];
  }

  Entry make(const SweepItem& item) {
    return {.work = std::make_unique<Workbench>(device_, *item.entry, item.problem, item.options)};
  }

  Device& device_;
  const std::size_t free_bytes_;  // at first
  std::map<std::string, Entry> entries_;
};

/// A registered winner. All its runs have samples of one length, and once it failed they all fail, because
/// the library stops at repetitions whose iterations differ.
struct WinnerBenchmark {
  const SweepItem& item;
  int launches = 0;     // per sample; 0 before the first
  std::string failure;  // one sentence, or empty
};

/// An iteration is a launch, and a batch of iterations is one replay. The library decides how many.
Samples sample_for(benchmark::State& state, const std::function<Sample()>& take, int launches) {
  Samples samples;
  while (state.KeepRunningBatch(launches)) {
    if (samples.stop == Stop::no_time) continue;
    Sample one = take();
    for (; one.throttled && samples.discarded < kMaxDiscarded; ++samples.discarded) one = take();
    if (!std::isfinite(one.us) || one.us < 0) {
      samples.us.clear();
      samples.stop = Stop::no_time;
      continue;
    }
    samples.throttled += one.throttled;
    samples.us.push_back(one.us);
    state.SetIterationTime(one.us * 1e-6);  // adds to the run's time
  }
  return samples;
}

/// The measurement of one run. A failure is in `winner`.
Measurement measured(benchmark::State& state, Workbenches& benches, WinnerBenchmark& winner, Timing timing) {
  Measurement m;
  bool finished = false;
  const auto sampling = [&](const std::function<Sample()>& take, int launches) {
    winner.launches = launches;
    Samples samples = sample_for(state, take, launches);
    finished = true;
    return samples;
  };
  if (winner.failure.empty()) {
    try {
      m = benches.run(winner.item, {.sampling = sampling, .timing = timing, .launches = winner.launches});
    } catch (const ResourceError& e) {  // the tensors do not fit
      m.status = Status::resource;
      m.detail = e.what();
    }
    if (m.status != Status::ok) winner.failure = fmt::format("{}: {}", name_of(m.status), m.detail);
  }
  if (!winner.failure.empty() && !finished)
    while (state.KeepRunningBatch(std::max(winner.launches, 1))) {
    }
  return m;
}

/// A rate that the library divides by the time of all launches.
benchmark::Counter per_second(double amount_per_launch) {
  return {amount_per_launch, benchmark::Counter::kIsIterationInvariantRate};
}

/// The same counters in every benchmark: the library's CSV has columns for the first one's.
void run_one(benchmark::State& state, Workbenches& benches, WinnerBenchmark& winner,
             const std::string& cache) {
  const Measurement m =
      measured(state, benches, winner, cache == "isolated" ? Timing::isolated : Timing::main);
  if (!winner.failure.empty()) {
    state.SkipWithError(winner.failure.c_str());
    return;
  }
  const double mean_us = std::accumulate(m.samples_us.begin(), m.samples_us.end(), 0.0) / m.samples;
  const Cost cost = winner.item.entry->op.cost(winner.item.problem);
  state.counters["bytes_per_second"] = per_second(cost.bytes);
  state.counters["flops_per_second"] = per_second(cost.flops);
  state.counters["launches_per_sample"] = m.launches_per_sample;
  if (benches.device().facts().read_gb_per_s > 0) state.counters["pct_floor"] = 100 * m.floor_us / mean_us;
  state.SetLabel(benchmark_label(cache, m.clocks.throttled));
}

/// The arguments that CLI11 left, for the library. Throws InputError for anything else than its flags.
void initialize_library(std::vector<std::string> flags) {
  static char program[] = "warptune bench";  // the library keeps the pointer
  std::vector<char*> arguments = {program};
  for (std::string& flag : flags) {
    if (!flag.starts_with("--benchmark_"))
      throw InputError("'{}' is neither an option of bench nor a --benchmark_ flag", brief(flag));
    arguments.push_back(flag.data());
  }
  int count = static_cast<int>(arguments.size());
  benchmark::SetDefaultTimeUnit(benchmark::kMicrosecond);  // --benchmark_time_unit overrides it
  benchmark::Initialize(&count, arguments.data(), [] {
    throw InputError(
        "Google Benchmark does not take the value of a flag: the formats are console, json and csv, the time "
        "units ns, us, ms and s, and colors auto, true and false");
  });
  if (count > 1) throw InputError("Google Benchmark does not take '{}'", brief(arguments[1]));
}

/// The library truncates the file of --benchmark_out or $BENCHMARK_OUT when it starts to run.
void expect_output(const std::vector<std::string>& flags, const WisdomInUse& in_use, bool force) {
  static constexpr std::string_view kFlag = "--benchmark_out=";
  const char* variable = std::getenv("BENCHMARK_OUT");
  std::string path = variable ? variable : "";
  for (const std::string& flag : flags)
    if (flag.starts_with(kFlag)) path = flag.substr(kFlag.size());
  if (path.empty()) return;
  std::vector<std::filesystem::path> inputs;
  for (const WisdomFile& file : in_use.files) inputs.push_back(file.path);
  const OutputKind kind = {.name = "a file of benchmarks", .is_earlier = [](std::string_view text) {
                             const std::string_view head = text.substr(0, 100);
                             return head.starts_with("{\n  \"context\": {\n    \"date\": ") ||
                                    head.find("\nRunning warptune bench\n") != head.npos;
                           }};
  const OutputFile checked(path, kind, inputs, force);
}

/// The peaks that are stored next to a file of the wisdom.
void set_peaks(Device& device, const WisdomInUse& in_use) {
  for (const WisdomFile& file : in_use.files)
    if (const auto stored = load_device_file(file.path.parent_path() / "device.json", device.facts()))
      return device.set_peaks(*stored);
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("bench", "Runs the winners of a wisdom file as Google Benchmarks");
  command->footer(
      "Every --benchmark_* flag of Google Benchmark works, with '=' before its value. An iteration is a "
      "launch.\n"
      "Exits with 1 if a winner is not correct.\n"
      "Examples:\n"
      "  warptune bench --wisdom results/h200/wisdom.json --benchmark_filter=linear/tokens:1/\n"
      "  warptune bench --wisdom wisdom.json --benchmark_repetitions=9 \\\n"
      "    --benchmark_enable_random_interleaving=true --benchmark_out=now.json");
  struct Given {
    std::string wisdom, problem, cache = "cold", device = "auto";
    bool force = false;
    KernelOption kernels;
  };
  const auto given = std::make_shared<Given>();
  given->kernels.add_to(*command);
  command->add_option("--wisdom", given->wisdom, "The winners; default: the files of WARPTUNE_WISDOM");
  add_problem_filter(*command, given->problem);
  command
      ->add_option("--cache", given->cache,
                   "cold, hot or isolated: the cache state of the time (docs/measuring.md)")
      ->check(CLI::IsMember({"cold", "hot", "isolated"}))
      ->capture_default_str();
  add_device(*command, given->device);
  add_force(*command, given->force);
  command->allow_extras();
  command->callback([given, command, &exit_code] {
    const std::vector<std::string> flags = command->remaining();
    initialize_library(flags);
    const auto device = open_device(given->device);
    const DeviceFacts& facts = device->facts();
    const WisdomInUse in_use = required_wisdom(given->wisdom, facts, "--wisdom FILE");
    expect_output(flags, in_use, given->force);
    const auto winners = winners_of(given->kernels.ops(), in_use.wisdom, given->problem);
    const DeviceLock lock(facts.id);
    set_peaks(*device, in_use);
    benchmark::AddCustomContext("device", facts.name);
    benchmark::AddCustomContext("arch", facts.arch);
    benchmark::AddCustomContext("driver", facts.driver);
    benchmark::AddCustomContext("toolkit", facts.toolkit);
    benchmark::AddCustomContext("multiprocessors", std::to_string(facts.sms));
    benchmark::AddCustomContext("git_commit", git_commit());
    benchmark::AddCustomContext("wisdom", in_use.str());
    benchmark::AddCustomContext("cache", given->cache);

    std::vector<std::string> left_out;
    Sweep sweep = winners_sweep(given->kernels.ops(), winners, "bench", {}, left_out);
    for (SweepItem& item : sweep.items)
      item.options.cache = cache_mode_of(given->cache).value_or(CacheMode::cold);
    for (const std::string& sentence : left_out) print_error("skips " + sentence);
    Workbenches benches(*device);
    std::list<WinnerBenchmark> registered;
    for (const SweepItem& item : sweep.items) {
      const Variant& variant = *item.choices.front().variant;
      if (const auto ranks = ranks_of(item.problem); ranks > 1) {
        print_error("skips {}: it runs on {} ranks, bench on one GPU", item.problem.key(), ranks);
        continue;
      }
      if (why_not_here(variant, item.problem, facts)) {
        print_error("skips {}: {} does not run on {}", item.problem.key(), variant.name, facts.name);
        continue;
      }
      WinnerBenchmark& winner = registered.emplace_back(WinnerBenchmark{.item = item, .failure = {}});
      benchmark::RegisterBenchmark(
          printable(benchmark_name(item.problem.key(), variant.name, config_of(item.choices.front()).str()))
              .c_str(),
          [&benches, &winner, &given](benchmark::State& state) {
            run_one(state, benches, winner, given->cache);
          })
          ->UseManualTime();
    }
    if (registered.empty()) throw InputError("no winner of '{}' runs on {}", in_use.present(), facts.name);
    if (benchmark::RunSpecifiedBenchmarks() == 0)
      throw InputError(
          "no winner's benchmark matches --benchmark_filter; --benchmark_list_tests prints the names");
    benchmark::ClearRegisteredBenchmarks();
    benchmark::Shutdown();
    const auto failed = [](const WinnerBenchmark& winner) { return !winner.failure.empty(); };
    exit_code = std::ranges::any_of(registered, failed) ? 1 : 0;
  });
}

}  // namespace warptune
