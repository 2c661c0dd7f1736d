// The rules by which winners of several files become one wisdom.
#include "harness/results/wisdom_merge.h"

#include <gtest/gtest.h>

#include "harness/results/source_hash.h"
#include "variants/table.h"

namespace warptune {
namespace {

using Rows = std::vector<VariantTimes::Row>;

class WisdomMerging : public ::testing::Test {
 protected:
  Winner winner(const std::string& run, double us) const {
    Winner w{.problem = {"rms_norm", {{"tokens", 1}, {"hidden", 8}}, DType::fp32},
             .variant = "host_naive",
             .time_us = us,
             .run_id = run,
             .made_on = here_};
    w.source_hash = source_hash(Compiler(KernelSources(), {}), ops(), w);
    return w;
  }
  Winner stale(const std::string& run, double us) const {
    Winner w = winner(run, us);
    w.source_hash = "edited since";
    return w;
  }
  Winner hot(const std::string& run, double us) const {
    Winner w = winner(run, us);
    w.cache = CacheMode::hot;
    return w;
  }
  StepWinner step(const std::string& run, double us, const std::vector<std::string>& hashes) const {
    StepWinner s{.step = {kStepOp, {{"batch", 1}}, DType::fp32},
                 .time_us = us,
                 .alone_us = 9,
                 .run_id = run,
                 .made_on = here_};
    for (const std::string& hash : hashes)
      s.plans.plans.push_back({winner("", 1).problem, "host_naive", {}, hash});
    return s;
  }
  std::string now() const { return winner("", 1).source_hash; }

  /// The run whose winner is kept, and whether each add() said that it changed something: "b+-".
  template <class AnyWinner>
  std::string merged(const std::vector<AnyWinner>& winners, Prefer prefer = Prefer::faster) {
    WisdomMerge merge(judge_, here_, prefer);
    wisdom_ = Wisdom(here_);
    std::string said;
    for (const AnyWinner& w : winners) said += merge.add(wisdom_, w) ? '+' : '-';
    if constexpr (std::is_same_v<AnyWinner, Winner>)
      return wisdom_.winners().at(0).run_id + said;
    else
      return wisdom_.steps().at(0).run_id + said;
  }
  /// The kept winner's times of "host_threaded".
  Rows rows_of(const std::vector<Winner>& winners) {
    merged(winners);
    for (const VariantTimes& times : wisdom_.winners().at(0).times)
      if (times.variant == "host_threaded") return times.rows;
    return {};
  }

