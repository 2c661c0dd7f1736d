// Problems that a wisdom does not know, timed at their likely configurations.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "harness/core/space.h"
#include "harness/results/source_hash.h"
#include "harness/results/sweep_file.h"
#include "harness/results/wisdom.h"
#include "tests/program.h"
#include "variants/table.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::run_shell;

class Missing : public ::testing::Test {
 protected:
  std::string decode(const std::string& arguments, const char* lengths = "--prompt-len 4 --steps 2") {
    const auto ended = run_shell("{} decode --model " TEST_DATA "/golden/gqa --device host --out " +
                                 folder_.string() + " " + lengths + " " + arguments);
    EXPECT_EQ(ended.code, 0) << ended.text;
    return ended.text;
  }
  fs::path host(const char* file) const { return folder_ / "host" / file; }
  fs::path sweep(const std::string& text) const {
    std::ofstream(folder_ / "sweep.yaml") << text;
    return folder_ / "sweep.yaml";
  }
  const fs::path folder_ = testing::fresh_folder("missing");
};

TEST_F(Missing, DecodeTimesThemOnceAndUsesTheirWinners) {
  const std::string first = decode("--tune-missing 0.02");
  EXPECT_NE(first.find("problems had no winner"), std::string::npos) << first;
  EXPECT_NE(first.find("plans: tuned"), std::string::npos) << first;
  ASSERT_TRUE(fs::exists(host("wisdom.json")));
  const std::size_t winners = Wisdom::load(host("wisdom.json")).winners().size(),
                    rows = read_sweep(host("missing.csv")).size();
  EXPECT_GT(winners, 10u);
  EXPECT_GE(rows, winners);
  const std::string second = decode("--tune-missing 0.02");
  EXPECT_EQ(second.find("problems had no winner"), std::string::npos) << second;
  EXPECT_NE(second.find("plans: tuned"), std::string::npos) << second;
  EXPECT_EQ(read_sweep(host("missing.csv")).size(), rows);
}

TEST_F(Missing, EveryContextOfTheRunIsTimed) {
  // Steps at 61 to 66 keys, and the timed step.
  const std::string text =
      decode("--tune-missing 0.02 --require-tuned", "--prompt-len 60 --steps 6 --context 200");
  EXPECT_NE(text.find("plans: tuned"), std::string::npos) << text;
  std::set<std::int64_t> contexts;
  for (const Winner& winner : Wisdom::load(host("wisdom.json")).winners())
    if (winner.problem.op == "attention_decode") contexts.insert(winner.problem["context"]);
  EXPECT_EQ(contexts, (std::set<std::int64_t>{64, 128, 256}));
}

TEST_F(Missing, AnotherWisdomUsesTheWinnersOfAnEarlierRunToo) {
  decode("--tune-missing 0.02");
  Wisdom(Wisdom::load(host("wisdom.json")).provenance()).save(folder_ / "given.json");
  const std::string text = decode("--tune-missing 0.02 --wisdom " + (folder_ / "given.json").string());
  EXPECT_EQ(text.find("problems had no winner"), std::string::npos) << text;
  EXPECT_NE(text.find("plans: tuned"), std::string::npos) << text;
}

TEST_F(Missing, NothingIsTimedOnTheHostUnlessAsked) {
  for (const char* arguments : {"", "--tune-missing 0", "--tune-missing 0.02 --baseline naive"}) {
    decode(arguments);
    EXPECT_FALSE(fs::exists(host("missing.csv"))) << arguments;
  }
}

TEST_F(Missing, AnOverriddenOpIsNotTimed) {
  decode("--tune-missing 0.02 --variant swiglu=host_naive");
  const Wisdom wisdom = Wisdom::load(host("wisdom.json"));
  for (const Winner& winner : wisdom.winners()) EXPECT_NE(winner.problem.op, "swiglu");
}

TEST_F(Missing, AFailureCostsTheWinnersOnly) {
  decode("");
  std::ofstream(host("wisdom.json")) << "{\"schema\": 99}";
  std::ofstream(folder_ / "given.json")
      << "{\"schema\": 2, \"device\": \"host\", \"arch\": \"x\", \"driver\": \"\", "
         "\"toolkit\": \"\", \"git_commit\": \"\", \"winners\": []}";
  const std::string text = decode("--tune-missing 0.02 --wisdom " + (folder_ / "given.json").string());
  EXPECT_NE(text.find("the problems without a winner are not timed: "), std::string::npos) << text;
  EXPECT_FALSE(fs::exists(host("missing.csv")));
}

TEST_F(Missing, ASweepTunesOnlyWhatTheWisdomDoesNotKnow) {
  const std::string problems =
      "device: host\ndtypes: fp32\nsampling: {max_time: 0.01}\noutput: " + folder_.string() +
      "\nops:\n  - op: swiglu\n    problems: [{tokens: 4, intermediate: ";
  const auto tune = [&](const std::string& text, const std::string& arguments = "") {
    const auto ended = run_shell("{} tune " + sweep(text).string() + " " + arguments);
    EXPECT_EQ(ended.code, 0) << ended.text;
    return ended.text;
  };
  tune("name: all\n" + problems + "256}]\n");
  const auto rows = [&](const char* file) { return read_sweep(host(file)).size(); };
  tune("name: rest\nmissing: true\n" + problems + "[256, 512]}]\n");
  for (const CsvRow& row : read_sweep(host("rest.csv")))
    EXPECT_NE(row.at("problem").find("intermediate=512"), std::string::npos) << row.at("problem");
  EXPECT_GT(rows("rest.csv"), 0u);
  EXPECT_LE(rows("rest.csv"), 12u);
  EXPECT_NE(tune("name: rest\nmissing: true\n" + problems + "[256, 512]}]\n")
                .find("0 configurations of 0 problems"),
            std::string::npos);
  const auto wrong =
      run_shell("{} tune " + sweep("name: all\n" + problems + "256}]\n").string() + " --wisdom w.json");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.text.find("--wisdom is for a sweep with 'missing: true'"), std::string::npos) << wrong.text;
}

#if WARPTUNE_HAS_CUDA
TEST_F(Missing, ADryRunWithoutTheGpuKnowsWinnersOfTheSameMachineCode) {
  const Provenance h200{"NVIDIA H200", "sm_90a", "580.159.04", Compiler::toolkit(), ""};
  Winner winner{.problem = {"rms_norm", {{"tokens", 1}, {"hidden", 4096}}, DType::bf16},
                .variant = "vectorized",
                .config = parse_config(ops().find("rms_norm").variant("vectorized"),
                                       "block=256,rows=1,vec=8,cache_hint=none,pdl=1"),
                .time_us = 50,
                .source_hash = "of other comments",
                .made_on = h200};
  winner.code_hash = code_hash(Compiler(KernelSources(), {}), ops().find("rms_norm"), winner);
  Wisdom wisdom(h200);
  wisdom.put(winner);
  wisdom.save(folder_ / "wisdom.json");
  const fs::path file = sweep(
      "name: rest\ndtypes: bf16\nmissing: true\nops:\n"
      "  - {op: rms_norm, problems: [{tokens: [1, 2], hidden: 4096}]}\n");
  const auto ended = run_shell("{} tune " + file.string() + " --dry-run --arch sm_90a --wisdom " +
                               (folder_ / "wisdom.json").string());
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_TRUE(testing::has(ended, " of 1 problems on NVIDIA H200")) << ended.text;
}
#endif

}  // namespace
}  // namespace warptune
