// The output and exit code of `regret`.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/core/space.h"
#include "tests/attention_times.h"
#include "tests/program.h"
#include "tests/sweep_rows.h"

namespace warptune {
namespace {
using testing::decode_problem;
using testing::in_waves;
using testing::pipelined;
using testing::run_shell;

class RegretCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    Wisdom wisdom;
    for (const std::int64_t context : {1024, 4096})
      for (const std::int64_t batch : {12, 14, 16})
        wisdom.put(testing::timed(decode_problem(batch, context), {pipelined(1), pipelined(2)}, in_waves));
    wisdom.save(folder_ / "wisdom.json");
  }
  testing::Fields row(const Config& config, double us, const std::string& detail = "") const {
    return testing::sweep_fields({{"device", "NVIDIA H200"},
                                  {"arch", "sm_90a"},
                                  {"op", "attention_decode"},
                                  {"problem", decode_problem(16, 2048).key()},
                                  {"variant", "mma_pipelined"},
                                  {"config", config.str()},
                                  {"detail", detail},
                                  {"time_us", fmt::format("{}", us)}});
  }
  testing::Ended regret(const std::vector<testing::Fields>& rows, const std::string& options = "") const {
    return run_shell("{} regret " + testing::write_sweep("regret.csv", rows).string() + " --wisdom " +
                     (folder_ / "wisdom.json").string() + " " + options);
  }
  const std::filesystem::path folder_ = testing::fresh_folder("regret");
};

TEST_F(RegretCommand, ComparesTheChoiceWithTheBest) {
  const auto near = regret({row(pipelined(1), 102), row(pipelined(2), 100)});
  EXPECT_EQ(near.code, 0) << near.text;
  EXPECT_NE(near.text.find("predicted   102.000 us  mma_pipelined " + pipelined(1).str()), std::string::npos)
      << near.text;
  EXPECT_NE(near.text.find("1 problems, mean regret 2.00 % (at most 3 %), worst 2.00 % (at most 8 %): met"),
            std::string::npos)
      << near.text;
  EXPECT_EQ(regret({row(pipelined(1), 102), row(pipelined(2), 100)}, "--mean 1").code, 1);
  const auto far = regret({row(pipelined(1), 110), row(pipelined(2), 100)}, "--mean 50");
  EXPECT_EQ(far.code, 1);
  EXPECT_NE(far.text.find("worst 10.00 % (at most 8 %): not met"), std::string::npos) << far.text;
}

TEST_F(RegretCommand, FinalistsAreComparedWithFinalists) {
  const auto ended = regret({row(pipelined(1), 120), row(pipelined(2), 90),
                             row(pipelined(1), 101, "finalist 1"), row(pipelined(2), 100, "finalist 2")});
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_NE(ended.text.find("worst 1.00 %"), std::string::npos) << ended.text;
}

TEST_F(RegretCommand, AnUntimedChoiceFailsTheLimits) {
  const auto ended = regret({row(pipelined(4), 100)});
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.text.find("1 choices not timed: not met"), std::string::npos) << ended.text;
}

TEST_F(RegretCommand, AParameterThatIsOffInTheWholeSearchIsJudgedAsOff) {
  const auto off = [](std::int64_t splits) {
    Config config = pipelined(splits);
    config.set("pdl", 0);
    return config;
  };
  const auto older = regret({row(off(1), 101), row(off(2), 100)});
  EXPECT_EQ(older.code, 0) << older.text;
  EXPECT_NE(older.text.find("101.000 us  mma_pipelined " + off(1).str()), std::string::npos) << older.text;
  const auto both = regret({row(off(1), 101), row(pipelined(2), 100)});
  EXPECT_EQ(both.code, 1);
  EXPECT_NE(both.text.find("1 choices not timed: not met"), std::string::npos) << both.text;
}

/// A winner of a variant that is younger than the search becomes the fastest of the others, unless only one
/// of several was timed.
TEST_F(RegretCommand, AVariantThatTheSearchDidNotTryIsLeftOut) {
  Wisdom wisdom = Wisdom::load(folder_ / "wisdom.json");
  const Config config = parse_config(find_op("attention_decode").variant("mma_direct"),
                                     "splits=4,warps=8,warps_per_sm=8,tile_kv=32,combine=ll,pdl=1");
  for (const Winner& older : std::vector(wisdom.winners())) {
    const auto time = [](const Problem&, const Config&) { return 20; };
    Winner younger = testing::timed(older.problem, {config}, time, "mma_direct");
    younger.times.insert(younger.times.end(), older.times.begin(), older.times.end());
    wisdom.put(younger);
  }
  wisdom.save(folder_ / "wisdom.json");
  const std::string predicted = "predicted   102.000 us  mma_pipelined " + pipelined(1).str();
  const auto ended = regret({row(pipelined(1), 102), row(pipelined(2), 100)});
  EXPECT_NE(ended.text.find(predicted), std::string::npos) << ended.text;
  auto other = row(pipelined(1), 101);
  other.insert_or_assign("variant", "split_kv");
  other.insert_or_assign("config", "unroll=4,stages=1,splits=1,combine=kernel,pdl=1");
  const auto several = regret({row(pipelined(1), 102), row(pipelined(2), 100), other});
  EXPECT_EQ(several.text.find("predicted"), std::string::npos) << several.text;
}

TEST_F(RegretCommand, ASweepWithoutColdTimesIsBadInput) {
  auto failed = row(pipelined(1), 1);
  failed.insert_or_assign("status", "crash");
  const auto ended = regret({failed});
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.text.find("has no time of a cold configuration"), std::string::npos) << ended.text;
  EXPECT_EQ(run_shell("{} regret /no/such.csv --wisdom " + (folder_ / "wisdom.json").string()).code, 2);
  auto odd = row(pipelined(1), 1);
  odd.insert_or_assign("problem", "attention");
  EXPECT_EQ(regret({odd}).code, 2);
}

}  // namespace
}  // namespace warptune
