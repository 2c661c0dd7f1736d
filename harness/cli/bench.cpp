// warptune bench: the winners of a wisdom file as Google Benchmarks, timed by our own sampler.
#include "harness/measure/bench.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <map>
#include <memory>

#include "harness/cli/commands.h"
#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/message.h"
#include "harness/core/space.h"
#include "harness/results/run_info.h"
#include "harness/tune/device_file.h"
#include "harness/tune/device_lock.h"
#include "harness/tune/winners_sweep.h"
#include "variants/table.h"

namespace warptune {
namespace {

constexpr int kReplays = 5;  // per batch; the median counts

/// The one configuration of a winner.
Config config_of(const VariantChoice& choice) {
  Assignment values;
  for (const Override& value : choice.overrides) values.set(value.parameter, value.values.front());
  return parse_config(*choice.variant, values.str());
}

/// One bench per problem, kept while the memory of the device lasts.
class Benches {
 public:
  explicit Benches(Device& device) : device_(device) {}

  /// `isolated`: flush the cache before each launch, whatever the item's options say.
  Measurement run(const SweepItem& item, bool isolated) {
    const std::string key = item.problem.key();
    if (!benches_.contains(key)) try {
        benches_[key] = make(item);
      } catch (const ResourceError&) {
        benches_.clear();
        benches_[key] = make(item);
      }
    const VariantChoice& choice = item.choices.front();
    const Config config = config_of(choice);
    if (isolated)
      return benches_[key]->time_interleaved({{choice.variant, config}}, kReplays).front().isolated;
    return benches_[key]->run(*choice.variant, config);
  }

 private:
  std::unique_ptr<Bench> make(const SweepItem& item) {
    return std::make_unique<Bench>(device_, *item.entry, item.problem, item.options);
  }

  Device& device_;
  std::map<std::string, std::unique_ptr<Bench>> benches_;
};

/// One iteration is one batch of graph replays between two verifications.
void run_one(benchmark::State& state, Benches& benches, const SweepItem& item, bool isolated, int& failed) {
  for (auto _ : state) {
    const Measurement m = benches.run(item, isolated);
    if (m.status != Status::ok) {
      ++failed;
      state.SkipWithError(fmt::format("{}: {}", name_of(m.status), m.detail).c_str());
      return;
    }
    state.SetIterationTime(m.time_us * 1e-6);
    state.counters["launches_per_sample"] = m.launches_per_sample;
    state.counters["gb_per_s"] = item.entry->op.cost(item.problem).bytes / m.time_us * 1e-3;
    if (m.floor_us > 0) state.counters["pct_floor"] = 100 * m.floor_us / m.time_us;
  }
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("bench", "Runs the winners of a wisdom file as Google Benchmarks");
  command->footer(
      "Every --benchmark_* flag of Google Benchmark works, with '=' before its value. Times are per launch.\n"
      "Exits with 1 if a winner is not correct.\n"
      "Examples:\n"
      "  warptune bench --wisdom results/h200/wisdom.json --benchmark_filter=linear\n"
      "  warptune bench --wisdom wisdom.json --benchmark_repetitions=9 \\\n"
      "    --benchmark_enable_random_interleaving=true --benchmark_out=now.json");
  struct Given {
    std::string wisdom = "results/wisdom.json", problem, cache = "cold", device = "auto";
  };
  const auto given = std::make_shared<Given>();
  command->add_option("--wisdom", given->wisdom, "The winners")->required();
  command->add_option("--problem", given->problem, "Only problems whose key matches this regular expression");
  command
      ->add_option("--cache", given->cache,
                   "cold, hot or isolated: the cache state of the time (docs/measuring.md)")
      ->check(CLI::IsMember({"cold", "hot", "isolated"}))
      ->capture_default_str();
  command->add_option("--device", given->device, "auto (first GPU, else host), cuda:N or host")
      ->capture_default_str();
  command->allow_extras();
  command->callback([given, command, &exit_code] {
    const auto winners = winners_of(Wisdom::load(given->wisdom), given->problem);
    std::vector<std::string> texts = {"warptune bench"};
    for (const std::string& text : command->remaining()) texts.push_back(text);
    std::vector<char*> arguments;
    for (std::string& text : texts) arguments.push_back(text.data());
    for (const std::string& text : texts)
      if (&text != &texts.front() && !text.starts_with("--benchmark_"))
        throw InputError(
            fmt::format("'{}' is neither an option of bench nor a --benchmark_ flag", brief(text)));
    int count = static_cast<int>(arguments.size());
    benchmark::Initialize(&count, arguments.data());
    if (count > 1) throw InputError(fmt::format("Google Benchmark does not know '{}'", brief(arguments[1])));

    const auto device = open_device(given->device);
    const DeviceLock lock(device->facts().id);
    const auto file = std::filesystem::path(given->wisdom).parent_path() / "device.json";
    if (const auto stored = load_device_file(file, device->facts())) device->set_peaks(*stored);
    const DeviceFacts& facts = device->facts();
    benchmark::AddCustomContext("device", facts.name);
    benchmark::AddCustomContext("arch", facts.arch);
    benchmark::AddCustomContext("driver", facts.driver);
    benchmark::AddCustomContext("toolkit", facts.toolkit);
    benchmark::AddCustomContext("multiprocessors", std::to_string(facts.sms));
    benchmark::AddCustomContext("git_commit", git_commit());
    benchmark::AddCustomContext("wisdom", given->wisdom);
    benchmark::AddCustomContext("cache", given->cache);

    // A fixed number of replays, whatever the interval: the user chooses the repetitions.
    std::vector<std::string> left_out;
    const bool isolated = given->cache == "isolated";
    Sweep sweep =
        winners_sweep(ops(), winners, "bench", {.max_rel_ci = 10, .min_samples = kReplays}, left_out);
    for (SweepItem& item : sweep.items)
      item.options.cache = cache_mode_of(given->cache).value_or(CacheMode::cold);
    for (const std::string& sentence : left_out) print_error("skips " + sentence);
    Benches benches(*device);
    int failed = 0, registered = 0;
    for (const SweepItem& item : sweep.items) {
      const Variant& variant = *item.choices.front().variant;
      if (variant.backend != facts.backend) {
        print_error(
            fmt::format("skips {}: {} does not run on {}", item.problem.key(), variant.name, facts.name));
        continue;
      }
      const std::string config = config_of(item.choices.front()).str();
      const std::string name = item.problem.key() + "/" + variant.name + (config.empty() ? "" : "/" + config);
      ++registered;
      benchmark::RegisterBenchmark(
          name.c_str(),
          [&, isolated](benchmark::State& state) { run_one(state, benches, item, isolated, failed); })
          ->Iterations(1)
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond);
    }
    if (registered == 0)
      throw InputError(fmt::format("no winner of '{}' runs on {}", given->wisdom, facts.name));
    if (benchmark::RunSpecifiedBenchmarks() == 0)
      throw InputError(
          "no winner's benchmark matches --benchmark_filter; its name is PROBLEM/VARIANT/CONFIG");
    benchmark::ClearRegisteredBenchmarks();
    benchmark::Shutdown();
    exit_code = failed ? 1 : 0;
  });
}

}  // namespace warptune
