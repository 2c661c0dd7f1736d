// Compilation, pruning and runs of the screening, with a stub for the compiler and the host as the device.
#include "harness/tune/screening.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "harness/core/error.h"
#include "harness/search/search_order.h"
#include "tests/program.h"
#include "tests/tune/candidate.h"
#include "variants/table.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::fresh_folder;

TEST(Prune, NamesTheConditionAndTheResources) {
  const PruneRules rules({"registers > 128 && occupancy_pct < 20", "spill_bytes > 0"});
  EXPECT_FALSE(rules.broken({.registers = 255, .occupancy_pct = 25}));
  EXPECT_EQ(
      rules.broken({.registers = 255, .shared_bytes = 1024, .spill_bytes = 96, .occupancy_pct = 12.5}),
      "pruned by 'registers > 128 && occupancy_pct < 20': 255 registers, 96 bytes of spills, 1024 bytes "
      "of shared memory, occupancy 12.5 %");
  EXPECT_EQ(rules.broken({.registers = 64, .spill_bytes = 8, .occupancy_pct = 50}),
            "pruned by 'spill_bytes > 0': 64 registers, 8 bytes of spills, 0 bytes of shared memory, "
            "occupancy 50 %");
  EXPECT_FALSE(PruneRules().broken({.spill_bytes = 96}));
  EXPECT_THROW(PruneRules({"spills > 0"}), InputError);
}

/// One problem of rms_norm with two configurations of a host variant and eight of a CUDA one. In the stub the
/// eight spill and block=512 does not compile. None of the eight can run on the host.
struct TenCandidates {
  explicit TenCandidates(const std::string& name) : folder(fresh_folder(name)) {
    const OpEntry& entry = find_op("rms_norm");
    item = {.entry = &entry,
            .problem = {"rms_norm", {{"tokens", 8}, {"hidden", 16}}, DType::fp32},
            .options = {.min_samples = 3, .max_time = 0.002}};
    sweep.ops = &ops();
    sweep.prune = {"spill_bytes > 0"};
    options.program = WARPTUNE_PROGRAM;
    options.first_job_seconds = 60;
    problems = {{.item = &item}};
    for (const int threads : {1, 2})
      problems[0].candidates.push_back(
          testing::candidate(entry.variant("host_threaded"), {{"threads", threads}}));
    for (int block = 32; block <= 4096; block *= 2)
      problems[0].candidates.push_back(testing::candidate(entry.variant("naive"), {{"block", block}}));
  }

  struct Result {
    Trials trials;
    TuneSummary summary;
  };

