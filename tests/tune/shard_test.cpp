// The work of a sweep divided among nodes and devices, and its results merged.
#include <gtest/gtest.h>

#include <set>

#include "harness/core/error.h"
#include "harness/device/device.h"
#include "harness/results/journal.h"
#include "harness/results/wisdom.h"
#include "harness/tune/schedule.h"
#include "harness/tune/tune.h"
#include "tests/program.h"
#include "tests/tune/candidate.h"
#include "variants/table.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::first_rows;
using testing::fresh_folder;
using testing::host_sweep;
using testing::run_shell;
using testing::statuses;

TEST(Shard, Text) {
  EXPECT_EQ(parse_shard("2/8").index, 2);
  EXPECT_EQ(parse_shard("2/8").count, 8);
  for (const char* wrong : {"", "2", "0/2", "3/2", "1/", "/2", "1/2x", "a/b", "-1/2"})
    EXPECT_THROW(parse_shard(wrong), InputError) << wrong;
}

TEST(Shard, ShardsCoverTheSweepInAboutEqualSizes) {
  std::vector<SweepItem> items;
  for (int i = 0; i < 10; ++i)
    items.push_back({.problem = {"op", {{"n", i}}, DType::fp32}, .options = {}, .choices = {}, .where = {}});
  const Variant variant{.name = "v", .idea = ""};
  std::vector<ScheduledProblem> problems;
  for (const SweepItem& item : items) {
    auto& p =
        problems.emplace_back(ScheduledProblem{.item = &item, .counts = {{&variant}}, .candidates = {}});
    for (int i = 0; i < 100; ++i) p.candidates.push_back(testing::candidate(variant, {{"block", i}}));
  }
  std::map<std::string, int> seen;
  for (int shard = 1; shard <= 4; ++shard) {
    std::size_t size = 0;
    for (const ScheduledProblem& p : keep_shard(problems, {shard, 4})) {
      for (const Candidate& c : p.candidates) ++seen[p.item->problem.key() + c.config().str()];
      size += p.candidates.size();
      EXPECT_EQ(p.counts[0].planned, static_cast<std::int64_t>(p.candidates.size()));
    }
    EXPECT_NEAR(static_cast<double>(size), 250, 50);
  }
  EXPECT_EQ(seen.size(), 1000u);
  for (const auto& [name, times] : seen) EXPECT_EQ(times, 1) << name;
}

TEST(Shard, DistributesWholeProblemsEvenly) {
  const SweepItem item{.problem = {}, .options = {}, .choices = {}, .where = {}};
  std::vector<ScheduledProblem> problems;
  for (const std::size_t size : {10u, 90u, 40u, 50u, 0u})
    problems.push_back({.item = &item,
                        .counts = {},
                        .candidates = std::vector<Candidate>(size, testing::candidate({}, {}))});
  const auto shares = distribute(problems, 2);
  ASSERT_EQ(shares.size(), 2u);
  std::size_t total = 0;
  for (const auto& share : shares) {
    std::size_t work = 0;
    for (const auto& p : share) work += p.candidates.size();
    EXPECT_NEAR(static_cast<double>(work), 95, 5);
    total += share.size();
  }
  EXPECT_EQ(total, 5u);
  EXPECT_EQ(distribute(problems, 8).size(), 8u);
}

TEST(Shard, TwoNodesMergeToTheCompleteSweep) {
  const fs::path folder = fresh_folder("shard_merge");
  const std::string sweep = host_sweep(folder, "{from: 8, to: 64, step: 8}", "1");
  const auto tune = [&](const std::string& out, const std::string& more) {
    const auto ended = run_shell("{} tune " + sweep + " --out " + (folder / out).string() + more);
    EXPECT_EQ(ended.code, 0) << ended.text;
  };
  tune("complete", "");
  tune("a", " --shard 1/2");
  tune("b", " --shard 2/2");
  const std::string merge = "{} merge " + (folder / "a").string() + " " + (folder / "b").string() + " " +
                            (folder / "a").string() + " -o " + (folder / "all").string();
  const auto ended = run_shell(merge);
  EXPECT_EQ(ended.code, 0) << ended.text;
  const fs::path all = folder / "all" / "host";
  const auto rows = read_csv(all / "sweep.csv");
  EXPECT_EQ(statuses(rows), statuses(read_csv(folder / "complete" / "host" / "sweep.csv")));
  EXPECT_LT(first_rows(read_csv(folder / "a" / "host" / "sweep.csv")).size(), rows.size());
  const Wisdom wisdom = Wisdom::load(all / "wisdom.json");
  EXPECT_EQ(wisdom.winners().size(), 8u);
  for (const Winner& w : wisdom.winners())
    for (const char* part : {"a", "b"}) {
      const Wisdom source = Wisdom::load(folder / part / "host" / "wisdom.json");
      if (const Winner* other = source.exact(w.problem)) {
        EXPECT_LE(w.time_us, other->time_us);
        EXPECT_TRUE(w.time_us < other->time_us || w.run_id == other->run_id);
      }
    }
  EXPECT_EQ(run_shell(merge).code, 0);  // again: nothing new
  EXPECT_EQ(read_csv(all / "sweep.csv"), rows);
  tune("all",
       "");  // the complete sweep measures nothing again, but times finalists that were in different shards
  EXPECT_EQ(first_rows(read_csv(all / "sweep.csv")), first_rows(rows));
}

