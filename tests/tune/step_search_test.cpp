// The search of a model step's plans, on a timer without a device.
#include "harness/tune/step_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <span>

#include "harness/core/space.h"
#include "harness/tune/step_candidates.h"
#include "variants/table.h"

namespace warptune {
namespace {

using Dims = std::vector<std::pair<std::string, std::string>>;

/// Steps whose times are a function of their picks, with intervals of +-0.05 %.
class FakeTimer : public StepTimer {
 public:
  explicit FakeTimer(std::function<double(const Picks&)> us) : us_(std::move(us)) {}

  StepTrial time(const Picks& incumbent, const Picks& candidate) override {
    timed.push_back(candidate);
    if (wrong.contains(candidate)) return {};
    const double luck = lucky.contains(candidate) && ++times_[candidate] == 1 ? 0.5 : 1;
    const double of_candidate = us_(candidate), of_incumbent = us_(incumbent);
    const double ratio = luck * of_candidate / of_incumbent;
    return {.ok = true, .ratio = ratio, .low = ratio * 0.9995, .high = ratio * 1.0005};
  }
  bool time_is_over() const override { return timed.size() >= trials; }
  bool has_part(const Picks& picks, std::size_t part) const override { return !has || has(picks, part); }
  bool are_neighbors(std::size_t, std::size_t a, std::size_t b) const override {
    return !neighbors || neighbors(a, b);
  }
  bool is_option(std::size_t part) const override { return options.contains(part); }
  Complexity complexity(std::size_t, std::size_t candidate) const override {
    return {false, shared.contains(candidate) ? shared.at(candidate) : 0, 0, candidate};
  }

  std::vector<Picks> timed;
  std::size_t trials = 1'000'000;  // after so many the time is over
  std::set<Picks> wrong, lucky;
  std::map<std::size_t, long long> shared;  // of a candidate of any part
  std::set<std::size_t> options;
  std::function<bool(const Picks&, std::size_t)> has;
  std::function<bool(std::size_t, std::size_t)> neighbors;

