#include "harness/results/staleness.h"

#include <gtest/gtest.h>

namespace warptune {
namespace {

const Provenance kHere{"NVIDIA H200", "sm_90a", "580.159.04", "13.0", "abc"};

Winner winner_of(Provenance made_on, std::string hash = "aaaa") {
  return {.problem = {"rms_norm", {{"tokens", 1}, {"hidden", 4096}}, DType::bf16},
          .variant = "vectorized",
          .source_hash = std::move(hash),
          .made_on = std::move(made_on)};
}

using Texts = std::vector<std::string>;

TEST(Staleness, AnUnchangedWinnerIsUsed) {
  const Judgement same = judge(winner_of(kHere), kHere, {"aaaa"});
  EXPECT_EQ(same.use, Use::yes);
  EXPECT_TRUE(same.warnings.empty() && same.refusals.empty());
  Provenance patched = kHere;
  patched.driver = "580.200.01";  // the same major
  patched.git_commit = "def";
  EXPECT_EQ(judge(winner_of(patched), kHere, {"aaaa"}).use, Use::yes);
}

TEST(Staleness, EveryChangeHasItsRule) {
  Provenance then = kHere;
  then.arch = "sm_80";
  then.device = "NVIDIA A100";
  const Judgement arch = judge(winner_of(then), kHere, {"aaaa"}, StaleCode::use);
  EXPECT_EQ(arch.use, Use::refused) << "with any option";
  EXPECT_EQ(arch.refusals, Texts{"tuned for architecture sm_80, this is sm_90a"});

  then = kHere;
  then.device = "NVIDIA H100";
  const Judgement device = judge(winner_of(then), kHere, {"aaaa"});
  EXPECT_EQ(device.use, Use::warned);
  EXPECT_EQ(device.warnings, Texts{"tuned on 'NVIDIA H100', this is 'NVIDIA H200'"});

  then = kHere;
  then.driver = "570.86.10";
  then.toolkit = "12.8";
  const Judgement software = judge(winner_of(then), kHere, {"aaaa"});
  EXPECT_EQ(software.use, Use::warned);
  EXPECT_EQ(software.warnings, (Texts{"tuned with driver 570.86.10, this is 580.159.04",
                                      "tuned with toolkit 12.8, this is 13.0"}));

  const Judgement sources = judge(winner_of(kHere), kHere, {"bbbb"});
  EXPECT_EQ(sources.use, Use::refused);
  EXPECT_EQ(sources.refusals, Texts{"tuned on other code of its kernels"});
  const Judgement allowed = judge(winner_of(kHere), kHere, {"bbbb"}, StaleCode::use);
  EXPECT_EQ(allowed.use, Use::warned);
  EXPECT_EQ(allowed.warnings, Texts{"tuned on other code of its kernels"});
}

TEST(Staleness, OtherCodeOfAnotherArchitectureIsNoSecondReason) {
  Provenance then = kHere;
  then.arch = "sm_80";
  EXPECT_EQ(judge(winner_of(then), kHere, {"bbbb"}).refusals,
            Texts{"tuned for architecture sm_80, this is sm_90a"});
}

TEST(Staleness, CodeThatCannotBeCompiledIsNotTheSame) {
  Winner winner = winner_of(kHere);
  winner.code_hash = "c";
  EXPECT_TRUE(is_same_code(winner, kHere, {"bbbb", [] { return std::string("c"); }}));
  EXPECT_FALSE(is_same_code(winner, kHere, {"bbbb", [] { return std::string("d"); }}));
  EXPECT_FALSE(is_same_code(winner, kHere, {"bbbb"}));
}

TEST(Staleness, AnUnknownHashIsAChange) {
  EXPECT_EQ(judge(winner_of({}), kHere, {"aaaa"}).use, Use::refused);
  EXPECT_EQ(judge(winner_of(kHere, ""), kHere, {"aaaa"}).use, Use::refused);
}

}  // namespace
}  // namespace warptune
