// Winners with times that no device reaches: pulled, merged, on a search path, and judged before use.
#include <gtest/gtest.h>

#include <filesystem>

#include "harness/measure/impossible.h"
#include "harness/results/merge.h"
#include "harness/results/source_hash.h"
#include "harness/results/wisdom_path.h"
#include "harness/results/wisdom_store.h"
#include "variants/table.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;

const Provenance kHost{"host", "x86_64", "", "", ""}, kH200{"NVIDIA H200", "sm_90a", "580", "13.0", ""};

/// The H200 with round peaks: 1000 GB/s from memory, 10 TB/s from the L2.
DeviceFacts h200() {
  DeviceFacts facts = known_device("sm_90a");
  facts.read_gb_per_s = 1000;
  facts.l2_read_gb_per_s = 10'000;
  facts.launch_floor_us = 0.5;
  return facts;
}

class TooFast : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }

  Winner winner(double us, const std::string& run) const {
    Winner w{.problem = {"rms_norm", {{"tokens", 1}, {"hidden", 8}}, DType::fp32},
             .variant = "host_naive",
             .time_us = us,
             .run_id = run};
    w.source_hash = source_hash(Compiler(KernelSources(), {}), ops(), w);
    return w;
  }
  StepWinner step(double us, const std::string& run) const {
    StepWinner s{.step = {kStepOp, {{"batch", 1}}, DType::fp32}, .time_us = us, .alone_us = 9, .run_id = run};
    const Winner w = winner(1, run);
    s.plans.plans = {{w.problem, w.variant, {}, w.source_hash}};
    return s;
  }
  fs::path save(const std::string& name, double us, double step_us) const {
    Wisdom wisdom(kHost);
    wisdom.put(winner(us, name));
    wisdom.put(step(step_us, name));
    wisdom.save(folder_ / name / "host" / "wisdom.json");
    return folder_ / name;
  }
  static std::string runs_of(const Wisdom& wisdom) {
    std::string runs;
    for (const Winner& w : wisdom.winners()) runs += w.run_id + ' ';
    for (const StepWinner& s : wisdom.steps()) runs += s.run_id + ' ';
    return runs;
  }
  static void expect_refused(const std::set<RefusedWinner>& refused) {
    ASSERT_EQ(refused.size(), 2u);
    EXPECT_EQ(refused.begin()->winner, "rms_norm[tokens=1,hidden=8,dtype=fp32] host_naive");
    EXPECT_TRUE(refused.begin()->reason.starts_with("too_fast: a time of 1e-09 us is below the "))
        << refused.begin()->reason;
    EXPECT_TRUE(refused.begin()->reason.ends_with(" us that host can reach")) << refused.begin()->reason;
    EXPECT_NE(refused.rbegin()->winner.find("batch=1"), std::string::npos) << refused.rbegin()->winner;
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / "too_fast";
};

TEST_F(TooFast, PullRefusesItByName) {
  fs::create_directories(folder_ / "store");
  const WisdomStore store((folder_ / "store").string());
  for (const char* name : {"forged", "real"}) {
    const bool forged = name == std::string("forged");
    store.push(Wisdom::load(save(name, forged ? 1e-9 : 2, forged ? 1e-9 : 3) / "host" / "wisdom.json"));
  }
  const fs::path local = folder_ / "local.json";
  expect_refused(pull_wisdom(store, local, kHost, ops()).refused);
  EXPECT_EQ(runs_of(Wisdom::load(local)), "real real ");
}

TEST_F(TooFast, AForgedWinnerOfALocalFileGivesWay) {
  fs::create_directories(folder_ / "store");
  const WisdomStore store((folder_ / "store").string());
  store.push(Wisdom::load(save("real", 2, 3) / "host" / "wisdom.json"));
  const fs::path local = save("local", 1e-9, 1e-9) / "host" / "wisdom.json";
  expect_refused(pull_wisdom(store, local, kHost, ops()).refused);
  EXPECT_EQ(runs_of(Wisdom::load(local)), "real real ");
}

