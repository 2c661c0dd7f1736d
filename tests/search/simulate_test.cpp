#include "harness/search/simulate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/core/error.h"
#include "tests/sweep_rows.h"
#include "variants/table.h"

namespace warptune {
namespace {
using testing::Fields;
using testing::sweep_fields;
using testing::write_sweep;

Fields row(const std::string& problem, const std::string& config, const std::string& us,
           const std::string& status = "ok") {
  return sweep_fields(
      {{"problem", problem}, {"variant", "a"}, {"config", config}, {"time_us", us}, {"status", status}});
}

TEST(Simulate, ReadsASweep) {
  const auto path = write_sweep(
      "simulate.csv", {row("p[n=1]", "block=64,mode=x", "4"), row("p[n=1]", "block=128,mode=y", "", "crash"),
                       row("p[n=1]", "block=64,mode=x", "2"), row("q[n=1]", "block=64", "", "timeout")});
  const auto spaces = recorded_spaces(ops(), path, "");
  ASSERT_EQ(spaces.size(), 1u);
  EXPECT_EQ(spaces[0].times_us, (std::vector<double>{2, INFINITY}));
  EXPECT_EQ(spaces[0].best_us, 2);
  EXPECT_EQ(convergence(spaces[0], {.budget = parse_budget("2")}, 1), (std::vector<double>{1, 1}));
  EXPECT_THROW(recorded_spaces(ops(), path, "nothing"), InputError);
}

TEST(Simulate, IgnoresTimesOfFinalists) {
  std::vector<Fields> rows = {row("p[n=1]", "block=64", "4"), row("p[n=1]", "block=128", "5")};
  for (const auto& [cache, us] : Fields{{"cold", "4.5"}, {"hot", "1"}, {"isolated", "9"}})
    rows.push_back(sweep_fields({{"problem", "p[n=1]"},
                                 {"variant", "a"},
                                 {"config", "block=64"},
                                 {"time_us", us},
                                 {"cache", cache},
                                 {"detail", "finalist"}}));
  const auto spaces = recorded_spaces(ops(), write_sweep("simulate_finalists.csv", rows), "");
  ASSERT_EQ(spaces.size(), 1u) << "hot rows of finalists are no space of their own";
  EXPECT_EQ(spaces[0].times_us, (std::vector<double>{4, 5}));
}

}  // namespace
}  // namespace warptune
