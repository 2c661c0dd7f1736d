#include "harness/results/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "harness/measure/statistics.h"
#include "harness/results/compare_report.h"
#include "harness/results/csv.h"
#include "harness/results/mann_whitney.h"
#include "harness/results/student_t.h"
#include "harness/results/sweep_file.h"
#include "harness/results/sweep_row.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;

TEST(MannWhitney, AgreesWithPublishedExamples) {
  // Hollander and Wolfe (1973), p. 69: permeability of membranes; W = 35, one-sided exact p = 0.1272.
  const std::vector<double> x = {0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46},
                            y = {1.15, 0.88, 0.90, 0.74, 1.21};
  const MannWhitney membranes = mann_whitney(x, y);
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

TEST(MannWhitney, CorrectsForTies) {
  // Ties of 2 and of 2: variance 9/12 * (7 - 12/30) = 4.95; z = (2.5 - 0.5) / sqrt(4.95).
  const std::vector<double> a = {1, 2, 3}, b = {2, 3, 4};
  const MannWhitney test = mann_whitney(a, b);
  EXPECT_EQ(test.u, 2);  // (2, 2) and (3, 3) count one half, (3, 2) one
  EXPECT_FALSE(test.exact);
  EXPECT_NEAR(test.p, std::erfc(2 / std::sqrt(4.95) / std::sqrt(2.0)), 1e-12);
  const std::vector<double> same = {5, 5, 5};
  EXPECT_EQ(mann_whitney(same, same).p, 1);
  EXPECT_EQ(mann_whitney(a, {}).p, 1);
}

TEST(MannWhitney, ExactAndNormalMeet) {
  std::vector<double> a, b;
  for (int i = 0; i < 25; ++i) {
    a.push_back(i);
    b.push_back(i + 4.5);
  }
  const MannWhitney exact = mann_whitney(a, b);
  ASSERT_TRUE(exact.exact);
  a.push_back(12.2);
  const MannWhitney normal = mann_whitney(a, b);
  ASSERT_FALSE(normal.exact);
  EXPECT_NEAR(exact.p, normal.p, 0.02);
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

/// A configuration with a run per set of samples.
TimedConfig entry(std::string config, const std::vector<std::vector<double>>& runs,
                  SamplingClass sampling = SamplingClass::rerun) {
  TimedConfig made{.device = "gpu",
                   .op = "rms_norm",
                   .problem = "rms_norm[tokens=1,hidden=8,dtype=fp32]",
                   .variant = "naive",
                   .config = std::move(config),
                   .cache = "cold",
                   .sampling = sampling,
                   .runs = {},
                   .failure = {}};
  for (const std::vector<double>& samples : runs) {
    std::vector<double> sorted = samples;
    std::ranges::sort(sorted);
    made.runs.push_back({.run_id = std::to_string(made.runs.size()),
                         .time_us = quantile(sorted, 0.5),
                         .sm_clock_mhz = 1980,
                         .throttled = "none",
                         .code_hash = "c",
                         .samples = samples});
  }
  return made;
}

std::vector<double> around(double us) {
  std::vector<double> samples;
  for (int i = 0; i < 15; ++i) samples.push_back(us * (1 + 1e-4 * ((i * 7) % 15 - 7)));
  return samples;
}

/// Three runs, 0.1 % apart.
TimedConfig three_runs(const std::string& config, double us) {
  return entry(config, {around(us), around(us * 1.001), around(us * 0.999)});
}

TimedConfig failed(std::string config, std::string status) {
  TimedConfig row = entry(std::move(config), {});
  row.failure = std::move(status);
  return row;
}

Comparison compared(const std::vector<TimedConfig>& base, const std::vector<TimedConfig>& now,
                    const CompareOptions& options = {}) {
  return compare(grouped(base), grouped(now), options);
}

Change change_of(const TimedConfig& base, const TimedConfig& now, const CompareOptions& options = {}) {
  return compared({base}, {now}, options).rows.at(0).change;
}

TEST(Compare, ProducesEachVerdict) {
  std::vector<TimedConfig> base, now;
  const auto both = [&](const char* name, TimedConfig a, TimedConfig b) {
    a.config = b.config = name;
    base.push_back(a);
    now.push_back(b);
  };
  both("slower", three_runs("", 100), three_runs("", 103));
  both("faster", three_runs("", 100), three_runs("", 97));
  both("same", three_runs("", 100), three_runs("", 100.1));
  both("small", three_runs("", 100), three_runs("", 101.5));  // significant, but below the minimum effect
  TimedConfig slow = three_runs("", 110), hot = three_runs("", 100);
  for (TimedRun& run : slow.runs) run.sm_clock_mhz = 1700;
  for (TimedRun& run : hot.runs) run.throttled = "hw_thermal_slowdown";
  both("clocks", three_runs("", 100), slow);
  both("held", three_runs("", 100), hot);
  both("capped", hot, hot);
  both("wrong", three_runs("", 100), failed("", "wrong_result"));
  both("mended", failed("", "wrong_result"), three_runs("", 100));
  both("never", failed("", "crash"), failed("", "crash"));
  base.push_back(three_runs("gone", 100));
  now.push_back(three_runs("new", 100));

  const Comparison c = compared(base, now);
  std::map<std::string, Change> changes;
  for (const RowChange& row : c.rows) changes[row.row().config] = row.change;
  const std::map<std::string, Change> expected = {
      {"slower", Change::slower}, {"faster", Change::faster},  {"same", Change::same},
      {"small", Change::same},    {"held", Change::ambiguous}, {"clocks", Change::ambiguous},
      {"capped", Change::same},   {"wrong", Change::missing},  {"mended", Change::fresh},
      {"gone", Change::missing},  {"new", Change::fresh}};
  EXPECT_EQ(changes, expected);
  EXPECT_EQ(c.matched, 7u);
  EXPECT_EQ(c.judged, 5u);
  EXPECT_EQ(c.rows.front().change, Change::slower);
  EXPECT_NEAR(c.rows.front().effect, 0.03, 1e-3);
  EXPECT_EQ(c.exit_code(), 1);

  const auto json = nlohmann::json::parse(as_json(c));
  EXPECT_EQ(json["counts"]["SLOWER"], 1);
  EXPECT_EQ(json["counts"]["MISSING"], 2);
  EXPECT_EQ(json["rows"].size(), c.rows.size());
  EXPECT_EQ(json["rows"][0]["verdict"], "SLOWER");
  EXPECT_EQ(json["rows"][0]["new_runs"], 3);
  EXPECT_NE(as_markdown(c).find("| SLOWER | 99.950 | 102.948 | +3.00 % |"), std::string::npos)
      << as_markdown(c);
  EXPECT_NE(as_text(c).find("its status is wrong_result now"), std::string::npos);
}

TEST(Compare, ExitCodes) {
  const TimedConfig a = three_runs("a", 100), b = three_runs("b", 100);
  EXPECT_EQ(compared({a}, {a}).exit_code(), 0);
  EXPECT_EQ(compared({a, b}, {a}).exit_code(), 2);
  EXPECT_EQ(compared({a}, {b}).exit_code(), 2);
  EXPECT_EQ(compared({}, {b}).exit_code(), 2);
  EXPECT_EQ(compared({a}, {a, b}).exit_code(), 0);
  TimedConfig elsewhere = a;
  elsewhere.device = "other";
  EXPECT_EQ(compared({a}, {elsewhere}).exit_code(), 2);
}

TEST(Compare, AGateThatJudgedLessThanHalfFailsAndSaysWhy) {
  std::vector<TimedConfig> base, now;
  for (int i = 0; i < 5; ++i) {
    base.push_back(three_runs(std::to_string(i), 100));
    now.push_back(three_runs(std::to_string(i), i < 3 ? 112 : 100));
    if (i < 3)
      for (TimedRun& run : now.back().runs) run.sm_clock_mhz = 1742;
  }
  const Comparison c = compared(base, now);
  EXPECT_EQ(c.judged, 2u);
  EXPECT_EQ(c.exit_code(), 3);
  EXPECT_EQ(
      c.why_unjudged(),
      "only 2 of 5 rows were judged (SM clock differs: 3); for one of them the SM clock was 1980 MHz and "
      "is 1742 MHz");
  EXPECT_NE(as_text(c).find(c.why_unjudged()), std::string::npos);
  now[0] = base[0];
  EXPECT_EQ(compared(base, now).exit_code(), 0) << "3 of 5 are judged";
}

TEST(Compare, SaysThatNoiseKeptItFromJudging) {
  const TimedConfig noisy = entry("a", {around(100), around(104), around(120)}),
                    now = entry("a", {around(103), around(108), around(125)});
  const Comparison c = compared({noisy}, {now});
  EXPECT_EQ(c.exit_code(), 3);
  EXPECT_NE(c.why_unjudged().find("(noise: 1)"), std::string::npos) << c.why_unjudged();
}

TEST(StudentT, TheFasterHalfIsRoundedUp) {
  const std::vector<double> us = {5, 1, 4, 2, 3, 6};
  EXPECT_EQ(faster_half(us), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(faster_half(std::span(us).first(5)), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(faster_half(std::span(us).first(4)), (std::vector<double>{1, 2}));
  EXPECT_EQ(faster_half(std::span(us).first(2)), (std::vector<double>{1}));
  EXPECT_EQ(faster_half(std::span(us).first(1)), (std::vector<double>{5}));
}

/// The three runs of a row, one of them changed.
TimedConfig with_one_run(void (*change)(TimedRun&)) {
  TimedConfig row = three_runs("x", 100);
  change(row.runs[1]);
  return row;
}

TEST(Compare, OneThrottledRunOfSeveralIsNoDoubt) {
  const TimedConfig base = three_runs("x", 100),
                    once = with_one_run([](TimedRun&run) { run.throttled = "hw_thermal_slowdown"; });
  EXPECT_EQ(change_of(base, once), Change::same);
  EXPECT_EQ(change_of(once, base), Change::same);
  TimedConfig always = once;
  for (TimedRun& run : always.runs) run.throttled = "hw_thermal_slowdown";
  Comparison c = compared({base}, {always});
  EXPECT_EQ(c.rows[0].doubt, Doubt::throttled);
  EXPECT_EQ(c.rows[0].note, "the new run was throttled (hw_thermal_slowdown)");
  c = compared({always}, {base});
  EXPECT_EQ(c.rows[0].note, "the base was throttled (hw_thermal_slowdown)");
  for (TimedRun& run : always.runs) run.throttled = "sw_power_cap";
  EXPECT_EQ(change_of(base, always), Change::same) << "a power cap shows in the clocks";
}

TEST(Compare, TheHighestClockOfTheRunsCounts) {
  const TimedConfig base = three_runs("x", 100),
                    dipped = with_one_run([](TimedRun&run) { run.sm_clock_mhz = 1200; });
  EXPECT_EQ(change_of(base, dipped), Change::same);
  EXPECT_EQ(change_of(dipped, base), Change::same);
  TimedConfig unknown = base;
  for (TimedRun& run : unknown.runs) run.sm_clock_mhz = NAN;
  EXPECT_EQ(change_of(base, unknown), Change::same) << "no clock, no doubt";
  unknown.runs[2].sm_clock_mhz = 1200;
  EXPECT_EQ(change_of(base, unknown), Change::ambiguous);
}

TEST(Compare, AClockChangeOfTheLimitIsNoDoubt) {
  const auto at = [](double mhz) {
    TimedConfig row = three_runs("x", 100);
    for (TimedRun& run : row.runs) run.sm_clock_mhz = mhz;
    return row;
  };
  const CompareOptions quarter{.max_clock_change = 0.25};
  EXPECT_EQ(change_of(at(1600), at(2000), quarter), Change::same);
  EXPECT_EQ(change_of(at(1600), at(2001), quarter), Change::ambiguous);
  EXPECT_EQ(change_of(at(1600), at(1200), quarter), Change::same);
  EXPECT_EQ(change_of(at(1600), at(1199), quarter), Change::ambiguous);
}

TEST(Compare, HalfOfTheRowsIsEnoughToJudge) {
  std::vector<TimedConfig> base = {three_runs("a", 100), three_runs("b", 100)}, now = base;
  for (TimedRun& run : now[1].runs) run.sm_clock_mhz = 1000;
  EXPECT_EQ(compared(base, now).exit_code(), 0);
  EXPECT_EQ(compared(base, now).why_unjudged(), "");
  base.push_back(three_runs("c", 100));
  now.push_back(now[1]);
  now.back().config = "c";
  EXPECT_EQ(compared(base, now).exit_code(), 3) << "one of three";
}

TEST(Compare, ARowThatSeemsSlowerByTheMinimumEffectIsASuspect) {
  const auto suspects_at = [](double us) {
    TimedConfig slower = entry("x", {{us}});
    slower.runs[0].sm_clock_mhz = 1000;  // no verdict, but a change
    return suspects(compared({entry("x", {{100}})}, {slower}, {.min_effect = 0.25})).size();
  };
  EXPECT_EQ(suspects_at(125), 1u);
  EXPECT_EQ(suspects_at(124.9), 0u);
  EXPECT_EQ(suspects_at(70), 0u) << "faster";
}

TEST(Compare, NamesItsVerdicts) {
  EXPECT_EQ(name_of(Change::slower), "SLOWER");
  EXPECT_EQ(name_of(Change::missing), "MISSING");
  EXPECT_EQ(name_of(Change::ambiguous), "AMBIGUOUS");
  EXPECT_EQ(name_of(Change::faster), "FASTER");
  EXPECT_EQ(name_of(Change::fresh), "NEW");
  EXPECT_EQ(name_of(Change::same), "SAME");
}

TEST(Compare, SingleRunsOnTheHostDifferByHalf) {
  TimedConfig base = entry("a", {around(100)}), now = entry("a", {around(140)}),
              slow = entry("a", {around(160)});
  for (TimedConfig* row : {&base, &now, &slow}) row->on_host = true;
  EXPECT_EQ(change_of(base, now), Change::ambiguous);
  EXPECT_EQ(change_of(base, slow), Change::slower);
}

TEST(Compare, SingleRunsNeedMoreThanTheChangeBetweenEqualRuns) {
  const double floor = run_noise(20, false).floor;
  const TimedConfig base = entry("a", {around(20)});
  EXPECT_EQ(change_of(base, entry("a", {around(20 * (1 + 1.1 * floor))})), Change::slower);
  const Comparison below = compared({base}, {entry("a", {around(20 * (1 + 0.9 * floor))})});
  EXPECT_EQ(below.rows[0].change, Change::ambiguous);
  EXPECT_EQ(below.rows[0].note, "single runs of one program differ by up to 5 %; use rerun --runs 3");
  EXPECT_EQ(change_of(base, entry("a", {around(20.2)})), Change::same);
}

TEST(Compare, ASingleRunIsHeldAgainstTheLastOfSeveral) {
  const double floor = run_noise(20, false).floor;
  const TimedConfig several = entry("a", {around(20.02), around(20)});
  EXPECT_EQ(change_of(several, entry("a", {around(20 * (1 + 1.1 * floor))})), Change::slower);
  EXPECT_EQ(change_of(entry("a", {around(20 * (1 + 1.1 * floor))}), several), Change::faster);
}

TEST(Compare, TooFewSamplesAreNoEvidence) {
  const std::vector<double> low = {100, 101, 102}, high = {150, 151, 152};
  const Comparison c = compared({entry("a", {low})}, {entry("a", {high})});
  EXPECT_EQ(c.rows[0].change, Change::ambiguous);
  EXPECT_EQ(c.rows[0].note, "3 and 3 samples do not tell them apart");
  TimedConfig without = entry("a", {around(150)});
  without.runs[0].samples.clear();
  EXPECT_EQ(change_of(entry("a", {around(100)}), without), Change::ambiguous);
}

TEST(Compare, AStricterAlphaNeverRaisesMoreAlarms) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  std::vector<TimedConfig> base, now;
  for (int i = 0; i < 60; ++i)
    for (auto* side : {&base, &now}) {
      std::vector<std::vector<double>> runs;
      const int count = i % 3 == 0 ? 1 : 3;
      for (int r = 0; r < count; ++r) {
        std::vector<double> samples;
        for (int k = 0; k < 3 + i % 20; ++k)
          samples.push_back((side == &now && i % 4 == 0 ? 60 : 50) * std::exp(0.01 * normal(random)));
        runs.push_back(samples);
      }
      side->push_back(entry(std::to_string(i), runs));
    }
  std::size_t before = 0;
  for (const double alpha : {1e-9, 1e-6, 1e-4, 1e-3, 1e-2, 0.05, 0.2, 0.5}) {
    const Comparison c = compared(base, now, {.alpha = alpha});
    const std::size_t alarms = c.count(Change::slower) + c.count(Change::faster);
    EXPECT_GE(alarms, before) << alpha;
    before = alarms;
  }
  EXPECT_GT(before, 0u) << "a loose alpha has alarms to lose";
}

/// Runs of a recording agree with each other, but a row of a few microseconds is 2.6 % off in the next
/// recording.
TEST(Compare, ShortRowsDriftBetweenRecordings) {
  const TimedConfig base = three_runs("x", 4), now = three_runs("x", 4.105), slow = three_runs("x", 4.3);
  EXPECT_EQ(change_of(base, now), Change::ambiguous);
  EXPECT_EQ(change_of(base, now, {.interleaved = true}), Change::slower) << "both were recorded in turn";
  EXPECT_EQ(change_of(base, slow), Change::slower) << "more than drift";
  EXPECT_EQ(change_of(three_runs("x", 40), three_runs("x", 41.05)), Change::slower)
      << "long rows do not drift";
}

TEST(Compare, RowsOfTheHostDriftBetweenRecordings) {
  TimedConfig base = three_runs("x", 100), now = three_runs("x", 130), slow = three_runs("x", 140);
  for (TimedConfig* config : {&base, &now, &slow}) config->on_host = true;
  EXPECT_EQ(change_of(base, now), Change::ambiguous);
  EXPECT_EQ(change_of(base, now, {.interleaved = true}), Change::slower) << "both were recorded in turn";
  EXPECT_EQ(change_of(base, slow), Change::slower) << "more than drift";
}

/// The alarms of 40 equal configurations and one that changed by so much that its p, alone, is between alpha
/// / 41 and alpha / 2.
TEST(Compare, TheTestCoversTheWholeFamily) {
  const TimedConfig base = entry("x", {around(100), around(100.05), around(100)}),
                    now = entry("x", {around(102.2), around(102.9), around(104)});
  const double p = compare_runs(base.times_us(), now.times_us(), run_noise(100, false)).p;
  ASSERT_LT(p, 0.05 / 2);
  ASSERT_GT(p, 0.05 / 41);
  EXPECT_EQ(change_of(base, now), Change::slower) << "alone";
  EXPECT_EQ(change_of(base, now, {.alpha = 0.9 * p}), Change::ambiguous) << "alpha is not doubled";
  EXPECT_EQ(change_of(base, now, {.alpha = 1.1 * p}), Change::slower);
  std::vector<TimedConfig> many_base = {base}, many_now = {now};
  for (int i = 0; i < 40; ++i) {
    many_base.push_back(three_runs(std::to_string(i), 100));
    many_now.push_back(three_runs(std::to_string(i), 100));
  }
  const Comparison c = compared(many_base, many_now);
  EXPECT_EQ(c.count(Change::slower), 0u) << "Holm's correction";
  EXPECT_EQ(c.count(Change::ambiguous), 1u);
  const auto row = std::ranges::find(c.rows, Change::ambiguous, &RowChange::change);
  EXPECT_NEAR(row->p, 41 * p, 1e-9);
}

TEST(Compare, LikeIsHeldAgainstLike) {
  const TimedConfig finalist = entry("a", {around(10)}, SamplingClass::finalist),
                    screened = entry("a", {around(12)}, SamplingClass::screened),
                    hot = entry("a", {around(9)}, SamplingClass::other_cache);
  // The screening of either side does not count, whatever it says.
  Comparison c =
      compared({screened, finalist}, {finalist, entry("a", {around(15)}, SamplingClass::screened)});
  ASSERT_EQ(c.rows.size(), 1u);
  EXPECT_EQ(c.rows[0].change, Change::same);
  EXPECT_TRUE(c.aside.empty());
  // A finalist that is not a finalist now has no time to compare with.
  c = compared({finalist, screened}, {entry("a", {around(15)}, SamplingClass::abandoned)});
  EXPECT_EQ(c.rows[0].change, Change::ambiguous);
  EXPECT_EQ(c.rows[0].doubt, Doubt::sampling);
  EXPECT_EQ(c.rows[0].note, "its times are finalist in the base and abandoned now, which differ in sampling");
  // Other rows are information.
  c = compared({finalist, screened, hot}, {finalist, entry("a", {around(18)}, SamplingClass::screened)},
               {.all_rows = true});
  EXPECT_EQ(c.rows.size(), 1u);
  EXPECT_EQ(c.aside.size(), 2u);
  EXPECT_EQ(c.exit_code(), 0);
  EXPECT_NE(as_text(c).find("These rows do not decide"), std::string::npos);
  EXPECT_EQ(compared({screened}, {screened}).exit_code(), 2) << "nothing decides";
}

TEST(Compare, TheOrderOfRowsDoesNotMatter) {
  std::mt19937_64 random(4);
  std::vector<TimedConfig> rows;
  for (int run = 0; run < 3; ++run)
    for (int i = 0; i < 30; ++i)
      for (const SamplingClass sampling : {SamplingClass::screened, SamplingClass::finalist}) {
        TimedConfig row = entry(std::to_string(i), {around(10 + i + 0.1 * run)}, sampling);
        row.runs[0].run_id = std::to_string(run);
        rows.push_back(row);
      }
  std::vector<TimedConfig> shuffled = rows;
  std::ranges::shuffle(shuffled, random);
  const Comparison c = compared(rows, shuffled);
  EXPECT_EQ(c.count(Change::same), 30u);
  EXPECT_EQ(c.rows.size(), 30u);
}

TEST(Compare, ReadsTheRowsOfASweep) {
  const fs::path csv = fs::path(::testing::TempDir()) / "timed_configs.csv";
  fs::remove(csv);
  SweepRow row{.run = {"r", "", ""},
               .facts = {.name = "box"},
               .problem = {"rms_norm", {{"tokens", 1}, {"hidden", 64}}, DType::fp32},
               .variant = "naive",
               .cache = "hot"};
  row.measurement.time_us = 7;
  row.measurement.sampling = SamplingClass::single;
  {
    CsvFile file(csv, sweep_columns());
    file.append(fields_of(row));
    row.cache = "cold";
    row.measurement = {};
    row.measurement.status = Status::timeout;
    file.append(fields_of(row));
  }
  const std::vector<TimedConfig> configs = read_timed_configs(csv);
  ASSERT_EQ(configs.size(), 2u);
  EXPECT_EQ(configs[0].cache, "hot");
  EXPECT_DOUBLE_EQ(configs[0].time_us(), 7);
  EXPECT_TRUE(configs[0].on_host && configs[0].decides() && configs[0].ok());
  EXPECT_EQ(configs[1].cache, "cold");
  EXPECT_EQ(configs[1].failure, "timeout");
}

TEST(Compare, RunsOfOneFileBelongTogether) {
  std::vector<TimedConfig> rows;
  for (const double us : {100.0, 101.0, 102.0}) {
    rows.push_back(entry("a", {around(us)}));
    rows.back().runs[0].run_id = std::to_string(us);
  }
  ASSERT_EQ(grouped(rows).size(), 1u);
  EXPECT_EQ(grouped(rows)[0].runs.size(), 3u);
  rows.push_back(rows[0]);  // the same run again
  EXPECT_EQ(grouped(rows)[0].runs.size(), 3u);
  rows.push_back(rows[0]);
  rows.back().runs[0].code_hash = "new code";
  ASSERT_EQ(grouped(rows)[0].runs.size(), 1u) << "the newest code counts";
  // A rerun that failed once is not correct any more; a sweep's row that was retried is.
  rows.push_back(failed("a", "wrong_result"));
  EXPECT_FALSE(grouped(rows)[0].ok());
  EXPECT_TRUE(grouped({failed("a", "timeout"), entry("a", {around(1)}, SamplingClass::finalist)})[0].ok());
}

TEST(Compare, ConfirmedRowsTakeTheVerdictOfTheNewRuns) {
  const std::vector<TimedConfig> base = {three_runs("a", 100), three_runs("b", 100), three_runs("c", 100)},
                                 now = {three_runs("a", 110), three_runs("b", 110), three_runs("c", 97)};
  const Comparison first = compared(base, now);
  ASSERT_EQ(suspects(first).size(), 2u) << "a faster row is none";
  const Comparison again = compared({base[0], base[1]}, {three_runs("a", 100), three_runs("b", 109)});
  const Comparison c = confirmed(first, again);
  EXPECT_EQ(c.count(Change::slower), 1u);
  EXPECT_EQ(c.rows[0].row().config, "b");
  EXPECT_EQ(c.rows[0].note, "+10.00 % at first, timed again in 3 runs");
  EXPECT_EQ(c.count(Change::same), 1u);
  EXPECT_EQ(c.count(Change::faster), 1u);
  EXPECT_EQ(confirmed(first, compared({base[0], base[1]}, {base[0], base[1]})).exit_code(), 0);
}

/// The runs of a suite with the noise of the A/A study on an H200: a run shifts a row by 0.1 %, one row in
/// ten has runs that are 5 % slower in 15 of 100 cases.
std::vector<TimedConfig> simulated_runs(std::mt19937_64& random, int rows, int slow_row) {
  std::normal_distribution<double> normal;
  std::bernoulli_distribution unlucky(0.15);
  std::vector<TimedConfig> suite;
  for (int r = 0; r < rows; ++r) {
    std::vector<std::vector<double>> runs;
    for (int i = 0; i < 3; ++i) {
      const double mode = r % 10 == 0 && unlucky(random) ? 1.05 : 1;
      runs.push_back(around(5 * std::pow(1.1, r) * (r == slow_row ? 1.03 : 1) * mode *
                            std::exp(0.001 * normal(random))));
    }
    suite.push_back(entry(std::to_string(r), runs));
  }
  return suite;
}

constexpr int kRows = 40;

TEST(Compare, EqualRunsRaiseNoAlarm) {
  std::mt19937_64 random(1);
  constexpr int kPairs = 100;
  int alarms = 0;
  for (int i = 0; i < kPairs; ++i)
    alarms += compared(simulated_runs(random, kRows, -1), simulated_runs(random, kRows, -1)).exit_code() == 1;
  EXPECT_LE(alarms, kPairs / 20);
}

TEST(Compare, AThreePercentSlowdownIsSuspected) {
  std::mt19937_64 random(2);
  int found = 0, others = 0;
  constexpr int kTrials = 200;
  for (int i = 0; i < kTrials; ++i) {
    const Comparison c =
        compared(simulated_runs(random, kRows, -1), simulated_runs(random, kRows, i % kRows));
    for (const RowChange* row : suspects(c))
      ++(row->row().config == std::to_string(i % kRows) ? found : others);
  }
  EXPECT_GE(found, kTrials * 95 / 100);
  EXPECT_LE(others, kTrials) << "about one noisy row in a suite of forty";
}

}  // namespace
}  // namespace warptune
