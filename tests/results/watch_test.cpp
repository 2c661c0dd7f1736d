// The part of a wisdom that the regression gate times.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "harness/results/wisdom_export.h"

namespace warptune {
namespace {

Winner winner(const std::string& variant, int tokens, double us) {
  Winner made{.problem = {.op = "linear", .dims = {{"tokens", tokens}}, .dtype = DType::bf16},
              .variant = variant,
              .time_us = us};
  made.times.push_back({.variant = variant});
  return made;
}

std::set<std::int64_t> tokens_of(const Wisdom& wisdom, const std::string& variant) {
  std::set<std::int64_t> tokens;
  for (const Winner& w : wisdom.winners())
    if (w.variant == variant) tokens.insert(w.problem["tokens"]);
  return tokens;
}

TEST(Watch, TakesTheStepsAndTheLongestProblemsOfEachKernel) {
  Wisdom wisdom({.device = "D", .arch = "sm_80", .driver = "1", .toolkit = "13.0", .git_commit = "c"});
  for (int tokens = 1; tokens <= 6; ++tokens) wisdom.put(winner("mma", tokens, tokens));
  wisdom.put(winner("gemv", 7, 1));
  StepWinner step{.step = {.op = kStepOp, .dims = {{"batch", 1}}, .dtype = DType::bf16}, .time_us = 9};
  step.plans.plans.push_back({.problem = winner("mma", 2, 2).problem, .variant = "mma", .config = {}});
  wisdom.put(step);
  const Watched watched = watched_part(wisdom, 3);
  EXPECT_EQ(watched.wisdom.provenance(), wisdom.provenance());
  EXPECT_EQ(watched.wisdom.steps().size(), 1u);
  EXPECT_EQ(tokens_of(watched.wisdom, "mma"), (std::set<std::int64_t>{2, 5, 6})) << "2 is in a step";
  EXPECT_EQ(tokens_of(watched.wisdom, "gemv"), std::set<std::int64_t>{7});
  for (const Winner& w : watched.wisdom.winners()) EXPECT_TRUE(w.times.empty());
  EXPECT_EQ(summary_of(watched), "watches 1 steps and 4 winners; does not watch 3 winners: linear/mma 3\n");
}

TEST(Watch, OfTheRecordedWisdomWatchesEveryKernelOfItsSteps) {
  const Wisdom wisdom = Wisdom::load(SOURCE_ROOT "/results/h200/wisdom.json");
  const Watched watched = watched_part(wisdom, 3);
  EXPECT_EQ(watched.wisdom.steps().size(), wisdom.steps().size());
  std::set<std::string> kernels, watched_kernels;
  for (const Winner& w : wisdom.winners()) kernels.insert(w.problem.op + "/" + w.variant);
  for (const Winner& w : watched.wisdom.winners()) watched_kernels.insert(w.problem.op + "/" + w.variant);
  EXPECT_EQ(watched_kernels, kernels);
  std::size_t left_out = 0;
  for (const auto& [name, count] : watched.left_out) left_out += count;
  EXPECT_EQ(left_out + watched.wisdom.winners().size(), wisdom.winners().size());
  EXPECT_LT(watched.wisdom.winners().size(), 150u);
}

}  // namespace
}  // namespace warptune
