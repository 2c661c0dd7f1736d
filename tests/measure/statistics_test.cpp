#include "harness/measure/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace warptune {
namespace {

std::vector<double> counting(int n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

TEST(Statistics, QuantilesOfKnownValues) {
  const std::vector<double> v{1, 2, 3, 4, 5};
  EXPECT_DOUBLE_EQ(quantile(v, 0.5), 3);
  EXPECT_DOUBLE_EQ(quantile(v, 0.1), 1.4);
  EXPECT_DOUBLE_EQ(quantile(v, 1.0), 5);
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
  const std::vector<double> beyond{1, 2, NAN};
  EXPECT_EQ(quantile(std::span(beyond).first(2), 1.0), 2) << "nothing behind the samples is read";
}

// Published table of order-statistic intervals of the median (95 %): n = 6: 1 and 6, 11: 2 and 10, 20: 6 and
// 15, 50: 18 and 33.
TEST(Statistics, MedianIntervalMatchesTheTable) {
  EXPECT_EQ(median_interval(counting(5)), std::pair(1.0, 5.0));
  EXPECT_EQ(median_interval(counting(6)), std::pair(1.0, 6.0));
  EXPECT_EQ(median_interval(counting(11)), std::pair(2.0, 10.0));
  EXPECT_EQ(median_interval(counting(20)), std::pair(6.0, 15.0));
  EXPECT_EQ(median_interval(counting(50)), std::pair(18.0, 33.0));
  EXPECT_TRUE(std::isnan(median_interval({}).first) && std::isnan(median_interval({}).second));
}

TEST(Statistics, RelativeHalfWidthOfKnownAndOddValues) {
  EXPECT_DOUBLE_EQ(rel_half_width(counting(11)), 4.0 / 6.0);  // 2..10 about 6
  EXPECT_EQ(rel_half_width(std::vector<double>(6, 7)), 0);
  EXPECT_EQ(rel_half_width(std::vector<double>(6, 0)), 0);
  EXPECT_EQ(rel_half_width(std::vector<double>{-1, -1, 0, 0, 1, 1}), INFINITY);
  EXPECT_EQ(rel_half_width(std::vector<double>{-INFINITY, 1, 2, 3, 4, 5}), INFINITY);
  EXPECT_EQ(rel_half_width(std::vector<double>{1, 2, 3, 4, 5, INFINITY}), INFINITY);
  for (const std::size_t few : {1u, 3u, 5u})
    EXPECT_EQ(rel_half_width(std::vector<double>(few, 7)), INFINITY) << "no 95 % interval of " << few;
  EXPECT_TRUE(std::isnan(rel_half_width({})));
}

TEST(Statistics, MedianIntervalCoversAtLeastNineteenOfTwenty) {
  std::mt19937_64 random(3);
  std::exponential_distribution<double> skewed(1.0);
  int covered = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<double> v(21);
    for (double& x : v) x = skewed(random);
    std::sort(v.begin(), v.end());
    const auto [low, high] = median_interval(v);
    covered += low <= std::log(2.0) && std::log(2.0) <= high;
  }
  EXPECT_GE(covered, 1900);
}

}  // namespace
}  // namespace warptune
