#include "harness/results/wisdom_file.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness/results/staleness.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;

const Provenance kWriter{"NVIDIA H200", "sm_90a", "580.159.04", "13.0", "abc"};
const Problem kProblem{"rms_norm", {{"tokens", 1}, {"hidden", 4096}}, DType::bf16};

Winner winner(const std::string& variant, double us, std::vector<TiedConfig> tied = {}) {
  return {.problem = kProblem,
          .variant = variant,
          .config = {{"block", 64}},
          .time_us = us,
          .source_hash = "now",
          .tied = std::move(tied)};
}

/// A new run that tried these variants.
Contest tried(std::vector<std::string> variants, const std::string& hash = "now") {
  return {.tried = [=](const std::string& variant,
                       const Config&) { return std::ranges::count(variants, variant) > 0; },
          .code = [=](const Winner&) { return CodeNow{hash}; }};
}

class Replacement : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove(path_);
    put_winner(path_, kWriter, winner("fast", 39.1, {{"rival", {{"block", 64}}, 39.2}}),
               tried({"fast", "rival"}));
  }
  Winner now() const {
    const Wisdom wisdom = Wisdom::load(path_);
    EXPECT_EQ(wisdom.winners().size(), 1u);
    return wisdom.winners().front();
  }
  const fs::path path_ = fs::path(::testing::TempDir()) / "replacement.json";
};

TEST_F(Replacement, AChoiceWithoutTheWinnerDoesNotReplaceAFasterOne) {
  const auto stays = put_winner(path_, kWriter, winner("host_naive", 140), tried({"host_naive"}));
  ASSERT_TRUE(stays);
  EXPECT_EQ(stays->variant, "fast");
  EXPECT_EQ(now().variant, "fast");
  EXPECT_EQ(now().tied.size(), 1u);
}

TEST_F(Replacement, AFasterOneWins) {
  EXPECT_FALSE(put_winner(path_, kWriter, winner("faster", 30), tried({"faster"})));
  EXPECT_EQ(now().variant, "faster");
  EXPECT_TRUE(now().tied.empty());
}

TEST_F(Replacement, AChoiceThatIncludedTheWinnerReplacesIt) {
  EXPECT_FALSE(put_winner(path_, kWriter, winner("other", 45), tried({"fast", "other"})));
  EXPECT_EQ(now().time_us, 45);
}

TEST_F(Replacement, AStaleOneIsReplaced) {
  EXPECT_FALSE(put_winner(path_, kWriter, winner("other", 140), tried({"other"}, "edited since")));
  EXPECT_EQ(now().variant, "other");
  Provenance here = kWriter;
  here.driver = "600.1";
  EXPECT_FALSE(put_winner(path_, here, winner("third", 150), tried({"third"})));
  EXPECT_EQ(now().variant, "third");
  here.toolkit = "14.0";
  EXPECT_FALSE(put_winner(path_, here, winner("fourth", 160), tried({"fourth"})));
  EXPECT_EQ(now().variant, "fourth");
}

TEST_F(Replacement, TheSameConfigurationKeepsUntriedTies) {
  EXPECT_FALSE(put_winner(path_, kWriter, winner("fast", 40), tried({"fast"})));
  EXPECT_EQ(now().time_us, 40);
  ASSERT_EQ(now().tied.size(), 1u);
  EXPECT_EQ(now().tied[0].variant, "rival");
  EXPECT_FALSE(put_winner(path_, kWriter, winner("fast", 39), tried({"fast", "rival"})));
  EXPECT_TRUE(now().tied.empty()) << "the rival was tried and is not tied any more";
}

TEST_F(Replacement, TheTimesOfBothAreKept) {
  const auto with_times = [](Winner of, std::int64_t block, double us) {
    of.times = {{"ring", "now", {"block"}, {{{block}, us}}}};
    return of;
  };
  EXPECT_FALSE(put_winner(path_, kWriter, with_times(winner("fast", 39), 64, 41), tried({"fast"})));
  EXPECT_TRUE(put_winner(path_, kWriter, with_times(winner("slow", 80), 128, 42), tried({"slow"})));
  const std::vector<VariantTimes> both = {{"ring", "now", {"block"}, {{{64}, 41}, {{128}, 42}}}};
  EXPECT_EQ(now().variant, "fast");
  EXPECT_EQ(now().times, both) << "also where the winner stays";
  EXPECT_FALSE(put_winner(path_, kWriter, with_times(winner("faster", 30), 64, 40), tried({"faster"})));
  EXPECT_EQ(now().variant, "faster");
  EXPECT_EQ(now().times.at(0).rows.at(0).time_us, 40) << "the new time of what was timed again";
  EXPECT_EQ(now().times.at(0).rows.size(), 2u);
}

