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

class Override : public ::testing::Test {
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

TEST_F(Override, UsesTheWinnerOfItsVariant) {
  const PlanChoice choice = choose(wisdom(), name_);
  EXPECT_EQ(choice.source, PlanSource::overridden);
  EXPECT_EQ(choice.config, pipelined(4));
  EXPECT_TRUE(refusals_.empty());
}

TEST_F(Override, DoesNotUseAWinnerThatIsRefused) {
  const PlanChoice choice = choose(wisdom("edited since"), name_);
  EXPECT_EQ(choice.source, PlanSource::overridden);
  EXPECT_EQ(choice.variant->name, "mma_pipelined");
  EXPECT_FALSE(choice.config == pipelined(4)) << choice.config.str();
  EXPECT_EQ(choose(wisdom("edited since"), name_, StaleCode::use).config, pipelined(4));
}

TEST_F(Override, DoesNotUseTheWinnerOfAnotherVariant) {
  const PlanChoice choice = choose(wisdom(), "attention_decode=split_kv");
  EXPECT_EQ(choice.variant->name, "split_kv");
  EXPECT_FALSE(choice.config.has("loads_in_flight"));
}

TEST_F(Override, TheConfigurationOfTheUserComesBeforeTheWinner) {
  const PlanChoice choice = choose(wisdom(), name_ + ":" + pipelined(2).str());
  EXPECT_EQ(choice.source, PlanSource::overridden);
  EXPECT_EQ(choice.config, pipelined(2));
}

TEST_F(Override, AConfigurationThatBreaksAConstraintIsRefusedWithItsReason) {
  Config illegal = pipelined(2);
  illegal.set("tile_kv", 1 << 20);
  const PlanChoice choice = choose(wisdom(), name_ + ":" + illegal.str());
  EXPECT_EQ(choice.source, PlanSource::exact);
  EXPECT_EQ(choice.config, pipelined(4));
  ASSERT_EQ(refusals_.size(), 1u);
  EXPECT_NE(refusals_.at(0).find("breaks"), std::string::npos) << refusals_.at(0);
  EXPECT_NE(notes_.find(problem_.key() + ": the override is not taken: 'mma_pipelined' with "),
            std::string::npos)
      << notes_;
}

TEST_F(Override, AVariantThatDoesNotRunHereIsRefused) {
  EXPECT_EQ(choose(wisdom(), "attention_decode=host_naive").source, PlanSource::exact);
  EXPECT_EQ(refusals_.at(0),
            problem_.key() + ": 'host_naive' does not run on this device or with this dtype");
}

TEST_F(Override, OfAnotherOpChangesNothing) {
  EXPECT_EQ(choose(wisdom(), "rms_norm=naive").source, PlanSource::exact);
  EXPECT_TRUE(refusals_.empty());
}

TEST_F(Override, ThatNeedsMoreThanTheDeviceHasGivesWay) {
  EXPECT_EQ(choose(wisdom(), name_, StaleCode::refuse, 1).source, PlanSource::exact);
}

TEST_F(Override, IsReadAndPrinted) {
  EXPECT_EQ(parse_plan_override(ops(), name_).str(), name_);
  const std::string whole = name_ + ":" + pipelined(4).str();
  EXPECT_EQ(parse_plan_override(ops(), whole).str(), whole);
  for (const char* text : {"", "=", "=naive", "rms_norm", "rms_norm=", "rms_norm=none", "none=naive",
                           "rms_norm=naive:", "rms_norm=naive:block"})
    EXPECT_THROW(parse_plan_override(ops(), text), InputError) << text;
}

}  // namespace
}  // namespace warptune