TEST(Shard, MergeRefusesAFolderWithoutResults) {
  const fs::path folder = fresh_folder("shard_none");
  const std::string out = " -o " + (folder / "out").string();
  EXPECT_EQ(run_shell("{} merge " + folder.string() + out).code, 2);
  EXPECT_EQ(run_shell("{} merge /no/such/folder" + out).code, 2);
}

TEST(Devices, SeveralShareTheProblemsTheCsvAndTheWisdom) {
  const fs::path folder = fresh_folder("shard_devices");
  TuneOptions options;
  options.program = WARPTUNE_PROGRAM;
  options.device = "host,host";
  options.may_share = true;
  options.output = folder;
  options.log = std::tmpfile();
  const TuneSummary summary =
      tune(load_sweep(ops(), host_sweep(folder, "{from: 8, to: 64, step: 8}", "1")), options);
  std::fclose(options.log);
  EXPECT_TRUE(summary.unsolved.empty());
  const auto rows = first_rows(read_csv(folder / "host" / "sweep.csv"));
  EXPECT_EQ(statuses(rows).size(), 16u);
  EXPECT_NE(rows.front().at("run_id"), "");
  std::map<std::string, std::string> worker;  // a problem belongs to one of them
  for (const auto& row : rows)
    EXPECT_EQ(worker.emplace(row.at("problem"), row.at("run_id")).first->second, row.at("run_id"));
  EXPECT_EQ(Wisdom::load(folder / "host" / "wisdom.json").winners().size(), 8u);
  EXPECT_TRUE(fs::exists(folder / "host" / "device.json"));
  EXPECT_TRUE(fs::exists(folder / "host" / "device.2.json"));
}

TEST(Devices, MustExistAndBeNamedOnce) {
  const std::string tune = "{} tune " + host_sweep(fresh_folder("shard_given"), "8") + " --dry-run --device ";
  const auto twice = run_shell(tune + "host,host");
  EXPECT_EQ(twice.code, 2);
  EXPECT_NE(twice.text.find("device 'host' is given twice"), std::string::npos) << twice.text;
  EXPECT_EQ(run_shell(tune + "host,cuda:99").code, 2);
  if (cuda_device_count() > 0) GTEST_SKIP() << "there is a CUDA device";
  const auto none = run_shell(tune + "all");
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.text.find("no CUDA device was found; for the CPU say host"), std::string::npos) << none.text;
}

TEST(GpuDevices, AllShareASweep) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "fewer than two CUDA devices";
  const fs::path folder = fresh_folder("shard_gpus"), sweep = folder / "sweep.yaml";
  std::ofstream(sweep) << "sampling: {min_samples: 6, max_time: 0.02}\nops:\n  - op: rms_norm\n    dtypes: "
                          "fp32\n    problems: [{tokens: [1, 8], hidden: [1024, 2048]}]\n";
  const auto ended = run_shell("{} tune " + sweep.string() + " --device all --out " + folder.string());
  EXPECT_EQ(ended.code, 0) << ended.text;
  std::set<std::string> runs;  // one per device
  for (const auto& device : fs::directory_iterator(folder))
    if (fs::exists(device.path() / "sweep.csv"))
      for (const auto& row : first_rows(read_csv(device.path() / "sweep.csv"))) {
        EXPECT_EQ(row.at("status"), "ok") << row.at("problem");
        runs.insert(row.at("run_id"));
      }
  EXPECT_GE(runs.size(), 2u);
}

}  // namespace
}  // namespace warptune
