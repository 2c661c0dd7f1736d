#include "harness/search/strategy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "harness/core/error.h"
#include "harness/search/budget.h"
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

TEST(Strategy, EachProposesAllCandidatesOnce) {
  const RecordedSpace r = bowl();
  for (const std::string& name : strategy_names()) {
    if (name == "bayesian" || name == "guided") continue;  // in the next test, with a bound
    const auto strategy = make_strategy(name, r.space, 3);
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
    const auto strategy = make_strategy(name, r.space, 3);
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
    const auto strategy = make_strategy(name, r.space, 3);
    EXPECT_EQ(strategy->next(), 77u) << name;
    EXPECT_EQ(strategy->next(), 300u) << name;
  }
}

TEST(Strategy, SameSeedSameSearch) {
  const RecordedSpace r = bowl();
  for (const std::string& name : strategy_names())
    EXPECT_EQ(convergence(r, name, 7, 30, 1), convergence(r, name, 7, 30, 1)) << name;
  EXPECT_NE(convergence(r, "random", 7, 30, 1), convergence(r, "random", 8, 30, 1));
}

TEST(Strategy, GuidedFindsTheMinimumOfABowl) {
  const RecordedSpace r = bowl();
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const auto found = convergence(r, "guided", seed, r.times_us.size() * 15 / 100, 1);
    ASSERT_EQ(found.size(), 75u);
    EXPECT_EQ(found.back(), 1) << seed;
  }
}

TEST(Strategy, UnknownNameIsAnError) { EXPECT_THROW(make_strategy("best", {}, 1), InputError); }

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
