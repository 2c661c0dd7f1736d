#include "harness/tune/schedule.h"

#include <gtest/gtest.h>

#include "tests/tune/sweep_text.h"

namespace warptune {
namespace {
using testing::error_of;
using testing::file;
using testing::load;
using testing::with_op;

TEST(Schedule, OverridesConstraintsAndFilter) {
  const Sweep sweep =
      load(with_op("    problems: [{tokens: 1, hidden: 4096}]\n    dtypes: fp32\n    variants:\n"
                   "      - naive: {parameters: {block: [64, 96, 128]}, constraints: ['block % 64 == 0']}\n  "
                   "    - host_naive\n"));
  const auto cuda = make_schedule(sweep, known_device("sm_90a"));
  ASSERT_EQ(cuda.size(), 1u);
  ASSERT_EQ(cuda[0].counts.size(), 1u);
  EXPECT_EQ(cuda[0].counts[0].all, 3);
  EXPECT_EQ(cuda[0].counts[0].legal, 2);
  EXPECT_EQ(cuda[0].candidates[1].config().str(), "block=128");
  EXPECT_EQ(make_schedule(sweep, DeviceFacts{.name = "host"})[0].candidates.size(), 1u);
  EXPECT_THROW(make_schedule(sweep, known_device("sm_90a"), "linear/"), InputError);
  EXPECT_THROW(make_schedule(sweep, known_device("sm_90a"), "("), InputError);
}

TEST(Schedule, AFilterMayBeThatOfAPrintedProblem) {
  const Sweep sweep = load(
      "ops:\n  - op: linear\n    dtypes: fp32\n    problems: [{tokens: [1, 2], in: 64, out: 128}]\n"
      "    variants: [host_naive]\n"
      "  - op: rms_norm\n    dtypes: fp32\n    problems: [{tokens: 1, hidden: 64}]\n    variants: "
      "[host_naive]\n");
  const auto scheduled = [&](const std::string& filter) {
    std::vector<std::string> problems;
    for (const ScheduledProblem& p : make_schedule(sweep, DeviceFacts{.name = "host"}, filter))
      problems.push_back(p.item->problem.op + std::to_string(p.item->problem["tokens"]));
    return problems;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(scheduled("^linear\\[tokens=1,in=64,out=128,dtype=fp32"), Names{"linear1"});
  EXPECT_EQ(scheduled("tokens=1,"), (Names{"linear1", "rms_norm1"}));
  EXPECT_EQ(scheduled("^linear/|^rms_norm\\["), (Names{"linear1", "linear2", "rms_norm1"}));
  EXPECT_EQ(scheduled("host_naive").size(), 3u);
  EXPECT_THROW(scheduled("fp32"), InputError) << "no op/variant, and not meant for problems";
}

TEST(Schedule, NamesTheConstraintThatExcludesAll) {
  const Sweep sweep =
      load(with_op("    problems: [{tokens: 1, hidden: 8}]\n    dtypes: fp32\n"
                   "    variants: [host_naive]\n    constraints: ['hidden % (tokens + 2) == 0']\n"));
  const auto plan = make_schedule(sweep, DeviceFacts{.name = "host"});
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(
      plan[0].why_none,
      file() +
          ":5: rms_norm[tokens=1,hidden=8,dtype=fp32]/host_naive: constraint 'hidden % (tokens + 2) == 0' "
          "excludes it");
}

/// A list of `count` numbers.
std::string numbers(int count) {
  std::string values = "[1";
  for (int i = 2; i <= count; ++i) values += "," + std::to_string(i);
  return values + "]";
}
TEST(Schedule, WhatNoVariantFusesIsLeftOutOfAModel) {
  const std::string model = "models:\n  - {model: llama3-8b, batch: 8, context: 512, dtypes: bf16, skip: ";
  const auto split_norms = [](const Schedule& schedule) {
    return std::ranges::count_if(schedule, [](const ScheduledProblem& p) {
      EXPECT_FALSE(p.candidates.empty()) << p.item->problem.key();
      return p.item->problem.key().find("rms_scale") != std::string::npos;
    });
  };
  const Sweep fast = load(model + "[linear/naive, linear/mma_cp_async]}\n"),
              all = load(model + "[linear/tiled]}\n");
  EXPECT_EQ(split_norms(make_schedule(fast, known_device("sm_80"))), 0);
  EXPECT_GT(split_norms(make_schedule(fast, known_device("sm_90a"))), 0);
  EXPECT_GT(split_norms(make_schedule(all, known_device("sm_80"))), 0);
}

TEST(Schedule, LegalConfigurationsOfALargeSpaceArePlanned) {
  const std::string values = numbers(1500);
  const Sweep sweep =
      load(with_op("    problems: [{tokens: 1, hidden: 8}]\n    variants:\n"
                   "      - vectorized: {parameters: {block: " +
                   values + ", rows: " + values + ", vec: " + values + ", cache_hint: none, pdl: 0}}\n"));
  const auto plan = make_schedule(sweep, known_device("sm_90a"));
  EXPECT_EQ(plan.at(0).counts.at(0).all, 1500LL * 1500 * 1500);
  EXPECT_LT(plan.at(0).candidates.size(), 100u);
}

/// The error of a schedule, on the host or another device.
std::string refusal_of(const std::string& sweep, const DeviceFacts& facts) {
  const Sweep loaded = load(sweep);
  try {
    make_schedule(loaded, facts);
  } catch (const InputError& e) {
    return e.what();
  }
  return "not refused";
}

TEST(Schedule, SpacesTooLargeForTheMemoryAreRefused) {
  const auto refusal = [](const std::string& more) {
    return refusal_of(
        with_op("    problems: [{tokens: 1, hidden: 512}]\n    variants:\n"
                "      - vectorized: {parameters: {block: {from: 1, to: 1000, step: 1}, pdl: {from: 1, to: "
                "11000, step: 1}, rows: 1, vec: 1, cache_hint: none}}\n" +
                more),
        known_device("sm_90a"));
  };
  const std::string sentence =
      file() +
      ":5: variant 'rms_norm/vectorized' has 11000000 configurations before constraints; at most 10000000";
  EXPECT_EQ(refusal(""), sentence + " configurations are possible, and 100000000 steps to find them");
  EXPECT_EQ(refusal("constraint_rows: true\n"), sentence + " are possible with 'constraint_rows'");
}

TEST(Schedule, NamedVariantsMustFitTheDevice) {
  const Sweep sweep = load(with_op("    problems: [{tokens: 1, hidden: 8}]\n    variants: [naive]\n"));
  EXPECT_THROW(make_schedule(sweep, DeviceFacts{.name = "host"}), InputError);
}

TEST(Schedule, AConstraintThatIsNoNumberHasItsLine) {
  const auto refusal = [](const std::string& constraint) {
    const Sweep sweep =
        load(with_op("    problems: [{tokens: 1, hidden: 8}]\n    dtypes: fp32\n    variants:\n"
                     "      - host_threaded:\n          parameters: {threads: [1, 2]}\n"
                     "          constraints:\n            - threads > 0\n            - " +
                     constraint + "\n"));
    try {
      make_schedule(sweep, DeviceFacts{.name = "host"});
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("not refused");
  };
  const auto sentence = [](const std::string& constraint, const std::string& where) {
    return file() + ":10: variant 'rms_norm/host_threaded': constraint '" + constraint + "' is not a number" +
           where + ": it divides by zero, or a result in it is not finite";
  };
  EXPECT_EQ(refusal("1/0"), sentence("1/0", ""));
  EXPECT_EQ(refusal("1/0 > 1"), sentence("1/0 > 1", ""));
  EXPECT_EQ(refusal("sqrt(-1) < 1"), sentence("sqrt(-1) < 1", ""));
  EXPECT_EQ(refusal("1 / (threads - 1) > 0"), sentence("1 / (threads - 1) > 0", " for threads=1"));
  EXPECT_EQ(refusal("hidden % (tokens - 1) == 0"), sentence("hidden % (tokens - 1) == 0", ""));
  EXPECT_EQ(refusal("threads == 1 || 8 % (threads - 1) == 0"), "not refused");
  EXPECT_EQ(refusal("threads == 1"), "not refused");
}

TEST(Schedule, APruneConditionThatIsNoNumberHasItsLine) {
  EXPECT_EQ(error_of("prune:\n  - spill_bytes > 0 && registers / spill_bytes < 1\n"
                     "  - registers / spill_bytes > 1\n" +
                     with_op("    problems: [{tokens: 1, hidden: 8}]\n")),
            "3: prune condition 'registers / spill_bytes > 1' is not a number for 32 registers, 0 bytes of "
            "spills, 0 "
            "bytes of shared memory and an occupancy of 100 %: it divides by zero, or a result in it is not "
            "finite");
}

TEST(Schedule, LimitedConfigurationsHaveTheDefaultTile) {
  const DeviceFacts device = known_device("sm_80");
  for (const int limit : {1, 2, 7}) {
    const Sweep sweep =
        load("ops:\n  - op: linear\n    dtypes: bf16\n    max_configs: " + std::to_string(limit) +
             "\n    problems: [{tokens: [48, 64], in: 4096, out: [4096, 6144]}]\n    variants: "
             "[mma_cp_async]\n");
    for (const ScheduledProblem& p : make_schedule(sweep, device)) {
      EXPECT_EQ(p.candidates.size(), limit);
      const auto tiles = sweep.ops->default_tiles(p.item->problem, device, "mma_cp_async");
      ASSERT_FALSE(tiles.empty());
      EXPECT_TRUE(std::ranges::any_of(p.candidates, [&](const Candidate& c) {
        return c.config() == tiles.front().config;
      })) << p.item->problem.key();
    }
  }
}

TEST(Schedule, SpreadKeepsBothEnds) {
  std::vector<Config> configs;
  for (int i = 0; i < 10; ++i) configs.push_back({{"i", i}});
  const auto few = spread(configs, 3);
  ASSERT_EQ(few.size(), 3u);
  EXPECT_EQ(few.front()["i"], 0);
  EXPECT_EQ(few.back()["i"], 9);
  EXPECT_EQ(spread(configs, 0).size(), 10u);
}

}  // namespace
}  // namespace warptune
