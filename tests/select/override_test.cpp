// Overrides of the user: a winner that is refused, or a configuration that does not fit, is not used for
// them.
#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/select/plan_chooser.h"
#include "tests/attention_times.h"

namespace warptune {
namespace {
using testing::decode_problem;
using testing::h200;
using testing::in_waves;
using testing::pipelined;
using testing::timed;

class OverridePolicy : public ::testing::Test {
 protected:
  /// The first choice that is taken. The first `refused` ones are not.
  PlanChoice choose(const Wisdom& wisdom, const std::string& override, StaleCode stale = StaleCode::refuse,
                    std::size_t refused = 0) {
    PlanChooser chooser(ops(), h200(),
                        {.wisdom = wisdom,
                         .has_wisdom = true,
                         .stale = stale,
                         .overrides = {parse_plan_override(ops(), override)},
                         .tell = [this](const std::string& note) { notes_ += note + "\n"; }});
    PlanChoice choice;
    EXPECT_TRUE(chooser.choose(problem_, false,
                               [&](const PlanChoice& offered) { return choice = offered, refused-- == 0; }));
    refusals_ = chooser.refused();
    return choice;
  }
  /// A wisdom whose winner no default equals.
  Wisdom wisdom(const std::string& source_hash = {}) const {
    Winner winner = timed(problem_, {pipelined(4)}, in_waves);
    if (!source_hash.empty()) winner.source_hash = source_hash;
    Wisdom wisdom;
    wisdom.put(winner);
    return wisdom;
  }