  Result run() {
    RowStore store(folder, "sweep", false);
    DeviceWorker worker(options, {"host"});
    worker.know_peaks(folder / "device.json");
    const Compiler compiler(KernelSources(), {});
    DeviceRows rows(compiler, worker.facts(), store, problems);
    rows.begin(problems);
    Screening screening(
        sweep, options, problems,
        [this](const CompileTask& task) {
          ++compiled;
          if (task.problem == &next_item.problem) compiled_next = true;
          const auto block = task.config["block"];
          if (block == 512) throw CompileError("no such block");
          while (block == hangs_at && !let_go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return Resources{.registers = 40, .spill_bytes = spills, .occupancy_pct = 50};
        },
        jobs, worker, rows);
    std::FILE* null = std::fopen("/dev/null", "w");
    Progress progress(null, 10);
    Result result;
    result.trials = screening.run(problems[0], progress, result.summary);
    std::fclose(null);
    while (waits_for_next && !compiled_next) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    let_go = true;
    return result;
  }

  std::map<std::string, int> counts() const {
    std::map<std::string, int> found;
    for (const auto& [name, status] : testing::statuses(read_csv(folder / "sweep.csv"))) ++found[status];
    return found;
  }

  fs::path folder;
  Sweep sweep;
  SweepItem item, next_item;
  TuneOptions options;
  std::vector<ScheduledProblem> problems;
  std::int64_t spills = 96, hangs_at = 0;
  int jobs = 2;
  bool waits_for_next = false;
  std::atomic<int> compiled = 0;
  std::atomic<bool> compiled_next = false, let_go = false;
};

using Counts = std::map<std::string, int>;

TEST(Screening, APrunedConfigurationHasARowAndIsNotCompiledAgain) {
  TenCandidates bench("screening_prune");
  const auto first = bench.run();
  EXPECT_EQ(bench.counts(), (Counts{{"ok", 2}, {"constraint", 7}, {"compile_error", 1}}));
  EXPECT_EQ(bench.compiled, 8);
  EXPECT_EQ(first.summary.pruned, 7u);
  EXPECT_EQ(first.summary.known, 0u);
  EXPECT_EQ(first.summary.ok, 2u);
  for (const auto& row : read_csv(bench.folder / "sweep.csv"))
    if (row.at("status") == "constraint") {
      EXPECT_EQ(row.at("detail"),
                "pruned by 'spill_bytes > 0': 40 registers, 96 bytes of spills, 0 bytes of shared memory, "
                "occupancy 50 %");
      EXPECT_EQ(row.at("spill_bytes"), "96");
      EXPECT_EQ(row.at("time_us"), "");
    }
  const auto again = bench.run();
  EXPECT_EQ(bench.compiled, 8);
  EXPECT_EQ(again.summary.known, 10u);
  EXPECT_EQ(again.summary.pruned, 7u);
  EXPECT_FALSE(again.trials.any_new);
  EXPECT_EQ(read_csv(bench.folder / "sweep.csv").size(), 10u);
  bench.sweep.prune = {"spill_bytes > 64"};  // another rule with the same answer
  EXPECT_EQ(bench.run().summary.known, 10u);
  bench.sweep.prune = {"spill_bytes > 128"};  // now they must run
  EXPECT_EQ(bench.run().summary.known, 3u);
  EXPECT_EQ(bench.compiled, 15);
}

TEST(Screening, ASearchPrunesWhatItProposes) {
  TenCandidates bench("screening_search");
  bench.sweep.search = {.strategy = "random", .budget = parse_budget("6")};
  const auto result = bench.run();
  EXPECT_EQ(result.summary.configurations, 6u);
  EXPECT_LE(bench.compiled, 6);
  EXPECT_EQ(result.summary.pruned + result.summary.ok,
            result.summary.configurations - static_cast<std::size_t>(bench.counts()["compile_error"]));
}

TEST(Screening, WithResourcesOnlyRunsUseTheBudget) {
  TenCandidates bench("screening_resources");
  bench.sweep.search = {.strategy = "random", .budget = parse_budget("1"), .resources = true};
  const auto result = bench.run();
  EXPECT_EQ(bench.compiled, 8);
  EXPECT_EQ(bench.counts(), (Counts{{"ok", 1}, {"constraint", 7}, {"compile_error", 1}}));
  EXPECT_EQ(result.summary.configurations, 9u);
}

TEST(Screening, ASearchTimesOutAHangingCompilation) {
  TenCandidates bench("screening_hang");
  bench.hangs_at = 64;
  bench.options.compile_seconds = 3;  // the others are stubs that return at once
  bench.sweep.search = {.strategy = "random", .budget = parse_budget("100%")};
  bench.run();
  EXPECT_EQ(bench.counts(), (Counts{{"ok", 2}, {"constraint", 6}, {"compile_error", 1}, {"timeout", 1}}));
}

TEST(Screening, IdleJobsCompileTheFirstProposalsOfTheNextProblem) {
  TenCandidates bench("screening_next");
  bench.next_item = bench.item;
  bench.next_item.problem.dims.set("tokens", 9);
  bench.problems.push_back(bench.problems[0]);
  bench.problems[1].item = &bench.next_item;
  bench.sweep.search = {.strategy = "random", .budget = parse_budget("100%")};
  bench.jobs = 4;
  bench.waits_for_next = true;  // for ever where none is compiled
  bench.run();
  EXPECT_LE(bench.compiled, 8 + 4);
}

TEST(Screening, ASearchBeginsWithTheDefaultTile) {
  TenCandidates bench("screening_tiles");
  const OpEntry& entry = find_op("rms_norm");
  const OpTable with_tile(
      {entry},
      {{.op = "rms_norm", .variant = "host_threaded", .when = 1, .config = "threads=2", .source = "a test"}});
  bench.sweep.ops = &with_tile;
  bench.problems[0].candidates.clear();
  for (const int threads : {1, 2, 4, 8})
    bench.problems[0].candidates.push_back(
        testing::candidate(with_tile.find("rms_norm").variant("host_threaded"), {{"threads", threads}}));
  bench.sweep.search = {.strategy = "guided", .budget = parse_budget("1")};
  bench.run();
  const auto rows = read_csv(bench.folder / "sweep.csv");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].at("config"), "threads=2");
}

TEST(SearchOrder, BeginsAFewAheadAndSpendsItsBudget) {
  SearchSpace space;
  for (int i = 0; i < 10; ++i) space.candidates.push_back({.variant = "v", .config = {{"block", i + 1}}});
  std::vector<std::size_t> begun;
  SearchOrder order(space, {.strategy = "exhaustive", .budget = parse_budget("5")}, 3,
                    [&](std::size_t candidate) { begun.push_back(candidate); });
  EXPECT_EQ(begun.size(), 3u);
  EXPECT_EQ(order.next(), 0u);
  EXPECT_EQ(begun.size(), 3u);
  for (std::size_t i = 1; i < 5; ++i) {
    order.tell(i - 1, 1.0);
    EXPECT_EQ(order.next(), i);
  }
  EXPECT_FALSE(order.next());
  EXPECT_EQ(begun.size(), 5u);
}

TEST(SearchOrder, ABudgetInSecondsCountsFromTheFirstResult) {
  SearchSpace space;
  for (int i = 0; i < 10; ++i) space.candidates.push_back({.variant = "v", .config = {{"block", i + 1}}});
  SearchOrder order(space,
                    {.strategy = "exhaustive", .budget = {.unit = Budget::Unit::seconds, .amount = 1e-9}}, 3);
  ASSERT_EQ(order.next(), 0u) << "before it a problem gets its buffers and its reference";
  order.tell(0, 1.0);
  EXPECT_FALSE(order.next());
}

}  // namespace
}  // namespace warptune