TEST_F(TooFast, MergeLeavesItOutByName) {
  const fs::path real = save("real", 2, 3), forged = save("forged", 1e-9, 1e-9);
  for (const auto& order : {std::vector{real, forged}, std::vector{forged, real}}) {
    fs::remove_all(folder_ / "all");
    expect_refused(merge_results(ops(), order, folder_ / "all").refused);
    EXPECT_EQ(runs_of(Wisdom::load(folder_ / "all" / "host" / "wisdom.json")), "real real ");
  }
  EXPECT_TRUE(merge_results(ops(), {real}, folder_ / "all").refused.empty());
}

TEST_F(TooFast, ASearchPathSkipsItByName) {
  const fs::path real = save("real", 2, 3) / "host" / "wisdom.json",
                 forged = save("forged", 1e-9, 1e-9) / "host" / "wisdom.json";
  const WisdomInUse in_use = read_wisdom(ops(), {forged, real}, kHost);
  EXPECT_EQ(runs_of(in_use.wisdom), "real real ");
  expect_refused(in_use.refused);
}

TEST_F(TooFast, EveryTimeThatAWinnerBringsCounts) {
  const double least = 1e-3;
  Winner w = winner(2, "");
  w.tied = {{"host_threaded", {}, 3}};
  w.times = {{"host_threaded", "", {}, {{{}, 4}, {{}, 5}}}};
  EXPECT_EQ(why_too_fast(w, least), "");
  EXPECT_EQ(why_too_fast(w, 2), "") << "at the limit";
  EXPECT_NE(why_too_fast(w, 2.001), "");
  for (double* us :
       {&w.time_us, &w.tied[0].time_us, &w.times[0].rows[0].time_us, &w.times[0].rows[1].time_us}) {
    const double kept = *us;
    *us = 1e-9;
    EXPECT_NE(why_too_fast(w, least), "");
    EXPECT_EQ(judge(w, kHost, {.source_hash = w.source_hash, .impossible_us = least}, StaleCode::use).use,
              Use::refused);
    *us = kept;
  }
}

TEST_F(TooFast, TheLimitIsThatOfASweepWithTheMarginOfAnotherCard) {
  const OpEntry& linear = ops().find("linear");
  Winner w{.problem = linear.op.problem({{"tokens", 1}, {"in", 4096}, {"out", 4096}}, DType::bf16),
           .variant = "naive",
           .made_on = kH200};
  const double weights = 4096.0 * 4096 * 2;
  EXPECT_NEAR(impossible_us(linear, w, h200()) * 1.04 * 1.04, weights / 1000e9 * 1e6, 0.1) << "from memory";
  w.cache = CacheMode::hot;
  EXPECT_NEAR(impossible_us(linear, w, h200()) * 1.04 * 1.04, weights / 10'000e9 * 1e6, 0.01)
      << "from the L2";
  const OpEntry& norm = ops().find("rms_norm");
  w.problem = norm.op.problem({{"tokens", 1}, {"hidden", 8}}, DType::bf16);
  EXPECT_NEAR(impossible_us(norm, w, h200()), 0.25 / 1.04 / 1.04, 1e-6) << "half of the launch floor";

  DeviceFacts another = h200();
  another.name = "NVIDIA H100";
  EXPECT_EQ(impossible_us(norm, w, another), impossible_us(norm, w)) << "peaks of another device say nothing";
  EXPECT_GT(impossible_us(norm, w), 0.1) << "no GPU launches faster";
  DeviceFacts forged = h200();
  forged.read_gb_per_s = forged.l2_read_gb_per_s = forged.vector_tflop_per_s = forged.matrix_tflop_per_s =
      1e30;
  forged.launch_floor_us = 1e-30;
  EXPECT_EQ(impossible_us(norm, w, forged), impossible_us(norm, w)) << "nor do peaks that no device has";
  w.problem.dims = {{"tokens", 1}};
  EXPECT_EQ(impossible_us(norm, w), 0) << "a problem of another program";
}

TEST_F(TooFast, ASweepKnowsTheLaunchFloorToo) {
  DeviceFacts facts;
  facts.launch_floor_us = 1.04;
  EXPECT_NEAR(impossible_us(facts, {}, {}, {}, Timing::main), 0.5, 1e-9);
}

}  // namespace
}  // namespace warptune