  const Provenance here_{"host", "x86_64", "", "", "abc"};
  const WinnerJudge judge_{ops()};
  Wisdom wisdom_;
};

TEST_F(WisdomMerging, TheFasterWins) {
  EXPECT_EQ(merged<Winner>({winner("a", 2), winner("b", 1)}), "b++");
  EXPECT_EQ(merged<Winner>({winner("b", 1), winner("a", 2)}), "b+-");
  EXPECT_EQ(merged<Winner>({winner("a", 1), winner("b", 1)}), "a+-") << "equal times";
  EXPECT_EQ(merged<Winner>({winner("a", 1), winner("a", 1)}), "a+-") << "the same winner";
}

TEST_F(WisdomMerging, TheEarlierWinsOnASearchPath) {
  EXPECT_EQ(merged<Winner>({winner("a", 2), winner("b", 1)}, Prefer::first), "a+-");
  EXPECT_EQ(merged<Winner>({stale("a", 1), winner("b", 2)}, Prefer::first), "b++");
  EXPECT_EQ(merged<Winner>({hot("a", 1), winner("b", 2)}, Prefer::first), "b++");
  EXPECT_EQ(merged<StepWinner>({step("a", 2, {now()}), step("b", 1, {now()})}, Prefer::first), "a+-");
}

TEST_F(WisdomMerging, FreshBeforeStaleAndColdBeforeHot) {
  EXPECT_EQ(merged<Winner>({stale("a", 1), winner("b", 2)}), "b++");
  EXPECT_EQ(merged<Winner>({winner("b", 2), stale("a", 1)}), "b+-");
  EXPECT_EQ(merged<Winner>({stale("a", 2), stale("b", 1)}), "b++");
  EXPECT_EQ(merged<Winner>({hot("a", 1), stale("b", 2)}), "b++");
  EXPECT_EQ(merged<Winner>({stale("b", 2), hot("a", 1)}), "b+-");
  EXPECT_EQ(merged<Winner>({hot("a", 2), hot("b", 1)}), "b++");
}

TEST_F(WisdomMerging, OtherDevicesAndProblemsStayApart) {
  Winner elsewhere = winner("b", 1), other = winner("c", 1);
  elsewhere.made_on.device = "another";
  other.problem.dims.set("hidden", 16);
  EXPECT_EQ(merged<Winner>({winner("a", 2), elsewhere, other}), "a+++");
  EXPECT_EQ(wisdom_.winners().size(), 3u);
}

TEST_F(WisdomMerging, AStepIsReplacedByABetterOneOnly) {
  EXPECT_EQ(merged<StepWinner>({step("a", 2, {now()}), step("b", 1, {now()})}), "b++");
  EXPECT_EQ(merged<StepWinner>({step("b", 1, {now()}), step("a", 2, {now()})}), "b+-");
  EXPECT_EQ(merged<StepWinner>({step("a", 1, {"edited since"}), step("b", 2, {now()})}), "b++");
  EXPECT_EQ(merged<StepWinner>({step("b", 2, {now()}), step("a", 1, {"edited since"})}), "b+-");
}

TEST_F(WisdomMerging, EachPlanOfAStepIsJudged) {
  EXPECT_EQ(judge_.judged(step("", 1, {now(), now()}), here_).use, Use::yes);
  for (const auto& hashes :
       {std::vector<std::string>{"edited", now()}, {now(), "edited"}, {"edited", "edited"}}) {
    const Judgement judgement = judge_.judged(step("", 1, hashes), here_);
    EXPECT_EQ(judgement.use, Use::refused);
    EXPECT_EQ(judgement.refusals.size(), static_cast<std::size_t>(std::ranges::count(hashes, "edited")));
  }
  Provenance newer = here_;
  newer.toolkit = "99";
  const Judgement warned = judge_.judged(step("", 1, {now(), now()}), newer);
  EXPECT_EQ(warned.use, Use::warned);
  EXPECT_EQ(warned.warnings.size(), 2u);
  EXPECT_EQ(merged<StepWinner>({step("a", 1, {"edited since", now()}), step("b", 2, {now(), now()})}), "b++")
      << "its first plan is stale";
}

TEST_F(WisdomMerging, AStepWithoutPlansIsRefused) {
  EXPECT_EQ(judge_.judged(step("", 1, {}), here_).use, Use::refused);
  EXPECT_EQ(judge_.why_impossible(step("", 1, {})), "the step has no plans");
  EXPECT_EQ(merged<StepWinner>({step("a", 2, {now()}), step("b", 1, {})}), "a+-");
}

TEST_F(WisdomMerging, TheTimesOfBothAreKeptOfTheWinnerFirst) {
  Winner fast = winner("fast", 1), slow = winner("slow", 2);
  fast.times = {{"host_threaded", "h", {"threads"}, {{{1}, 5}, {{2}, 6}}}};
  slow.times = {{"host_threaded", "h", {"threads"}, {{{2}, 7}, {{4}, 8}}}, {"other", "o", {}, {{{}, 9}}}};
  const Rows both = {{{1}, 5}, {{2}, 6}, {{4}, 8}};
  EXPECT_EQ(rows_of({fast, slow}), both);
  EXPECT_EQ(wisdom_.winners().at(0).times.at(1), slow.times.at(1));
  EXPECT_EQ(rows_of({slow, fast}), both);
  EXPECT_EQ(wisdom_.winners().at(0).run_id, "fast");
}

TEST_F(WisdomMerging, TimesOfAnotherCacheStateAreNotMixedIn) {
  Winner cold = winner("cold", 2), warm = hot("warm", 1);
  cold.times = {{"host_threaded", "h", {"threads"}, {{{1}, 5}}}};
  warm.times = {{"host_threaded", "h", {"threads"}, {{{2}, 1}}}, {"other", "o", {}, {{{}, 1}}}};
  for (const auto& order : {std::vector{cold, warm}, std::vector{warm, cold}}) {
    EXPECT_EQ(rows_of(order), (Rows{{{1}, 5}}));
    EXPECT_EQ(wisdom_.winners().at(0).times.size(), 1u);
  }
}

TEST_F(WisdomMerging, TimesOfOtherParametersOrSourcesAreNotMixedIn) {
  Winner kept = winner("kept", 1), parameters = winner("parameters", 2), sources = winner("sources", 2);
  kept.times = {{"host_threaded", "h", {"threads"}, {{{1}, 5}}}};
  parameters.times = {{"host_threaded", "h", {"blocks"}, {{{2}, 6}}}};
  sources.times = {{"host_threaded", "other", {"threads"}, {{{4}, 7}}}};
  EXPECT_EQ(rows_of({kept, parameters, sources}), (Rows{{{1}, 5}}));
  EXPECT_EQ(rows_of({sources, parameters, kept}), (Rows{{{1}, 5}}));
}

TEST_F(WisdomMerging, AllOfAFileIsAdded) {
  Wisdom file(here_);
  file.put(winner("a", 1));
  file.put(step("s", 1, {now()}));
  WisdomMerge merge(judge_, here_);
  Wisdom into(here_);
  merge.add(into, file);
  EXPECT_EQ(into.to_json(), file.to_json());
}

TEST_F(WisdomMerging, AVariantThatIsUnknownIsStale) {
  Winner unknown = winner("a", 1);
  unknown.variant = "of another program";
  EXPECT_EQ(judge_.judged(unknown, here_).use, Use::refused);
  unknown.problem.op = "no_such_op";
  EXPECT_EQ(judge_.judged(unknown, here_).use, Use::refused);
  EXPECT_EQ(judge_.why_impossible(unknown), "") << "what it takes is not known";
}

}  // namespace
}  // namespace warptune
