// One configuration for a family of problems.
#include "harness/tune/shared_choice.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/results/csv.h"
#include "tests/program.h"

namespace warptune {
namespace {

ProblemTimes times(std::int64_t tokens, std::int64_t hidden,
                   std::map<std::pair<std::string, std::string>, double> us) {
  return {.csv = "h/s.csv",
          .cache = "cold",
          .problem = {"rms_norm", {{"tokens", tokens}, {"hidden", hidden}}, DType::fp32},
          .us = std::move(us)};
}

TEST(SharedChoice, IsTheBestGeometricMeanOfAFamily) {
  // a is the fastest at 1 token and 4 times slower at 8; b is never more than 1.5 times slower.
  const auto choices =
      shared_choices({times(1, 64, {{{"v", "a"}, 2}, {{"v", "b"}, 3}, {{"v", "c"}, 2.5}}),
                      times(1, 128, {{{"v", "a"}, 1}}), times(8, 64, {{{"v", "a"}, 16}, {{"v", "b"}, 4}})},
                     {"tokens"});
  ASSERT_EQ(choices.size(), 1u) << "hidden=128 is no family";
  EXPECT_EQ(choices[0].config, "b") << "c was not tried at 8 tokens";
  EXPECT_DOUBLE_EQ(choices[0].loss, std::sqrt(1.5));
  ASSERT_EQ(choices[0].parts.size(), 2u);
  EXPECT_EQ(choices[0].parts[0].us, 3);
  EXPECT_EQ(choices[0].parts[0].best_us, 2);
  EXPECT_EQ(choices[0].parts[1].us, 4);
}

TEST(SharedChoice, HasNoConfigurationWhereNoneWasTriedEverywhere) {
  const auto choices =
      shared_choices({times(1, 64, {{{"v", "a"}, 2}}), times(8, 64, {{{"v", "b"}, 4}})}, {"tokens"});
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].variant, "");
  EXPECT_TRUE(std::isnan(choices[0].parts[1].us));
  EXPECT_EQ(choices[0].parts[1].best_us, 4);
}

TEST(SharedChoice, OfASweepIsPrintedAndWritten) {
  const auto folder = testing::fresh_folder("shared_choice");
  const auto sweep = folder / "family.yaml";
  std::ofstream(sweep)
      << "sampling: {min_samples: 6, max_time: 0.01}\ntune: {share: [tokens]}\nops:\n"
         "  - op: rms_norm\n    dtypes: fp32\n    problems: [{tokens: [1, 4], hidden: [8, 33]}]\n";
  const std::string tune = "{} tune " + sweep.string() + " --device host --out " + folder.string();
  for (int run = 0; run < 2; ++run) {
    const testing::Ended ended = testing::run_shell(tune);
    EXPECT_EQ(ended.code, 0) << ended.text;
    EXPECT_NE(ended.text.find("in the geometric mean"), std::string::npos) << ended.text;
    const auto rows = read_csv(folder / "host" / "family.shared.csv");
    ASSERT_EQ(rows.size(), 4u) << "two families of two, also from the rows of an earlier run";
    EXPECT_EQ(rows[0].at("config"), rows[1].at("config"));
    for (const auto& row : rows) EXPECT_GE(std::stod(row.at("loss")), 1) << row.at("problem");
  }
  std::ofstream(folder / "wrong.yaml")
      << "tune: {share: [token]}\nops: [{op: rms_norm, problems: [{tokens: 1, hidden: 8}]}]\n";
  const testing::Ended wrong =
      testing::run_shell("{} tune " + (folder / "wrong.yaml").string() + " --device host");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.text.find("wrong.yaml:1: 'share' names 'token'"), std::string::npos) << wrong.text;
}

}  // namespace
}  // namespace warptune