 private:
  std::function<double(const Picks&)> us_;
  std::map<Picks, int> times_;
};

TEST(StepSearch, ExchangesOnePartAtATime) {
  const double us[2][3] = {{5, 4, 3}, {2, 7, 1}};
  FakeTimer timer([&](const Picks& p) { return us[0][p[0]] + us[1][p[1]]; });
  const StepSearch search = search_step(timer, {3, 3}, {0, 0});
  EXPECT_EQ(search.picks, (Picks{2, 2}));
  EXPECT_EQ(static_cast<std::size_t>(search.trials), timer.timed.size());
}

/// A kernel that starts early is better only behind one that leaves it room.
TEST(StepSearch, APartIsTriedAgainAfterAnotherChanged) {
  FakeTimer timer([](const Picks& p) {
    return 10 - (p[0] == 1 && p[1] == 1 ? 3.0 : 0.0) + (p[0] == 1 && p[1] == 0 ? 1.0 : 0.0) -
           (p[1] == 1 ? 0.5 : 0.0);
  });
  const StepSearch search = search_step(timer, {2, 2}, {0, 0});
  EXPECT_EQ(search.picks, (Picks{1, 1}));
  EXPECT_LE(search.rounds, 3);
}

TEST(StepSearch, NothingChangesAmongEquals) {
  FakeTimer timer([](const Picks&) { return 7.0; });
  const StepSearch search = search_step(timer, {4, 3, 1}, {2, 1, 0});
  EXPECT_EQ(search.picks, (Picks{2, 1, 0}));
  EXPECT_EQ(search.trials, 3 + 2) << "each other candidate once, and a part with one candidate never";
}

TEST(StepSearch, TheSimplestOfTheFastestWins) {
  FakeTimer timer([](const Picks& p) { return std::vector{10.0, 8.004, 8.0, 8.003, 9.0}[p[0]]; });
  timer.shared = {{1, 2048}, {2, 4096}, {3, 1024}, {4, 0}};
  EXPECT_EQ(search_step(timer, {5}, {0}).picks, Picks{3}) << "4 is simpler, but slower";
}

TEST(StepSearch, AWrongCandidateIsNeverTaken) {
  FakeTimer timer([](const Picks& p) { return p[0] == 1 ? 1.0 : 5.0 - static_cast<double>(p[0]); });
  timer.wrong = {{1}};
  EXPECT_EQ(search_step(timer, {3}, {0}).picks, Picks{2});
}

TEST(StepSearch, ALuckySampleIsTimedOnceMore) {
  FakeTimer timer([](const Picks&) { return 5.0; });
  timer.lucky = {{2}};
  const StepSearch search = search_step(timer, {4}, {0});
  EXPECT_EQ(search.picks, Picks{0});
  EXPECT_EQ(search.trials, 3 + 1);
}

/// Part 0 is an option: with it the step has part 2 instead of part 1.
TEST(StepSearch, OnlyPartsOfTheStepAreTimed) {
  FakeTimer timer(
      [](const Picks& p) { return (p[0] == 1 ? 6.0 : 10.0) - (p[0] == 1 && p[2] == 1 ? 2.0 : 0.0); });
  timer.has = [](const Picks& p, std::size_t part) { return part == 0 || part == (p[0] == 1 ? 2u : 1u); };
  EXPECT_EQ(search_step(timer, {2, 2, 2}, {0, 0, 0}).picks, (Picks{1, 0, 1}));
  for (const Picks& picks : timer.timed) EXPECT_EQ(picks[1], 0u) << "part 1 left with the option";
}

/// Part 0 is an option: with it the step has part 2, whose first candidate is slow, instead of part 1.
TEST(StepSearch, AnOptionIsJudgedWithItsPartsExchanged) {
  const auto us = [](const Picks& p) { return p[0] == 1 ? 12.0 - 5.0 * p[2] : 10.0 - p[1]; };
  FakeTimer timer(us);
  timer.has = [&](const Picks& p, std::size_t part) {
    EXPECT_TRUE(p[0] == 0 || std::ranges::count(timer.timed, p[0], [](const Picks& t) { return t[0]; }) > 0);
    return part == 0 || part == (p[0] == 1 ? 2u : 1u);
  };
  EXPECT_EQ(search_step(timer, {2, 2, 2}, {0, 0, 0}).picks, (Picks{0, 1, 0})) << "it has no option";
  timer.options = {0};
  EXPECT_EQ(search_step(timer, {2, 2, 2}, {0, 0, 0}).picks, (Picks{1, 1, 1}));
  for (timer.trials = 0; timer.trials < 12; ++timer.trials) {
    timer.timed.clear();
    EXPECT_LE(us(search_step(timer, {2, 2, 2}, {0, 0, 0}).picks), 10) << timer.trials;
  }
}

/// Candidates are a grid of four rows and four columns.
TEST(StepSearch, GoesFromNeighborToNeighbor) {
  FakeTimer timer(
      [](const Picks& p) { return 20 - static_cast<double>(p[0] / 4 * 4) - static_cast<double>(p[0] % 4); });
  timer.neighbors = [](std::size_t a, std::size_t b) { return a / 4 == b / 4 || a % 4 == b % 4; };
  const StepSearch search = search_step(timer, {16}, {0});
  EXPECT_EQ(search.picks, Picks{15});
  EXPECT_EQ(std::set(timer.timed.begin(), timer.timed.end()).size(), 3u + 3 + 3 + 2)
      << "row and column of 0, the row of 12, the rest of the column of 15";
  EXPECT_EQ(search.rounds, 2);
}

/// Times that depend on who is timed first would alternate for ever.
TEST(StepSearch, EndsAfterTheMostRounds) {
  int call = 0;
  FakeTimer timer([&](const Picks&) { return ++call % 2 == 1 ? 1.0 : 2.0; });  // each candidate is faster
  const StepSearch search = search_step(timer, {2, 2}, {0, 0}, 5);
  EXPECT_EQ(search.rounds, 5);
}

SearchedPart part(const Dims& fused, const std::string& variant) {
  Dims dims{{"tokens", "8"}, {"in", "64"}, {"out", "64"}};
  dims.insert(dims.end(), fused.begin(), fused.end());
  SearchedPart part{.problem = find_op("linear").op.problem(dims, DType::bf16)};
  part.plans.push_back({.problem = part.problem, .variant = variant});
  return part;
}

TEST(StepParts, AnOptionIsTriedWhereItsProblemsHaveMoreThanNaiveKernels) {
  const FusionOption split{.name = "split_norm", .dim = "prologue", .label = "rms_scale"};
  const auto is_tried = [&](const std::vector<SearchedPart>& parts) { return is_worth_trying(split, parts); };
  const Dims scaled{{"prologue", "rms_scale"}};
  EXPECT_TRUE(is_tried({part({}, "mma"), part(scaled, "wgmma_streaming")}));
  EXPECT_FALSE(is_tried({part({}, "mma"), part(scaled, "naive")}));
  EXPECT_TRUE(is_tried({part({}, "naive"), part(scaled, "naive")}));
  EXPECT_FALSE(is_tried({part({}, "mma"), part({{"prologue", "rms_norm"}}, "mma")}));
}

TEST(StepParts, PicksOfARecordedStep) {
  SearchedPart gemm = part({}, "mma");
  gemm.plans.push_back({.problem = gemm.problem, .variant = "wgmma_streaming"});
  const std::vector<SearchedPart> parts = {{.option = "fuse_norm"}, {.option = "fuse_o"}, gemm};
  StepPlans step{.plans = {gemm.plans[1]}};
  set_option(step.options, "fuse_norm", true);
  EXPECT_EQ(picks_of(step, parts, {0, 1, 0}), (Picks{1, 0, 1})) << "an option that it lacks is off";
  step.options.set("fuse_norm", 7, "maybe");
  EXPECT_EQ(picks_of(step, parts, {0, 1, 0}), (Picks{1, 0, 1})) << "an edited file";
  step.plans[0].variant = "gone";
  EXPECT_EQ(picks_of(step, parts, {0, 1, 0}), (Picks{1, 0, 0})) << "no candidate";
}

TEST(StepParts, ParametersForStepsTakeAllTheirValues) {
  const OpEntry& linear = find_op("linear");
  const DeviceFacts facts = known_device("sm_90a");
  const auto counts = [&](const Dims& fused) {
    Dims dims{{"tokens", "1"}, {"in", "4096"}, {"out", "4096"}};
    dims.insert(dims.end(), fused.begin(), fused.end());
    const Variant &bulk = linear.variant("gemv_bulk_copy"), &other = linear.variant("gemv_vectorized");
    std::vector<PlanCandidate> candidates = {
        {&bulk, parse_config(bulk,
                             "blocks_per_sm=1,warps=8,rows=4,tile_k=1024,stages=3,register_tiles=0,stagger=1,"
                             "prefetch=0,late_prefetch=0,pdl=1")},
        {&other, parse_config(other, "warps=8,warps_per_row=8,rows=4,unroll=1,pdl=1")}};
    const auto before = candidates;
    add_step_values(candidates, linear.op.problem(dims, DType::bf16), facts);
    EXPECT_TRUE(std::ranges::equal(before, std::span(candidates).first(2))) << "the first stay the first";
    std::set<std::int64_t> early, late;
    for (const auto& [variant, config] : candidates)
      if (variant == &bulk) early.insert(config["prefetch"]), late.insert(config["late_prefetch"]);
    return std::tuple(candidates.size(), early, late);
  };
  using Values = std::set<std::int64_t>;
  EXPECT_EQ(counts({{"epilogue", "add"}}), std::tuple(std::size_t{7}, Values{0, 4, 8, 16}, Values{0, 4, 8}));
  EXPECT_EQ(counts({}), std::tuple(std::size_t{2}, Values{0}, Values{0})) << "qkv prefetches nothing";
}

TEST(StepParts, NeighborsDifferInStepValuesOrInAllElse) {
  const OpEntry& linear = find_op("linear");
  const auto plan = [&](const char* variant, const std::string& config) {
    return StepPlan{.variant = variant, .config = parse_config(linear.variant(variant), config)};
  };
  const auto mma = [&](int stages, int prefetch) {
    return plan("gemv_mma", "blocks_per_sm=1,rows=8,tile_k=2048,stages=" + std::to_string(stages) +
                                ",prefetch=" + std::to_string(prefetch) + ",late_prefetch=0,pdl=1");
  };
  const StepPlan vectorized = plan("gemv_vectorized", "warps=8,warps_per_row=8,rows=4,unroll=1,pdl=1");
  const auto differ = [&](const StepPlan& a, const StepPlan& b) { return !are_neighbors(linear, a, b); };
  EXPECT_FALSE(differ(mma(4, 0), mma(4, 8)));
  EXPECT_FALSE(differ(mma(4, 8), mma(6, 8)));
  EXPECT_TRUE(differ(mma(4, 0), mma(6, 8)));
  EXPECT_FALSE(differ(mma(4, 0), vectorized)) << "a variant without the parameter has its first value";
  EXPECT_TRUE(differ(mma(4, 8), vectorized));
}

TEST(StepParts, EveryOptionHasProblems) {
  for (const FusionOption& option : kFusionOptions)
    EXPECT_TRUE(std::ranges::any_of(ops(), [&](const OpEntry& entry) {
      const Dim* dim = entry.op.find_dim(option.dim);
      return dim && std::ranges::find(dim->labels, option.label) != dim->labels.end();
    })) << option.name;
}

TEST(StepSearch, KeepsTheBestWhenTheTimeIsOver) {
  const double us[2][3] = {{5, 4, 3}, {2, 7, 1}};
  for (std::size_t trials = 0; trials < 8; ++trials) {
    FakeTimer timer([&](const Picks& p) { return us[0][p[0]] + us[1][p[1]]; });
    timer.trials = trials;
    const StepSearch search = search_step(timer, {3, 3}, {0, 0});
    EXPECT_LE(timer.timed.size(), trials + 1) << "a choice is timed once more";
    EXPECT_LE(us[0][search.picks[0]] + us[1][search.picks[1]], 7) << trials;
    if (trials >= 3) {
      EXPECT_EQ(search.picks[0], 2u) << trials;
    }
  }
}

}  // namespace
}  // namespace warptune
