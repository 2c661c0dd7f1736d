#include "harness/export/formula.h"

#include <gtest/gtest.h>

#include "harness/core/variant.h"

namespace warptune {
namespace {

Axis all_from_1(const std::string& name, std::int64_t to) { return {name, sample_values(1, to, 1000)}; }

/// The formula of a function of one dim, 1 to 300, as text.
std::string fitted(const std::function<std::int64_t(std::int64_t)>& function) {
  const std::vector<Axis> axes = {all_from_1("tokens", 300)};
  const std::vector<std::int64_t> base = {300};
  const auto formula =
      fit_formula(axes, base, [&](std::span<const std::int64_t> point) { return function(point[0]); });
  if (!formula) return "none";
  for (const std::int64_t v : axes[0].values)
    EXPECT_EQ(formula->evaluate([&](const std::string&) { return v; }), function(v)) << v;
  std::string text = std::to_string(formula->plus);
  for (const auto& f : formula->factors)
    text += " + " + std::to_string(formula->times) + " * ceil(" + std::to_string(f.multiplier) + " * " +
            f.name + " / " + std::to_string(f.divisor) + ")";
  return text;
}

TEST(LaunchFormula, NumbersLinesAndCeilingsAreFound) {
  EXPECT_EQ(fitted([](std::int64_t) { return 7; }), "7");
  EXPECT_EQ(fitted([](std::int64_t v) { return v; }), "0 + 1 * ceil(1 * tokens / 1)");
  EXPECT_EQ(fitted([](std::int64_t v) { return 256 + 12 * v; }), "256 + 12 * ceil(1 * tokens / 1)");
  EXPECT_EQ(fitted([](std::int64_t v) { return ceil_div(v, 8); }), "0 + 1 * ceil(1 * tokens / 8)");
  EXPECT_EQ(fitted([](std::int64_t v) { return 32 * ceil_div(v, 64); }), "0 + 32 * ceil(1 * tokens / 64)");
  EXPECT_EQ(fitted([](std::int64_t v) { return ceil_div(11 * v, 16); }), "0 + 1 * ceil(11 * tokens / 16)");
}

TEST(LaunchFormula, AFunctionOfAnotherFormHasNone) {
  EXPECT_EQ(fitted([](std::int64_t v) { return v * v; }), "none");
  EXPECT_EQ(fitted([](std::int64_t v) { return std::max<std::int64_t>(v, 100); }), "none");
}

TEST(LaunchFormula, SeveralDimsAreAProduct) {
  const std::vector<Axis> axes = {all_from_1("batch", 9), all_from_1("q_len", 200), all_from_1("heads", 3)};
  const std::vector<std::int64_t> base = {9, 200, 3};
  const auto formula = fit_formula(
      axes, base, [](std::span<const std::int64_t> p) { return 32 * p[0] * ceil_div(p[1], 128); });
  ASSERT_TRUE(formula.has_value());
  EXPECT_EQ(formula->factors.size(), 2u) << "the number of heads does not matter";
  const auto at = [&](std::int64_t batch, std::int64_t q_len) {
    return formula->evaluate([&](const std::string& name) { return name == "batch" ? batch : q_len; });
  };
  EXPECT_EQ(at(1, 1), 32);
  EXPECT_EQ(at(5, 129), 32 * 5 * 2);
}

TEST(LaunchFormula, SamplesHoldBothEndsAndNeighbors) {
  EXPECT_EQ(sample_values(3, 6, 10), (std::vector<std::int64_t>{3, 4, 5, 6}));
  const auto values = sample_values(1, 1'000'000, 40);
  EXPECT_EQ(values.front(), 1);
  EXPECT_EQ(values[1], 2);
  EXPECT_EQ(values.back(), 1'000'000);
  EXPECT_LE(values.size(), 40u);
  EXPECT_TRUE(std::ranges::is_sorted(values));
}

}  // namespace
}  // namespace warptune