  const Problem problem_ = decode_problem(16, 2048);
  const std::string name_ = "attention_decode=mma_pipelined";
  std::string notes_;
  std::map<std::size_t, std::string> refusals_;
};

TEST_F(OverridePolicy, UsesTheWinnerOfItsVariant) {
  const PlanChoice choice = choose(wisdom(), name_);
  EXPECT_EQ(choice.source, PlanSource::overridden);
  EXPECT_EQ(choice.config, pipelined(4));
  EXPECT_TRUE(refusals_.empty());
}

TEST_F(OverridePolicy, DoesNotUseAWinnerThatIsRefused) {
  const PlanChoice choice = choose(wisdom("edited since"), name_);
  EXPECT_EQ(choice.source, PlanSource::overridden);
  EXPECT_EQ(choice.variant->name, "mma_pipelined");
  EXPECT_FALSE(choice.config == pipelined(4)) << choice.config.str();
  EXPECT_EQ(choose(wisdom("edited since"), name_, StaleCode::use).config, pipelined(4));
}

TEST_F(OverridePolicy, DoesNotUseTheWinnerOfAnotherVariant) {
  const PlanChoice choice = choose(wisdom(), "attention_decode=split_kv");
  EXPECT_EQ(choice.variant->name, "split_kv");
  EXPECT_FALSE(choice.config.has("loads_in_flight"));
}

TEST_F(OverridePolicy, TheConfigurationOfTheUserComesBeforeTheWinner) {
  const PlanChoice choice = choose(wisdom(), name_ + ":" + pipelined(2).str());
  EXPECT_EQ(choice.source, PlanSource::overridden);
  EXPECT_EQ(choice.config, pipelined(2));
}

TEST_F(OverridePolicy, AConfigurationThatBreaksAConstraintIsRefusedWithItsReason) {
  Config illegal = pipelined(2);
  illegal.set("tile_kv", 1 << 20);
  const PlanChoice choice = choose(wisdom(), name_ + ":" + illegal.str());
  EXPECT_EQ(choice.source, PlanSource::exact);
  EXPECT_EQ(choice.config, pipelined(4));
  ASSERT_EQ(refusals_.size(), 1u);
  EXPECT_NE(refusals_.at(0).find("breaks"), std::string::npos) << refusals_.at(0);
  EXPECT_NE(notes_.find(problem_.key() + ": the override is not used: 'mma_pipelined' with "),
            std::string::npos)
      << notes_;
}

TEST_F(OverridePolicy, AVariantThatDoesNotRunHereIsRefused) {
  EXPECT_EQ(choose(wisdom(), "attention_decode=host_naive").source, PlanSource::exact);
  EXPECT_EQ(refusals_.at(0),
            problem_.key() + ": 'host_naive' does not run on this device or with this dtype");
}

TEST_F(OverridePolicy, OfAnotherOpChangesNothing) {
  EXPECT_EQ(choose(wisdom(), "rms_norm=naive").source, PlanSource::exact);
  EXPECT_TRUE(refusals_.empty());
}

TEST_F(OverridePolicy, ThatNeedsMoreThanTheDeviceHasGivesWay) {
  EXPECT_EQ(choose(wisdom(), name_, StaleCode::refuse, 1).source, PlanSource::exact);
}

TEST_F(OverridePolicy, IsReadAndPrinted) {
  EXPECT_EQ(parse_plan_override(ops(), name_).str(), name_);
  const std::string whole = name_ + ":" + pipelined(4).str();
  EXPECT_EQ(parse_plan_override(ops(), whole).str(), whole);
  for (const char* text : {"", "=", "=naive", "rms_norm", "rms_norm=", "rms_norm=none", "none=naive",
                           "rms_norm=naive:", "rms_norm=naive:block"})
    EXPECT_THROW(parse_plan_override(ops(), text), InputError) << text;
}

/// What may not be used although it was recorded.
class Recorded : public OverridePolicy {
 protected:
  PlanChoice choose(const Wisdom& wisdom, std::size_t refused = 0) {
    return OverridePolicy::choose(wisdom, "rms_norm=naive", StaleCode::refuse, refused);
  }
};

TEST_F(Recorded, AWinnerThatTheDeviceRefusesIsNotOfferedAgain) {
  EXPECT_EQ(choose(wisdom()).config, pipelined(4));
  const PlanChoice next = choose(wisdom(), 1);
  EXPECT_NE(next.source, PlanSource::nearest);
}

TEST_F(Recorded, AWinnerWithoutAParameterOfItsVariantIsNotUsed) {
  Winner winner = timed(problem_, {pipelined(4)}, in_waves);
  winner.config = {};
  for (const auto& entry : pipelined(4))
    if (entry.name != "pdl") winner.config.set(entry.name, entry.value, entry.label);
  Wisdom wisdom;
  wisdom.put(winner);
  EXPECT_NE(choose(wisdom).source, PlanSource::exact);
  EXPECT_NE(notes_.find("'mma_pipelined' now has a parameter 'pdl'"), std::string::npos) << notes_;
}

TEST_F(Recorded, TheStepOfAnotherArchitectureIsNotUsed) {
  const Problem step{kStepOp, {{"batch", 16}}, DType::bf16};
  const Winner winner = timed(problem_, {pipelined(4)}, in_waves);
  for (const bool here : {true, false}) {
    StepWinner tuned{.step = step, .time_us = 9, .alone_us = 10, .made_on = winner.made_on};
    if (!here) tuned.made_on.arch = "sm_80";
    tuned.plans.plans = {{problem_, winner.variant, pipelined(8), winner.source_hash}};
    Wisdom wisdom;
    wisdom.put(winner);
    wisdom.put(tuned);
    PlanChooser chooser(
        ops(), h200(),
        {.wisdom = wisdom, .has_wisdom = true, .tell = [this](const std::string& note) { notes_ += note; }});
    chooser.enter_step(step);
    EXPECT_EQ(chooser.step() != nullptr, here);
    EXPECT_EQ(notes_, "");
    StepPlans fixed;
    fixed.plans = {{problem_, winner.variant, pipelined(2), winner.source_hash}};
    chooser.fix_step(fixed);
    chooser.enter_step(step);
    ASSERT_NE(chooser.step(), nullptr);
    EXPECT_EQ(chooser.step()->plans[0].config, pipelined(2)) << "comes before the step of the wisdom";
  }
}

TEST_F(Recorded, TheFastestConfigurationsAreNotThoseOfARefusedWinner) {
  const auto count = [&](const Wisdom& wisdom) {
    return PlanChooser(ops(), h200(), {.wisdom = wisdom, .has_wisdom = true}).fastest(problem_, 9).size();
  };
  EXPECT_EQ(count(wisdom()), 1u);
  EXPECT_EQ(count(wisdom("edited since")), 0u);
}

/// Lengths of sequences change only data: their winner is used where the problem itself has none.
TEST_F(Recorded, TheWinnerOfTheSameDataComesFirst) {
  Problem uneven = problem_;
  uneven.dims.set("uneven", 1, "yes");
  const auto config_of = [&](const Wisdom& wisdom) {
    const PlanOptions options{.wisdom = wisdom, .has_wisdom = true};
    const TunedPlans tuned(ops(), h200(), options);
    const auto match = tuned.match(uneven);
    return match.winner ? match.winner->config : Config{};
  };
  Wisdom both = wisdom();
  EXPECT_EQ(config_of(both), pipelined(4));
  both.put(timed(uneven, {pipelined(2)}, in_waves));
  EXPECT_EQ(config_of(both), pipelined(2));
}

}  // namespace
}  // namespace warptune
