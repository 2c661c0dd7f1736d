#include "harness/results/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "harness/measure/statistics.h"
#include "harness/results/compare_report.h"
#include "harness/results/rank_test.h"
#include "harness/results/samples_file.h"

namespace warptune {
namespace {

TEST(RankTest, AgreesWithPublishedExamples) {
  // Hollander and Wolfe (1973), p. 69: permeability of membranes; W = 35, one-sided exact p = 0.1272.
  const std::vector<double> x = {0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46},
                            y = {1.15, 0.88, 0.90, 0.74, 1.21};
  const RankTest membranes = mann_whitney(x, y);
  EXPECT_EQ(membranes.u, 35);
  EXPECT_TRUE(membranes.exact);
  EXPECT_NEAR(membranes.p, 2 * 0.1272, 2e-4);
  EXPECT_EQ(mann_whitney(y, x).u, 15);
  EXPECT_NEAR(mann_whitney(y, x).p, membranes.p, 1e-12);
  // The ages of the documentation of SciPy's mannwhitneyu: U = 17, exact p = 1/9.
  const std::vector<double> males = {19, 22, 16, 29, 24}, females = {20, 11, 17, 12};
  EXPECT_EQ(mann_whitney(males, females).u, 17);
  EXPECT_NEAR(mann_whitney(males, females).p, 1.0 / 9, 1e-12);
}

TEST(RankTest, CorrectsForTies) {
  // Ties of 2 and of 2: variance 9/12 * (7 - 12/30) = 4.95; z = (2.5 - 0.5) / sqrt(4.95).
  const std::vector<double> a = {1, 2, 3}, b = {2, 3, 4};
  const RankTest test = mann_whitney(a, b);
  EXPECT_EQ(test.u, 2);  // (2, 2) and (3, 3) count one half, (3, 2) one
  EXPECT_FALSE(test.exact);
  EXPECT_NEAR(test.p, std::erfc(2 / std::sqrt(4.95) / std::sqrt(2.0)), 1e-12);
  const std::vector<double> same = {5, 5, 5};
  EXPECT_EQ(mann_whitney(same, same).p, 1);
  EXPECT_EQ(mann_whitney(a, {}).p, 1);
}

TEST(RankTest, ExactAndNormalMeet) {
  std::vector<double> a, b;
  for (int i = 0; i < 25; ++i) {
    a.push_back(i);
    b.push_back(i + 4.5);
  }
  const RankTest exact = mann_whitney(a, b);
  ASSERT_TRUE(exact.exact);
  a.push_back(12.2);
  const RankTest normal = mann_whitney(a, b);
  ASSERT_FALSE(normal.exact);
  EXPECT_NEAR(exact.p, normal.p, 0.02);
  EXPECT_NEAR(exact.least_p, 2 / 126410606437752.0, 1e-19);  // 2 / C(50, 25)
}

TEST(Holm, StepsDown) {
  // 0.01 * 4, 0.02 * 3, then never less than before, never more than one.
  const std::vector<double> p = {0.04, 0.01, 0.9, 0.02};
  const auto adjusted = holm(p);
  EXPECT_NEAR(adjusted[1], 0.04, 1e-12);
  EXPECT_NEAR(adjusted[3], 0.06, 1e-12);
  EXPECT_NEAR(adjusted[0], 0.08, 1e-12);
  EXPECT_NEAR(adjusted[2], 0.9, 1e-12);
}

TEST(Samples, AreThinnedEvenly) {
  std::vector<double> samples;
  for (int i = 0; i < 1000; ++i) samples.push_back(i);
  const auto kept = thinned(samples);
  ASSERT_EQ(kept.size(), 64u);
  EXPECT_EQ(kept.front(), 0);
  EXPECT_EQ(kept.back(), 999);
  EXPECT_TRUE(std::ranges::is_sorted(kept));
  EXPECT_EQ(thinned(kept), kept);
  EXPECT_EQ(samples_path("out/quick.csv"), "out/quick.samples.csv");
}

TimedRow row_of(std::string config, std::vector<double> samples) {
  TimedRow row{.device = "host",
               .op = "rms_norm",
               .problem = "rms_norm[tokens=1,hidden=8,dtype=fp32]",
               .variant = "naive",
               .config = std::move(config),
               .cache = "cold",
               .status = "ok",
               .sm_clock_mhz = 1980,
               .throttled = "none",
               .samples = std::move(samples)};
  std::vector<double> sorted = row.samples;
  std::ranges::sort(sorted);
  row.time_us = quantile(sorted, 0.5);
  std::tie(row.ci_low_us, row.ci_high_us) = median_interval(sorted);
  return row;
}

std::vector<double> around(double us) {
  std::vector<double> samples;
  for (int i = 0; i < 15; ++i) samples.push_back(us * (1 + 1e-4 * ((i * 7) % 15 - 7)));
  return samples;
}

TEST(Compare, ProducesEachVerdict) {
  std::vector<TimedRow> base, now;
  const auto both = [&](const char* name, TimedRow a, TimedRow b) {
    a.config = b.config = name;
    base.push_back(a);
    now.push_back(b);
  };
  both("slower", row_of("", around(100)), row_of("", around(103)));
  both("faster", row_of("", around(100)), row_of("", around(97)));
  both("same", row_of("", around(100)), row_of("", around(100.1)));
  both("small", row_of("", around(100)),
       row_of("", around(101.5)));  // significant, but below the minimum effect
  TimedRow slow = row_of("", around(110)), hot = row_of("", around(100));
  slow.sm_clock_mhz = 1700;
  hot.throttled = "sw_thermal";
  both("clocks", row_of("", around(100)), slow);
  both("held", row_of("", around(100)), hot);
  both("capped", hot, hot);
  TimedRow wrong = row_of("", around(100));
  wrong.status = "wrong_result";
  both("wrong", row_of("", around(100)), wrong);
  both("mended", wrong, row_of("", around(100)));
  both("never", wrong, wrong);
  base.push_back(row_of("gone", around(100)));
  now.push_back(row_of("new", around(100)));

  const Comparison c = compare(base, now, {});
  std::map<std::string, Change> changes;
  for (const RowChange& row : c.rows) changes[row.row().config] = row.change;
  const std::map<std::string, Change> expected = {
      {"slower", Change::slower}, {"faster", Change::faster},  {"same", Change::same},
      {"small", Change::same},    {"held", Change::ambiguous}, {"clocks", Change::ambiguous},
      {"capped", Change::same},   {"wrong", Change::missing},  {"mended", Change::fresh},
      {"gone", Change::missing},  {"new", Change::fresh}};
  EXPECT_EQ(changes, expected);
  EXPECT_EQ(c.matched, 7u);
  EXPECT_EQ(c.rows.front().change, Change::slower);
  EXPECT_NEAR(c.rows.front().effect, 0.03, 1e-3);
  EXPECT_EQ(c.exit_code(), 1);

  const auto json = nlohmann::json::parse(as_json(c));
  EXPECT_EQ(json["counts"]["SLOWER"], 1);
  EXPECT_EQ(json["counts"]["MISSING"], 2);
  EXPECT_EQ(json["rows"].size(), c.rows.size());
  EXPECT_EQ(json["rows"][0]["verdict"], "SLOWER");
  EXPECT_NE(as_markdown(c).find("| SLOWER | 100.000 | 103.000 | +3.00 % |"), std::string::npos)
      << as_markdown(c);
  EXPECT_NE(as_text(c).find("its status is wrong_result now"), std::string::npos);
}

TEST(Compare, ExitCodes) {
  const TimedRow a = row_of("a", around(100)), b = row_of("b", around(100));
  EXPECT_EQ(compare({a}, {a}, {}).exit_code(), 0);
  EXPECT_EQ(compare({a, b}, {a}, {}).exit_code(), 2);
  EXPECT_EQ(compare({a}, {b}, {}).exit_code(), 2);
  EXPECT_EQ(compare({}, {b}, {}).exit_code(), 2);
  EXPECT_EQ(compare({a}, {a, b}, {}).exit_code(), 0);
  TimedRow elsewhere = a;
  elsewhere.device = "other";
  EXPECT_EQ(compare({a}, {elsewhere}, {}).exit_code(), 2);
}

TEST(Compare, FallsBackToIntervals) {
  TimedRow base = row_of("a", around(100)), now = row_of("a", around(105));
  now.samples.clear();
  Comparison c = compare({base}, {now}, {});
  EXPECT_EQ(c.rows[0].change, Change::slower);
  EXPECT_TRUE(std::isnan(c.rows[0].p));
  EXPECT_EQ(c.rows[0].note, "no samples kept: intervals compared");
  now.ci_low_us = 99;
  EXPECT_EQ(compare({base}, {now}, {}).rows[0].change, Change::ambiguous)
      << "by 5 %, and the intervals overlap";
  now.time_us = 101;
  EXPECT_EQ(compare({base}, {now}, {}).rows[0].change, Change::same);
  // Three samples can never be significant: their ranges decide.
  c = compare({row_of("a", {100, 101, 102})}, {row_of("a", {104, 105, 106})}, {});
  EXPECT_EQ(c.rows[0].change, Change::slower);
  EXPECT_NE(c.rows[0].note.find("too few for a rank test"), std::string::npos);
  EXPECT_EQ(compare({row_of("a", {100, 101, 105})}, {row_of("a", {104, 105, 106})}, {}).rows[0].change,
            Change::ambiguous);
}

TEST(Compare, AnInsignificantLargeChangeIsAmbiguous) {
  // Most of one run's samples are fast, the other run's are spread: the medians are far apart.
  std::vector<double> base, now;
  for (int i = 0; i < 11; ++i) {
    base.push_back(i < 6 ? 100 + i : 10 + i);
    now.push_back(i < 6 ? 10 + i : 100 + i);
  }
  const Comparison c = compare({row_of("a", base)}, {row_of("a", now)}, {});
  EXPECT_LT(c.rows[0].effect, -0.8);
  EXPECT_GT(c.rows[0].p, 0.05);
  EXPECT_EQ(c.rows[0].change, Change::ambiguous);
  EXPECT_EQ(c.rows[0].note, "the medians differ, but the difference of the samples is not significant");
  EXPECT_EQ(c.exit_code(), 0);
}

TEST(Compare, TheLastGoodRowOfAKeyCounts) {
  TimedRow failed = row_of("a", around(100));
  failed.status = "timeout";
  const Comparison c =
      compare({row_of("a", around(100))}, {row_of("a", around(120)), row_of("a", around(100)), failed}, {});
  ASSERT_EQ(c.rows.size(), 1u);
  EXPECT_EQ(c.rows[0].change, Change::same);
}

/// A run of a suite with the noise of a GPU: samples are lognormal with 0.5 %, the clock drifts by up to 0.3
/// % during a row, and each run and each of its rows has an offset of 0.2 %.
std::vector<TimedRow> simulated_run(std::mt19937_64& random, int rows, int slow_row) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::uniform_int_distribution<int> counts(11, 64);
  const double run_shift = 0.002 * normal(random);
  std::vector<TimedRow> run;
  for (int r = 0; r < rows; ++r) {
    const double us =
        2 * std::pow(1.2, r) * (r == slow_row ? 1.03 : 1.0) * std::exp(run_shift + 0.002 * normal(random));
    const double drift = 0.003 * uniform(random);
    const int n = counts(random);
    std::vector<double> samples;
    for (int i = 0; i < n; ++i)
      samples.push_back(us * (1 + drift * i / n) * std::exp(0.005 * normal(random)));
    run.push_back(row_of(std::to_string(r), samples));
  }
  return run;
}

constexpr int kRuns = 50, kRows = 40;

TEST(Compare, EqualRunsRaiseNoAlarm) {
  std::mt19937_64 random(1);
  int alarms = 0;
  for (int i = 0; i < kRuns; ++i) {
    const Comparison c = compare(simulated_run(random, kRows, -1), simulated_run(random, kRows, -1), {});
    alarms += c.count(Change::slower) + c.count(Change::faster) > 0 ? 1 : 0;
  }
  EXPECT_LE(alarms, kRuns / 20);
}

TEST(Compare, AThreePercentSlowdownIsCaught) {
  std::mt19937_64 random(2);
  int caught = 0, others = 0;
  constexpr int kTrials = 200;
  for (int i = 0; i < kTrials; ++i) {
    const Comparison c =
        compare(simulated_run(random, kRows, -1), simulated_run(random, kRows, i % kRows), {});
    for (const RowChange& row : c.rows)
      if (row.change == Change::slower) ++(row.row().config == std::to_string(i % kRows) ? caught : others);
  }
  EXPECT_GE(caught, kTrials * 95 / 100);
  EXPECT_LE(others, kTrials * 5 / 100);
}

}  // namespace
}  // namespace warptune
