#include "harness/search/strategy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "harness/core/error.h"
#include "harness/search/budget.h"
#include "harness/search/search_order.h"
#include "harness/search/simulate.h"

namespace warptune {
namespace {

/// Two variants of 5 * 5 * 5 * 2 configurations; the best is block=256,unroll=4,stages=3,pdl=1 of "b".
RecordedSpace bowl() {
  RecordedSpace r{.problem = "bowl"};
  for (const char* variant : {"a", "b"})
    for (int block = 5; block < 10; ++block)
      for (int unroll = 0; unroll < 5; ++unroll)
        for (int stages = 1; stages < 6; ++stages)
          for (int pdl = 0; pdl < 2; ++pdl) {
            r.space.candidates.push_back(
                {variant,
                 {{"block", 1 << block}, {"unroll", 1 << unroll}, {"stages", stages}, {"pdl", pdl}}});
            const double far =
                std::pow(block - 8, 2) + std::pow(unroll - 2, 2) + std::pow(stages - 3, 2) + (pdl ? 0 : 0.5);
            r.times_us.push_back((*variant == 'a' ? 15 : 10) * (1 + 0.05 * far));
          }
  r.best_us = 10;
  return r;
}

/// All but `command`, which is another program.
std::vector<std::string> own_strategies() {
  std::vector<std::string> names = strategy_names();
  std::erase(names, "command");
  return names;
}

std::vector<double> found(const RecordedSpace& r, const std::string& name, std::uint64_t seed,
                          std::size_t evaluations, int ahead = 1) {
  return convergence(r,
                     {.strategy = name,
                      .budget = {Budget::Unit::evaluations, static_cast<double>(evaluations)},
                      .seed = seed},
                     ahead);
}

TEST(Strategy, EachProposesAllCandidatesOnce) {
  const RecordedSpace r = bowl();
  for (const std::string& name : own_strategies()) {
    if (name == "bayesian" || name == "guided") continue;  // in the next test, with a bound
    const auto strategy = make_strategy({.strategy = name, .seed = 3}, r.space);
    std::set<std::size_t> seen;
    while (const auto next = strategy->next()) {
      EXPECT_TRUE(seen.insert(*next).second) << name;
      strategy->tell(*next, r.times_us[*next]);
    }
    EXPECT_EQ(seen.size(), r.times_us.size()) << name;
  }
}

TEST(Strategy, SurrogatesProposeNothingTwiceWithFailuresAndSeveralInFlight) {
  RecordedSpace r = bowl();
  r.space.candidates.resize(40);
  for (const char* name : {"bayesian", "guided"}) {
    const auto strategy = make_strategy({.strategy = name, .seed = 3}, r.space);
    std::set<std::size_t> seen;
    std::vector<std::size_t> proposed;
    while (const auto next = strategy->next()) {
      EXPECT_TRUE(seen.insert(*next).second) << name;
      proposed.push_back(*next);
      if (proposed.size() < 3) continue;
      const std::size_t i = proposed.front();
      proposed.erase(proposed.begin());
      strategy->tell(i, i % 3 == 0 ? std::nullopt : std::optional(r.times_us[i]));
    }
    EXPECT_EQ(seen.size(), 40u) << name;
  }
}

TEST(Strategy, SearchesBeginWithTheLikelyCandidates) {
  RecordedSpace r = bowl();
  r.space.likely = {77, 300};
  for (const char* name : {"local_search", "bayesian", "guided"}) {
    const auto strategy = make_strategy({.strategy = name, .seed = 3}, r.space);
    EXPECT_EQ(strategy->next(), 77u) << name;
    EXPECT_EQ(strategy->next(), 300u) << name;
  }
}

TEST(Strategy, SameSeedSameSearch) {
  const RecordedSpace r = bowl();
  for (const std::string& name : own_strategies())
    EXPECT_EQ(found(r, name, 7, 30), found(r, name, 7, 30)) << name;
  EXPECT_NE(found(r, "random", 7, 30), found(r, "random", 8, 30));
}

TEST(Strategy, GuidedFindsTheMinimumOfABowl) {
  const RecordedSpace r = bowl();
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const auto best = found(r, "guided", seed, r.times_us.size() * 15 / 100);
    ASSERT_EQ(best.size(), 75u);
    EXPECT_EQ(best.back(), 1) << seed;
  }
}

TEST(Strategy, GuidedStartsAwayFromTheDefaultTile) {
  RecordedSpace r = bowl();
  r.space.likely = {r.space.candidates.size() - 1};
  const SearchCandidate& tile = r.space.candidates.back();
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const auto strategy = make_strategy({.strategy = "guided", .seed = seed}, r.space);
    EXPECT_EQ(strategy->next(), r.space.likely[0]);
    for (int start = 0; start < 6; ++start) {
      const SearchCandidate& c = r.space.candidates[strategy->next().value()];
      if (c.variant != tile.variant) continue;
      double steps = 0;
      for (const char* name : {"block", "unroll"})
        steps += std::abs(std::log2(static_cast<double>(c.config.get(name, 1)) /
                                    static_cast<double>(tile.config.get(name, 1))));
      steps += static_cast<double>(std::abs(c.config.get("stages", 0) - tile.config.get("stages", 0)));
      EXPECT_GE(steps, 3) << c.config.str() << " of seed " << seed;
    }
  }
}

TEST(Strategy, GuidedStartsASmallVariantLast) {
  RecordedSpace r = bowl();
  std::erase_if(r.space.candidates,
                [n = 0](const SearchCandidate& c) mutable { return c.variant == "a" && n++ > 4; });
  const auto strategy = make_strategy({.strategy = "guided", .seed = 1}, r.space);
  std::string starts;
  for (int start = 0; start < 4; ++start) starts += r.space.candidates[strategy->next().value()].variant;
  EXPECT_EQ(starts, "bbba");
}

TEST(Strategy, GuidedFindsTheMinimumWithManyInFlight) {
  const RecordedSpace r = bowl();
  const int ahead = proposals_ahead(parse_budget("15%"), r.times_us.size(), 32);
  EXPECT_EQ(ahead, 12) << "a sixth of the evaluations";
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    EXPECT_LE(found(r, "guided", seed, r.times_us.size() * 15 / 100, ahead).back(), 1.03) << seed;
}

TEST(Strategy, AsManyAreInFlightAsThereAreCompileJobs) {
  EXPECT_EQ(proposals_ahead(parse_budget("60"), 1000, 7), 7);
  EXPECT_EQ(proposals_ahead(parse_budget("60"), 1000, 2), 4) << "at least four";
  EXPECT_EQ(proposals_ahead(parse_budget("8"), 1000, 16), 4) << "a short search knows its results";
  EXPECT_EQ(proposals_ahead(parse_budget("2s"), 1000, 16), 8);
}

TEST(Strategy, UnknownNameIsAnError) { EXPECT_THROW(make_strategy({.strategy = "best"}, {}), InputError); }

TEST(Budget, Forms) {
  EXPECT_EQ(parse_budget("40").evaluations(100), 40u);
  EXPECT_EQ(parse_budget("40").evaluations(30), 30u);
  EXPECT_EQ(parse_budget("15%").evaluations(470), 70u);
  EXPECT_EQ(parse_budget("1%").evaluations(10), 1u);
  EXPECT_EQ(parse_budget("60s").evaluations(470), 470u);
  for (const char* wrong : {"", "0", "-3", "1.5", "120%", "60m", "%"})
    EXPECT_THROW(parse_budget(wrong), InputError) << wrong;
}

}  // namespace
}  // namespace warptune