TEST_F(Replacement, OneWithoutCompetitorsReplacesNothing) {
  EXPECT_TRUE(add_winner(path_, kWriter, winner("fast", 30)));
  EXPECT_EQ(now().time_us, 39.1);
  EXPECT_EQ(now().tied.size(), 1u);
  Winner other = winner("fast", 30);
  other.problem.dims.set("tokens", 2);
  EXPECT_FALSE(add_winner(path_, kWriter, other));
  EXPECT_EQ(Wisdom::load(path_).winners().size(), 2u);
}

TEST_F(Replacement, OtherDevicesKeepTheirWinners) {
  Provenance here = kWriter;
  here.device = "NVIDIA H100";
  EXPECT_FALSE(put_winner(path_, here, winner("other", 140), tried({"other"})));
  EXPECT_EQ(Wisdom::load(path_).winners().size(), 2u);
}

TEST_F(Replacement, AHotOneNeverReplacesAColdOne) {
  Winner hot = winner("faster", 10);
  hot.cache = CacheMode::hot;
  const auto stays = put_winner(path_, kWriter, hot, tried({"fast", "faster"}));
  ASSERT_TRUE(stays);
  EXPECT_EQ(stays->variant, "fast");
  EXPECT_TRUE(put_winner(path_, kWriter, hot, tried({"faster"}, "edited since")))
      << "though the cold one is stale";
  EXPECT_EQ(now().variant, "fast");
}

TEST_F(Replacement, AColdOneAlwaysReplacesAHotOne) {
  Winner hot = winner("hot", 10);
  hot.cache = CacheMode::hot;
  hot.problem.dims.set("tokens", 2);
  hot.times = {{"ring", "now", {"block"}, {{{64}, 9}}}};
  EXPECT_FALSE(put_winner(path_, kWriter, hot, tried({"hot"})));
  Winner cold = hot;
  cold.variant = "cold";
  cold.time_us = 20;
  cold.cache = CacheMode::cold;
  cold.times = {{"ring", "now", {"block"}, {{{128}, 21}}}};
  EXPECT_FALSE(put_winner(path_, kWriter, cold, tried({"cold"})));
  const Wisdom wisdom = Wisdom::load(path_);
  EXPECT_EQ(wisdom.winner_on(cold.problem, kWriter.device)->variant, "cold");
  EXPECT_EQ(wisdom.winner_on(cold.problem, kWriter.device)->times, cold.times) << "not the hot times";
}

TEST_F(Replacement, OneThatIsImpossiblyFastIsReplacedWithItsTimes) {
  Winner forged = winner("fast", 39);
  forged.times = {{"ring", "now", {"block"}, {{{64}, 1e-9}}}};
  EXPECT_FALSE(put_winner(path_, kWriter, forged, tried({"fast"})));
  Contest contest = tried({"slow"});
  contest.code = [](const Winner&) { return CodeNow{.source_hash = "now", .impossible_us = 1}; };
  EXPECT_FALSE(put_winner(path_, kWriter, winner("slow", 140), contest));
  EXPECT_EQ(now().variant, "slow");
  EXPECT_TRUE(now().times.empty());
}

TEST(Staleness, OfTwoWinnersTheColdOneIsBetter) {
  Winner hot = winner("hot", 1);
  hot.cache = CacheMode::hot;
  EXPECT_FALSE(is_better(hot, false, winner("cold", 2), true));
  EXPECT_TRUE(is_better(winner("cold", 2), true, hot, false));
}

TEST(Staleness, OfTwoWinnersTheFreshThenTheFasterIsBetter) {
  const Winner fast = winner("fast", 1), slow = winner("slow", 2);
  EXPECT_TRUE(is_better(fast, false, slow, false));
  EXPECT_FALSE(is_better(slow, false, fast, false));
  EXPECT_TRUE(is_better(slow, false, fast, true));
  EXPECT_FALSE(is_better(fast, true, slow, false));
  EXPECT_TRUE(is_better(fast, true, slow, true));
}

}  // namespace
}  // namespace warptune
