#include "llama/plan_chooser.h"

#include <gtest/gtest.h>

#include "attention_times.h"

namespace warptune {
namespace {
using testing::decode_problem;
using testing::h200;
using testing::in_waves;
using testing::ring;
using testing::timed;

/// Around batch 16 and context 2048. One split is always the fastest.
Wisdom neighbours() {
  Wisdom wisdom;
  for (const std::int64_t context : {1024, 4096})
    for (const std::int64_t batch : {12, 14, 16})
      wisdom.put(timed(decode_problem(batch, context), {ring(1), ring(2)}, in_waves));
  return wisdom;
}

class Chosen : public ::testing::Test {
 protected:
  PlanChoice first(const Wisdom& wisdom) { return first(wisdom, problem_); }
  PlanChoice first(const Wisdom& wisdom, const Problem& problem, std::vector<PlanOverride> overrides = {}) {
    PlanChooser chooser(h200(), {.wisdom = wisdom,
                                 .has_wisdom = true,
                                 .overrides = std::move(overrides),
                                 .tell = [this](const std::string& note) { notes_ += note + "\n"; }});
    expected_us_ = chooser.expected_us(problem);
    PlanChoice choice;
    EXPECT_TRUE(
        chooser.choose(problem, false, [&](const PlanChoice& offered) { return choice = offered, true; }));
    return choice;
  }
  const Problem problem_ = decode_problem(16, 2048);
  std::string notes_;
  std::optional<double> expected_us_;
};

TEST_F(Chosen, AnOverrideBeforeAll) {
  const PlanChoice choice =
      first(neighbours(), problem_, {parse_plan_override("attention_decode=split_seq")});
  EXPECT_EQ(choice.source, PlanSource::overridden);
  EXPECT_EQ(choice.variant->name, "split_seq");
  EXPECT_EQ(notes_, "");
}

TEST_F(Chosen, TheWinnerOfTheProblemBeforeAPrediction) {
  Wisdom wisdom = neighbours();
  wisdom.put(timed(problem_, {ring(4)}, [](const Problem&, const Config&) { return 77; }));
  const PlanChoice choice = first(wisdom);
  EXPECT_EQ(choice.source, PlanSource::tuned);
  EXPECT_EQ(choice.config, ring(4));
  EXPECT_EQ(expected_us_, 77);
  EXPECT_EQ(notes_, "");
}

TEST_F(Chosen, APredictionBeforeTheNearestWinner) {
  const PlanChoice choice = first(neighbours());
  EXPECT_EQ(choice.source, PlanSource::predicted);
  EXPECT_EQ(choice.config, ring(1));
  EXPECT_NEAR(expected_us_.value_or(0), in_waves(problem_, ring(1)), 2);
  EXPECT_EQ(notes_, problem_.key() + ": takes 'mma_ring' with " + ring(1).str() +
                        ", the fastest by the times of tuned problems\n");
}

TEST_F(Chosen, TheNearestWinnerBeforeADefault) {
  Wisdom wisdom;
  const Wisdom timed_ones = neighbours();
  for (Winner winner : timed_ones.winners()) {
    winner.times.clear();
    wisdom.put(winner);
  }
  EXPECT_EQ(first(wisdom).source, PlanSource::nearest);
  EXPECT_EQ(first(wisdom, decode_problem(16, 65536)).source, PlanSource::fallback);
}

TEST_F(Chosen, APredictionWhereNoWinnerIsNear) {
  const Problem problem = decode_problem(16, 2048, 28, 7);  // other heads, though as many per group
  const PlanChoice choice = first(neighbours(), problem);
  EXPECT_EQ(choice.source, PlanSource::predicted);
  EXPECT_TRUE(expected_us_);
}

TEST_F(Chosen, APredictionWhereTheWinnerIsRefused) {
  Wisdom wisdom = neighbours();
  Winner stale = timed(problem_, {ring(4)}, in_waves);
  stale.source_hash = "edited since";
  wisdom.put(stale);
  EXPECT_EQ(first(wisdom).source, PlanSource::predicted);
  EXPECT_NE(expected_us_, stale.time_us);
  EXPECT_NE(notes_.find("the wisdom is not taken: tuned on other sources of its kernels"), std::string::npos)
      << notes_;
}

TEST_F(Chosen, WhatWasMeasuredBeforeWhatIsPromised) {
  const auto prefers = [&](std::optional<double> whole, std::vector<std::optional<double>> parts) {
    Wisdom wisdom = neighbours();  // they promise some 70 us for batches near 16
    const auto problem = [&](std::int64_t batch, std::optional<double> us) {
      const Problem p = decode_problem(batch, 2048);
      if (us) wisdom.put(timed(p, {ring(1)}, [&](const Problem&, const Config&) { return *us; }));
      return p;
    };
    const Problem all = problem(16, whole);
    std::vector<Problem> of_parts;
    for (const auto& us : parts) of_parts.push_back(problem(12 + std::ssize(of_parts), us));
    return PlanChooser(h200(), {.wisdom = wisdom, .has_wisdom = true}).prefers(all, of_parts);
  };
  EXPECT_TRUE(prefers(10, {6, 6}));
  EXPECT_FALSE(prefers(13, {6, 6}));
  EXPECT_TRUE(prefers(1e6, {6, {}}));
  EXPECT_FALSE(prefers({}, {1e6, 1e6}));
  EXPECT_TRUE(prefers({}, {{}, {}}));  // one promise against two
}

TEST_F(Chosen, TimesOfOtherSourcesOrDevicesPredictNothing) {
  const auto changed = [](const std::function<void(Winner&)>& change) {
    const Wisdom before = neighbours();
    Wisdom wisdom;
    for (Winner winner : before.winners()) {
      change(winner);
      wisdom.put(winner);
    }
    return wisdom;
  };
  EXPECT_EQ(first(changed([](Winner& w) { w.times[0].source_hash = "edited since"; })).source,
            PlanSource::nearest);
  EXPECT_EQ(first(changed([](Winner& w) { w.cache = CacheMode::hot; })).source, PlanSource::nearest);
  EXPECT_EQ(first(changed([](Winner& w) { w.made_on.arch = "sm_80"; })).source, PlanSource::fallback);
}

}  // namespace
}  // namespace warptune
