#include "harness/results/staleness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

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

TEST(Staleness, TheSameIsTaken) {
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
  EXPECT_EQ(arch.use, Use::refused) << "whatever was asked for";
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

TEST(Staleness, WhatIsNotKnownIsNotTheSame) {
  EXPECT_EQ(judge(winner_of({}), kHere, {"aaaa"}).use, Use::refused);
  EXPECT_EQ(judge(winner_of(kHere, ""), kHere, {"aaaa"}).use, Use::refused);
}

TEST(WisdomLookup, DeviceThenArchitectureThenNearestThenElsewhere) {
  const Problem one{"rms_norm", {{"tokens", 1}, {"hidden", 4096}}, DType::bf16};
  const auto tokens = [&](std::int64_t n) {
    Problem p = one;
    p.dims.set("tokens", n);
    return p;
  };
  const auto made = [](const Problem& p, const char* device, const char* arch) {
    return Winner{.problem = p, .variant = device, .made_on = {device, arch, "580", "13.0", ""}};
  };
  const auto found = [&](const Wisdom& wisdom, const Problem& p) {
    const auto match = wisdom.find(p, kHere);
    return match.winner ? match.winner->variant + (match.exact ? " exact " : " near ") +
                              std::to_string(match.winner->problem["tokens"])
                        : "none";
  };
  Wisdom wisdom;
  EXPECT_EQ(found(wisdom, one), "none");
  wisdom.put(made(one, "A100", "sm_80"));
  EXPECT_EQ(found(wisdom, one), "A100 exact 1") << "for judge() to refuse";
  wisdom.put(made(tokens(4), "NVIDIA H100", "sm_90a"));
  EXPECT_EQ(found(wisdom, one), "NVIDIA H100 near 4");
  wisdom.put(made(tokens(8), "NVIDIA H200", "sm_90a"));
  EXPECT_EQ(found(wisdom, one), "NVIDIA H200 near 8");
  wisdom.put(made(one, "NVIDIA H100", "sm_90a"));
  EXPECT_EQ(found(wisdom, one), "NVIDIA H100 exact 1");
  wisdom.put(made(one, "NVIDIA H200", "sm_90a"));
  EXPECT_EQ(found(wisdom, one), "NVIDIA H200 exact 1");
  EXPECT_EQ(wisdom.winners().size(), 5u);
}

TEST(WisdomLookup, DimsAreHeldAgainstEachOtherByName) {
  const auto prefill = [](std::int64_t q_len, std::int64_t kv_len, std::int64_t head_dim) {
    return Problem{
        "attention_prefill", {{"q_len", q_len}, {"kv_len", kv_len}, {"head_dim", head_dim}}, DType::bf16};
  };
  Wisdom wisdom(kHere);
  wisdom.put({.problem = prefill(4096, 1, 128)});
  EXPECT_EQ(wisdom.find(prefill(1, 4096, 128), kHere).winner, nullptr);
  EXPECT_NE(wisdom.find(prefill(1024, 2, 128), kHere).winner, nullptr);
  EXPECT_EQ(wisdom.find(prefill(4096, 1, 64), kHere).winner, nullptr) << "head_dim is no dim of work";
}

TEST(WisdomLookup, TakesLessThanAMicrosecond) {
#ifndef NDEBUG
  GTEST_SKIP() << "a build without optimization";
#endif
  Wisdom wisdom(kHere);
  std::vector<Problem> problems;
  for (int i = 0; i < 1000; ++i) {
    Problem p{"attention_decode", {{"batch", 1 + i}, {"q_heads", 32}, {"head_dim", 128}, {"context", 512}}};
    wisdom.put({.problem = p});
    problems.push_back(p);
  }
  using Clock = std::chrono::steady_clock;
  constexpr int kAtOnce = 10;  // so that reading the clock does not count
  std::vector<double> us;
  int found = 0;
  for (int round = 0; round < 20; ++round)
    for (std::size_t i = 0; i < problems.size(); i += kAtOnce) {
      const auto start = Clock::now();
      for (std::size_t k = i; k < i + kAtOnce; ++k) found += wisdom.find(problems[k], kHere).exact;
      us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count() / kAtOnce);
    }
  EXPECT_EQ(found, 20 * 1000);
  std::ranges::nth_element(us, us.begin() + static_cast<std::ptrdiff_t>(us.size() / 2));
  EXPECT_LT(us[us.size() / 2], 1.0) << "the median of " << us.size() << " tens of lookups";
}

}  // namespace
}  // namespace warptune
