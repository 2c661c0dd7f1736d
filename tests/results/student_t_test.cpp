#include "harness/results/student_t.h"

#include <gtest/gtest.h>

namespace warptune {
namespace {

TEST(StudentT, AgreesWithPublishedQuantiles) {
  // Abramowitz and Stegun, table 26.10: two-sided 0.05 and 0.001.
  EXPECT_NEAR(student_p(12.706, 1), 0.05, 1e-4);
  EXPECT_NEAR(student_p(4.303, 2), 0.05, 1e-4);
  EXPECT_NEAR(student_p(-2.571, 5), 0.05, 1e-4);
  EXPECT_NEAR(student_p(8.610, 4), 0.001, 1e-6);
  EXPECT_NEAR(student_p(5.408, 7), 0.001, 1e-6);
  EXPECT_EQ(student_p(0, 3), 1);
}

TEST(StudentT, KeepsTheFasterHalf) {
  EXPECT_EQ(faster_half(std::vector{5.0, 3.0, 4.0}), (std::vector{3.0, 4.0}));
  EXPECT_EQ(faster_half(std::vector{5.0}), std::vector{5.0});
  EXPECT_EQ(faster_half(std::vector{9.0, 1.0, 7.0, 3.0, 5.0}), (std::vector{1.0, 3.0, 5.0}));
}

TEST(StudentT, OneSlowRunIsNoChange) {
  const std::vector<double> base = {100, 100.1, 99.9}, disturbed = {100, 112, 100.1};
  const StudentT test = compare_runs(base, disturbed, {.spread = 0.001});
  EXPECT_NEAR(test.effect, 0.001, 1e-6);
  EXPECT_GT(test.p, 0.1);
}

/// A process of either file is in a fast or a slow mode, and chance made the faster halves differ.
TEST(StudentT, ModesOfRunsAreNoChange) {
  const std::vector<double> base = {54, 98, 55, 56, 90}, now = {97, 91, 101, 98, 99};
  EXPECT_GT(compare_runs(base, now, {.spread = 0.02}).effect, 0.7);
  EXPECT_LT(compare_runs(base, now, {.spread = 0.02}).p, 0.001) << "one mode, and two disturbed runs";
  EXPECT_EQ(compare_runs(base, now, {.spread = 0.02, .modes = true}).p, 1);
  EXPECT_LT(compare_runs(faster_half(base), now, {.spread = 0.02, .modes = true}).p, 0.001);
  EXPECT_TRUE(run_noise(100, true).modes);
  EXPECT_FALSE(run_noise(100, false).modes);
}

TEST(StudentT, ThePriorSpreadTempersRunsThatAgreeByChance) {
  const std::vector<double> base = {100, 100, 100}, now = {101, 101, 101};
  EXPECT_GT(compare_runs(base, now, {.spread = 0.01}).p, 0.05);
  EXPECT_LT(compare_runs(base, now, {.spread = 0.001}).p, 0.001);
  EXPECT_EQ(compare_runs(std::vector{100.0}, now, {.spread = 0.001}).p, 1) << "one run has no spread";
}

/// The largest changes of unchanged kernels, by their time (student_t.cpp names the recordings).
TEST(RunNoise, IsThatOfTheRecordedRuns) {
  struct Class {
    double us, spread, floor, drift;
  };
  for (const Class& c :
       {Class{1.9, 0.002, 0.06, 0.03}, Class{2, 0.0015, 0.14, 0.03}, Class{5, 0.0015, 0.09, 0},
        Class{10, 0.0015, 0.05, 0}, Class{100, 0.0015, 0.13, 0}}) {
    const RunNoise noise = run_noise(c.us, false);
    EXPECT_EQ(noise.spread, c.spread) << c.us;
    EXPECT_EQ(noise.floor, c.floor) << c.us;
    EXPECT_EQ(noise.drift, c.drift) << c.us;
  }
  const RunNoise host = run_noise(10, true);
  EXPECT_EQ(host.spread, 0.02);
  EXPECT_EQ(host.floor, 0.5);
  EXPECT_EQ(host.drift, 0.35);
}

}  // namespace
}  // namespace warptune
