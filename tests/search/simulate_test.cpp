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

TEST(Simulate, BeginsWithDefaultTiles) {
  const OpEntry& linear = ops().find("linear");
  const Problem problem =
      linear.op.problem(Assignment{{"tokens", 1}, {"in", 4096}, {"out", 4096}}, DType::bf16);
  const auto tiles = ops().default_tiles(problem, known_device("sm_90a"));
  ASSERT_FALSE(tiles.empty());
  const auto row = [&](const std::string& variant, const std::string& config) {
    return sweep_fields({{"problem", problem.key()},
                         {"dtype", "bf16"},
                         {"arch", "sm_90a"},
                         {"op", "linear"},
                         {"variant", variant},
                         {"config", config},
                         {"time_us", "4"}});
  };
  const auto path = write_sweep(
      "simulate_tiles.csv", {row("naive", "block=64"), row(tiles[0].variant->name, tiles[0].config.str())});
  EXPECT_EQ(recorded_spaces(ops(), path, "").at(0).space.likely, std::vector<std::size_t>{1});
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

TEST(Simulate, PrintsOneTableAtGivenBudgets) {
  RecordedSpace space{.problem = "p[n=1]", .times_us = {4, 2, 3, 2.5}, .best_us = 2};
  for (int i = 0; i < 4; ++i)
    space.space.candidates.push_back({.variant = "v", .config = {{"block", 32 << i}}});
  std::FILE* log = std::tmpfile();
  simulate(
      {space, space},
      {.strategies = {"exhaustive"}, .seeds = 3, .at = {parse_budget("1"), parse_budget("50%")}, .log = log});
  std::rewind(log);
  std::string text(2000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), log));
  std::fclose(log);
  EXPECT_NE(text.find("median (p90) of 3 seeds"), std::string::npos) << text;
  EXPECT_NE(text.find("50 %"), std::string::npos) << text;
  EXPECT_NE(text.find("2.0000 (2.0000)"), std::string::npos) << text << "after one evaluation";
  EXPECT_NE(text.find("1.0000 (1.0000)"), std::string::npos) << text << "after half of them";
  EXPECT_NE(text.find("geometric mean"), std::string::npos) << text;
  EXPECT_NE(text.find("2 spaces"), std::string::npos) << text;
}

}  // namespace
}  // namespace warptune
