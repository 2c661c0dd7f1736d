// The choice of finalists and of the winner.
#include "harness/tune/finalists.h"

#include <gtest/gtest.h>

namespace warptune {
namespace {

Measurement timed(double low, double time, double high, std::int64_t shared = 0, int registers = 32) {
  Measurement m;
  m.ci_low_us = low;
  m.time_us = time;
  m.ci_high_us = high;
  m.resources.shared_bytes = shared;
  m.resources.registers = registers;
  return m;
}

Measurement with(Status status, Measurement m) {
  m.status = status;
  return m;
}

using Indices = std::vector<std::size_t>;

TEST(Finalists, AreTheFastestCorrectAndNotAbandoned) {
  Measurement abandoned = timed(0.4, 0.5, 0.6);
  abandoned.sampling = SamplingClass::abandoned;
  const std::vector<Measurement> all = {
      timed(1.13, 1.2, 1.3), with(Status::wrong_result, timed(0.1, 0.1, 0.1)),
      timed(1, 1.1, 1.2),    abandoned,
      timed(0.9, 1, 1.1),    with(Status::too_fast, timed(0, 0, 0))};
  EXPECT_EQ(choose_finalists(all, 8), (Indices{4, 2, 0}));
  EXPECT_EQ(choose_finalists(all, 2), (Indices{4, 2}));
  EXPECT_EQ(choose_finalists(all, 0), Indices{});
  EXPECT_EQ(choose_finalists({}, 8), Indices{});
}

TEST(Finalists, OfPeersOnlyTheFastestIsTimedBesideTheOthers) {
  const std::vector<Measurement> all = {timed(0.9, 1, 1.1), timed(0.4, 0.5, 0.6), timed(2.1, 3, 3.1),
                                        timed(1.9, 2, 2.1), timed(2.2, 4, 4.1)};
  const Indices peers = {0, 1};
  EXPECT_EQ(choose_finalists(all, 2, peers), (Indices{1, 3, 2}));
  EXPECT_EQ(choose_finalists(all, 8, peers), (Indices{1, 3, 2, 4}));
  EXPECT_EQ(choose_finalists(all, 0, peers), Indices{});
}

TEST(Finalists, AreNotThoseThatAreSurelySlower) {
  const std::vector<Measurement> all = {timed(1.06, 1.07, 1.08), timed(1.0, 1.0, 1.0),
                                        timed(1.04, 1.06, 1.08)};
  EXPECT_EQ(choose_finalists(all, 8), (Indices{1, 2}));
  EXPECT_EQ(choose_finalists(all, 8, Indices{1}), (Indices{1, 2, 0})) << "a peer decides nothing";
}

TEST(Winner, IsTheFastestWithoutTies) {
  const std::vector<Measurement> all = {timed(1.9, 2, 2.1), timed(0.9, 1, 1.1, 65536, 255)};
  const auto choice = choose_winner(all);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->winner, 1u);
  EXPECT_TRUE(choice->tied.empty());
}

TEST(Winner, OfTiedOnesTheSimplestWins) {
  // Overlapping intervals: 0, 1, 3. Least shared memory: 1 and 3; fewer registers: 3.
  const std::vector<Measurement> all = {timed(0.9, 1, 1.1, 1024, 16), timed(1.05, 1.2, 1.3, 0, 64),
                                        timed(1.5, 1.6, 1.7, 0, 8), timed(1.1, 1.15, 1.2, 0, 40)};
  const auto choice = choose_winner(all);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->winner, 3u);
  EXPECT_EQ(choice->tied, (Indices{0, 1}));
}

TEST(Winner, OfTiedOnesALibraryWithUnknownResourcesComesLast) {
  const std::vector<Measurement> all = {timed(0.9, 1, 1.1, 0, 0), timed(0.95, 1.05, 1.2, 65536, 168)};
  EXPECT_EQ(choose_winner(all)->winner, 1u);
}

TEST(Winner, EqualResourcesGoToTheFirst) {
  const std::vector<Measurement> all = {timed(1.0, 1.1, 1.2), timed(0.9, 1, 1.1)};
  EXPECT_EQ(choose_winner(all)->winner, 0u);
}

TEST(Winner, HalfAPercentIsATieDespiteNarrowIntervals) {
  const std::vector<Measurement> all = {timed(100.39, 100.4, 100.41, 0, 8), timed(99.99, 100, 100.01, 0, 9),
                                        timed(100.59, 100.6, 100.61, 0, 1)};
  const auto choice = choose_winner(all);
  EXPECT_EQ(choice->winner, 0u);
  EXPECT_EQ(choice->tied, Indices{1});
}

TEST(Winner, AWrongConfigurationNeverWins) {
  Measurement abandoned = timed(0.5, 0.5, 0.5);
  abandoned.sampling = SamplingClass::abandoned;
  EXPECT_FALSE(
      choose_winner(std::vector<Measurement>{with(Status::too_fast, timed(1, 1, 1)), abandoned, {}}));
  EXPECT_FALSE(choose_winner({}));
}

TEST(FreshProcess, ADifferenceBeyondTheIntervalsIsANote) {
  EXPECT_EQ(difference_in_fresh_process(timed(9, 10, 11), timed(10.5, 12, 13)), "") << "intervals overlap";
  EXPECT_EQ(difference_in_fresh_process(timed(9.999, 10, 10.001), timed(10.02, 10.03, 10.04)), "")
      << "less than two runs differ by";
  EXPECT_EQ(difference_in_fresh_process(timed(9, 10, 11), timed(11.5, 12, 13)),
            "10 us in the process of the sweep, 12 us in a fresh one");
  EXPECT_EQ(difference_in_fresh_process(timed(11.5, 12, 13), timed(9, 10, 11)),
            "12 us in the process of the sweep, 10 us in a fresh one");
  EXPECT_EQ(difference_in_fresh_process(timed(9, 10, 11), with(Status::crash, timed(12, 12, 12))), "");
}

TEST(FreshProcess, AWinnerThatTiesThereStays) {
  const std::vector<Measurement> tie = {timed(0.9, 1, 1.1), timed(1.05, 1.15, 1.2, 65536)};
  EXPECT_FALSE(choice_after(tie, 0));
  EXPECT_FALSE(choice_after(tie, 1)) << "the other is simpler, but was not chosen";
  const std::vector<Measurement> slower = {timed(0.9, 1, 1.1), timed(1.2, 1.3, 1.4)};
  EXPECT_EQ(choice_after(slower, 1)->winner, 0u);
  const std::vector<Measurement> wrong = {with(Status::wrong_result, timed(0.9, 1, 1.1)),
                                          timed(1.2, 1.3, 1.4)};
  EXPECT_EQ(choice_after(wrong, 0)->winner, 1u);
  const std::vector<Measurement> none = {with(Status::wrong_result, timed(0.9, 1, 1.1))};
  EXPECT_FALSE(choice_after(none, 0));
}

TEST(Winner, AThrottledOneIsMarked) {
  std::vector<Measurement> all = {timed(1, 1, 1)};
  all[0].clocks.throttled = "hw_thermal_slowdown";
  EXPECT_TRUE(choose_winner(all)->throttled);
  all[0].clocks.throttled = "sw_power_cap";
  EXPECT_FALSE(choose_winner(all)->throttled);
}

}  // namespace
}  // namespace warptune
