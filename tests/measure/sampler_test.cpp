// When sampling ends, its notes, and the drift that interleaved samples share. The test has its own clock:
// each sample takes 0.1 s.
#include "harness/measure/sampler.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/measure/interleave.h"
#include "harness/measure/timed_samples.h"

namespace warptune {
namespace {

/// Returns the values cyclically.
class Source {
 public:
  explicit Source(std::vector<double> values) : values_(std::move(values)) {}
  Sample operator()() {
    seconds += 0.1;
    return {.us = values_[taken++ % values_.size()], .throttled = taken <= throttled};
  }
  double seconds = 0;
  std::size_t taken = 0, throttled = 0;

 private:
  std::vector<double> values_;
};

Samples sample(const SamplingRule& rule, Source& source) {
  return sample_until(
      rule, [&] { return source(); }, [&] { return source.seconds; });
}

TEST(Sampler, EqualSamplesEndAtTheMinimum) {
  Source source({5});
  const Samples s = sample({.min_samples = 7, .max_time = 100}, source);
  EXPECT_EQ(s.us.size(), 7u);
  EXPECT_EQ(s.stop, Stop::converged);
  EXPECT_EQ(s.rel_ci, 0);
  EXPECT_EQ(sentence_of(s), "");
}

TEST(Sampler, AnIntervalAsWideAsAllowedIsNarrowEnough) {
  Source source({5});
  EXPECT_EQ(sample({.max_rel_ci = 0, .min_samples = 7, .max_time = 100}, source).us.size(), 7u);
}

TEST(Sampler, ReportsTheIntervalAtMaxTime) {
  // 20 samples, ten of 99 and ten of 101: the interval is 99..101 about a median of 100.
  Source source({99, 101});
  const Samples s = sample({.max_rel_ci = 0.005, .min_samples = 6, .max_time = 1.95}, source);
  EXPECT_EQ(s.us.size(), 20u);
  EXPECT_EQ(s.stop, Stop::max_time);
  EXPECT_DOUBLE_EQ(s.rel_ci, 0.01);
  EXPECT_EQ(sentence_of(s), "stopped at max_time with an interval of 1.0 %");
}

TEST(Sampler, ConvergesOnceTheIntervalIsNarrow) {
  Source source({99, 101});
  const Samples s = sample({.max_rel_ci = 0.0102, .min_samples = 11, .max_time = 100}, source);
  EXPECT_EQ(s.us.size(), 11u);
  EXPECT_EQ(s.stop, Stop::converged);
}

TEST(Sampler, ZeroIsATimeAndEndsOnTime) {
  Source zeros({0});
  EXPECT_EQ(sample({.min_samples = 6, .max_time = 100}, zeros).stop, Stop::converged);
  Source mostly({0, 5, 0, 0});
  const Samples s = sample({.min_samples = 3, .max_time = 0.75}, mostly);
  EXPECT_EQ(s.stop, Stop::max_time);
  EXPECT_EQ(s.us.size(), 8u);
  EXPECT_EQ(sentence_of(s), "stopped at max_time with a median of 0");
}

TEST(Sampler, NanAndInfinityAreInvalid) {
  Source nan({NAN}), infinite({INFINITY, -1});
  for (Source* source : {&nan, &infinite}) {
    const Samples s = sample({}, *source);
    EXPECT_EQ(s.stop, Stop::no_time);
    EXPECT_TRUE(s.us.empty());
    EXPECT_EQ(sentence_of(s), "every sample is negative or not finite");
  }
  Source some({NAN, 5});
  EXPECT_EQ(sample({.min_samples = 6, .max_time = 100}, some).us, (std::vector<double>(6, 5)));
}

TEST(Sampler, UnusualTimesTerminate) {
  Source source({1, 2});
  EXPECT_EQ(sample({.min_samples = 3, .max_time = NAN}, source).stop, Stop::max_time);
  EXPECT_EQ(sample({.min_samples = 0, .max_time = 0}, source).us.size(), 1u);
}

TEST(Sampler, SlowSamplesEndAfterThreeWithANote) {
  for (const std::vector<double>& values : {std::vector<double>{1e6, 2e6}, {1e6}}) {  // a second each
    Source source(values);
    const Samples s = sample({.min_samples = 11, .max_time = 0.2}, source);
    EXPECT_EQ(s.us.size(), 3u);
    EXPECT_EQ(s.stop, Stop::max_time);
    EXPECT_EQ(sentence_of(s), "stopped at max_time with too few samples (3) for a 95 % interval");
  }
}

TEST(Sampler, FewerThanSixNeverConverge) {
  Source source({5});
  const Samples s = sample({.min_samples = 1, .max_time = 100}, source);
  EXPECT_EQ(s.stop, Stop::converged);
  EXPECT_EQ(s.us.size(), 6u);
}

TEST(Sampler, AbandonsSurelySlowerConfigurations) {
  Source source({110, 111, 112, 109, 108, 107});
  const Samples s = sample({.min_samples = 11, .max_time = 100, .best_us = 106}, source);
  EXPECT_EQ(s.stop, Stop::abandoned);
  EXPECT_EQ(s.us.size(), 6u);
  EXPECT_EQ(sentence_of(s), "abandoned after 6 samples: surely slower than the best");
  Source again({110, 111, 112, 109, 108, 107});
  EXPECT_EQ(sample({.max_rel_ci = 1, .min_samples = 11, .max_time = 100, .best_us = 113}, again).stop,
            Stop::converged);
}

TEST(Sampler, TheFewerTheSamplesTheFurtherTheyMustBeAboveTheBest) {
  const auto taken = [](std::vector<double> values, double best) {
    Source source(std::move(values));
    const Samples s = sample({.min_samples = 11, .max_time = 100, .best_us = best}, source);
    return s.stop == Stop::abandoned ? s.us.size() : 0;
  };
  EXPECT_EQ(taken({111}, 100), 2u) << "11 % above";
  EXPECT_EQ(taken({107}, 100), 3u);
  EXPECT_EQ(taken({104.5}, 100), 5u);
  EXPECT_EQ(taken({103}, 100), 6u) << "by its interval";
  EXPECT_EQ(taken({150, 99}, 100), 0u) << "one sample near the best";
  EXPECT_EQ(taken({150}, NAN), 0u) << "there is no best yet";
}

TEST(Sampler, ThrottledSamplesAreTakenAgainWithinABudget) {
  Source source({5});
  source.throttled = 4;
  const Samples s = sample({.min_samples = 6, .max_time = 0.55, .max_discarded = 10}, source);
  EXPECT_EQ(s.us.size(), 6u);
  EXPECT_EQ(s.discarded, 4);
  EXPECT_EQ(s.throttled, 0);
  EXPECT_EQ(sentence_of(s), "4 throttled samples were taken again");
}

TEST(Sampler, OneSampleTakenAgainIsNoted) {
  Source source({5});
  source.throttled = 1;
  const Samples s = sample({.min_samples = 6, .max_time = 100, .max_discarded = 10}, source);
  EXPECT_EQ(sentence_of(s), "1 throttled samples were taken again");
}

TEST(Sampler, DiscardedSamplesDoNotUseMaxTime) {
  const SamplingRule rule{.max_rel_ci = 0.005, .min_samples = 6, .max_time = 1.95, .max_discarded = 10};
  Source source({99, 101});
  source.throttled = 10;
  const Samples s = sample(rule, source);
  EXPECT_EQ(s.stop, Stop::max_time);
  EXPECT_EQ(s.us.size(), 20u);
  EXPECT_EQ(s.discarded, 10);
}

TEST(Sampler, AnAlwaysThrottledDeviceStillGetsATime) {
  Source source({5});
  source.throttled = 1000;
  const Samples s = sample({.min_samples = 6, .max_time = 100, .max_discarded = 10}, source);
  EXPECT_EQ(s.us.size(), 6u);
  EXPECT_EQ(s.throttled, 6);
  EXPECT_EQ(sentence_of(s), "6 of 6 samples are throttled, after 10 others were discarded");
}

TEST(Interleave, SamplesInTurn) {
  std::vector<std::size_t> order;
  const auto all = interleave(
      {.rounds = 3}, 3,
      [&](std::size_t i) {
        order.push_back(i);
        return Sample{.us = static_cast<double>(10 * i + order.size())};
      },
      [] { return 0.0; });
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(all[1].us, (std::vector<double>{12, 15, 18}));
}

TEST(Interleave, SkipsInvalidCandidatesAndEndsOnTime) {
  double seconds = 0;
  const auto all = interleave(
      {.rounds = 100, .max_rel_ci = 0.01, .max_time = 7.5}, 2,
      [&](std::size_t i) {
        seconds += 1;
        return Sample{.us = i == 1 ? NAN : 90 + 10 * std::fmod(seconds, 3.0)};
      },
      [&] { return seconds; });
  EXPECT_EQ(all[1].stop, Stop::no_time);
  EXPECT_EQ(all[0].us.size(), 7u);  // 1 of 2 in the first round, then alone
  EXPECT_EQ(all[0].stop, Stop::max_time);
}

TEST(Interleave, EndsWhereTheSamplesDecide) {
  const auto is_far = [](const std::vector<Samples>& of) { return of[1].us.back() - of[0].us.back() > 5; };
  const auto rounds = [&](double start, double step) {
    double us = start;
    const auto all = interleave(
        {.rounds = 20, .is_decided = is_far}, 2,
        [&](std::size_t i) { return Sample{.us = i * (us += step)}; }, [] { return 0.0; });
    return all[0].us.size();
  };
  EXPECT_EQ(rounds(100, 0), 6u) << "an interval needs six";
  EXPECT_EQ(rounds(0, 0.5), 6u);
  EXPECT_EQ(rounds(0, 0.25), 11u);  // the second sample of a round is 0.5 larger than that before
  EXPECT_EQ(rounds(0, 0), 20u);
}

TEST(Interleave, ThrottledSamplesAreTakenAgain) {
  int calls = 0;
  const auto all = interleave(
      {.rounds = 2, .max_discarded = 1}, 1,
      [&](std::size_t) { return Sample{.us = 1, .throttled = ++calls <= 2}; }, [] { return 0.0; });
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(all[0].discarded, 1);
  EXPECT_EQ(all[0].throttled, 1);
}

/// Interleaves candidates with these samples.
std::vector<Samples> interleaved(const std::vector<std::vector<double>>& us) {
  std::vector<std::size_t> taken(us.size());
  return interleave(
      {.rounds = static_cast<int>(us[0].size())}, us.size(),
      [&](std::size_t i) { return Sample{.us = us[i][taken[i]++]}; }, [] { return 0.0; });
}

TEST(Interleave, DriftIsWhatAllCandidatesShare) {
  const auto all = interleaved(
      {{10, 10, 12, 14, 10}, {20, 20, 24, 28, 20}, {5, 5.5, 6, 7, 5}, {1, NAN, 1, 1, 1}, {0, 0, 0, 9, 0}});
  ASSERT_EQ(all[0].drift.size(), 5u);
  EXPECT_DOUBLE_EQ(all[0].drift[0], 1) << "what one candidate does alone is no drift";
  EXPECT_DOUBLE_EQ(all[0].drift[1], 1);
  EXPECT_DOUBLE_EQ(all[0].drift[2], 1.2);
  EXPECT_DOUBLE_EQ(all[0].drift[3], 1.4);
  EXPECT_EQ(all[2].drift, all[0].drift);
  EXPECT_TRUE(all[3].drift.empty()) << "it lacks rounds";
  EXPECT_TRUE(all[4].drift.empty()) << "its median is 0";
  EXPECT_TRUE(interleaved({{1, 2, 3}})[0].drift.empty());
}

TEST(Interleave, ARoundOfZerosIsNoDrift) {
  for (const Samples& one : interleaved({{0, 2, 2, 2}, {0, 4, 4, 4}})) {
    EXPECT_EQ(one.drift, (std::vector<double>{1, 1, 1, 1}));
    EXPECT_EQ(sorted_without_drift(one), one.us);
  }
}

/// A GPU at its power limit: 4 % between two candidates, whose rounds differ by 15 %.
TEST(Interleave, ASlowerCandidateDoesNotTieBecauseBothDrift) {
  std::vector<std::vector<double>> us(2);
  for (int round = 0; round < 21; ++round) {
    const double drift = 1 + 0.15 * (round % 7) / 6;
    us[0].push_back(150 * drift * (1 + 0.001 * (round % 3)));
    us[1].push_back(156 * drift * (1 + 0.001 * (round % 2)));
  }
  std::vector<Measurement> apart(2), together(2);
  const auto all = interleaved(us);
  for (std::size_t i = 0; i < 2; ++i) {
    put_samples(apart[i], {.us = us[i]}, 1);
    put_samples(together[i], all[i], 1);
    EXPECT_EQ(together[i].time_us, apart[i].time_us);
    EXPECT_LE(together[i].ci_low_us, together[i].time_us);
    EXPECT_GE(together[i].ci_high_us, together[i].time_us);
  }
  EXPECT_GT(apart[0].ci_high_us, apart[1].ci_low_us);
  EXPECT_LT(together[0].ci_high_us, together[1].ci_low_us);
}

}  // namespace
}  // namespace warptune
