#include "harness/select/winner_lookup.h"

#include <gtest/gtest.h>

#include <set>

#include "variants/table.h"

namespace warptune {
namespace {

const Provenance kHere{"NVIDIA H200", "sm_90a", "580", "13.0", "abc"};

Winner attention(std::int64_t batch, std::int64_t context, const char* style = "sd") {
  Problem p{"attention_decode", {{"batch", batch}, {"context", context}}, DType::bf16};
  p.dims.set("k_layout", std::string(style) == "sd" ? 0 : 1, style);
  return {p, "split_kv", {{"splits", 8}}, 1.25, "hash", "run", "t.csv"};
}

TEST(WinnerLookup, NothingNearIsNoMatch) {
  const Wisdom wisdom(kHere);
  const WinnerLookup::Match none = WinnerLookup(ops(), wisdom).find(attention(1, 256).problem, kHere);
  EXPECT_EQ(none.winner, nullptr);
  EXPECT_FALSE(none.exact);
}

TEST(WinnerLookup, NearestFollowsItsRules) {
  Wisdom wisdom;
  wisdom.put(attention(1, 256));
  wisdom.put(attention(1, 1024));
  const WinnerLookup lookup(ops(), wisdom);
  const auto nearest = [&](const Problem& problem) { return lookup.find(problem, kHere).winner; };
  const auto context_of = [](const Winner* w) { return w ? w->problem["context"] : 0; };
  EXPECT_EQ(context_of(nearest(attention(1, 300).problem)), 256);
  EXPECT_EQ(context_of(nearest(attention(1, 8192).problem)), 1024);
  EXPECT_EQ(nearest(attention(1, 8193).problem), nullptr);        // beyond a factor of 8
  EXPECT_EQ(nearest(attention(9, 256).problem), nullptr);         // beyond a factor of 8
  EXPECT_EQ(nearest(attention(1, 256, "dsx").problem), nullptr);  // another label
}

TEST(WinnerLookup, OfEquallyNearWinnersTheFirstIsTaken) {
  for (const auto& [first, last] : {std::pair{256, 1024}, {1024, 256}}) {
    Wisdom wisdom;
    wisdom.put(attention(1, first));
    wisdom.put(attention(1, last));
    const Winner* near = WinnerLookup(ops(), wisdom).find(attention(1, 512).problem, kHere).winner;
    ASSERT_NE(near, nullptr);
    EXPECT_EQ(near->problem["context"], first);
  }
}

TEST(WinnerLookup, LeavesOutOneProblem) {
  Wisdom wisdom;
  wisdom.put(attention(1, 256));
  wisdom.put(attention(1, 1024));
  const WinnerLookup lookup(ops(), wisdom);
  const Problem problem = attention(1, 256).problem, other = attention(1, 300).problem;
  const WinnerLookup::Match near = lookup.find(problem, kHere, &problem);
  ASSERT_NE(near.winner, nullptr);
  EXPECT_FALSE(near.exact);
  EXPECT_EQ(near.winner->problem["context"], 1024);
  EXPECT_EQ(lookup.find(other, kHere, &problem).winner->problem["context"], 1024);
  EXPECT_TRUE(lookup.find(problem, kHere, &other).exact);
}

TEST(WinnerLookup, DeviceThenArchitectureThenNearestThenElsewhere) {
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
    const auto match = WinnerLookup(ops(), wisdom).find(p, kHere);
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
  wisdom.put(made(tokens(2), "NVIDIA H100", "sm_90a"));
  EXPECT_EQ(found(wisdom, one), "NVIDIA H200 near 8") << "also where a nearer one of another device follows";
  wisdom.put(made(one, "NVIDIA H100", "sm_90a"));
  EXPECT_EQ(found(wisdom, one), "NVIDIA H100 exact 1");
  wisdom.put(made(one, "NVIDIA H200", "sm_90a"));
  EXPECT_EQ(found(wisdom, one), "NVIDIA H200 exact 1");
  EXPECT_EQ(wisdom.winners().size(), 6u);
}

TEST(WinnerLookup, DimsAreComparedByName) {
  const auto prefill = [](std::int64_t q_len, std::int64_t kv_len, std::int64_t head_dim) {
    return Problem{
        "attention_prefill", {{"q_len", q_len}, {"kv_len", kv_len}, {"head_dim", head_dim}}, DType::bf16};
  };
  Wisdom wisdom(kHere);
  wisdom.put({.problem = prefill(4096, 1, 128)});
  const WinnerLookup lookup(ops(), wisdom);
  EXPECT_EQ(lookup.find(prefill(1, 4096, 128), kHere).winner, nullptr);
  EXPECT_NE(lookup.find(prefill(1024, 2, 128), kHere).winner, nullptr);
  EXPECT_EQ(lookup.find(prefill(4096, 1, 64), kHere).winner, nullptr) << "head_dim is not a DimRole::work";
}

/// bench/wisdom_lookup.cpp times it.
TEST(WinnerLookup, AnExactMatchReadsOneWinnerOfAThousand) {
  Wisdom wisdom;
  std::set<std::size_t> hashes;
  for (int i = 0; i < 1000; ++i) {
    const Problem p{"attention_decode",
                    {{"batch", 1 + i}, {"q_heads", 32}, {"head_dim", 128}, {"context", 512}}};
    wisdom.put({.problem = p});
    hashes.insert(ProblemHash{}(p));
  }
  EXPECT_EQ(hashes.size(), 1000u);
  const WinnerLookup lookup(ops(), wisdom);
  for (const Winner& winner : wisdom.winners()) {
    EXPECT_EQ(wisdom.indices(winner.problem).size(), 1u);
    const auto match = lookup.find(winner.problem, kHere);
    EXPECT_TRUE(match.exact);
    EXPECT_EQ(match.winner, &winner);
  }
}

}  // namespace
}  // namespace warptune
