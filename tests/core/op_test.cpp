#include "harness/core/op.h"

#include <gtest/gtest.h>

#include "harness/core/error.h"

namespace warptune {
namespace {

using Text = std::vector<std::pair<std::string, std::string>>;

Op op() {
  return {.name = "scale",
          .dims = {{"tokens", "rows"},
                   {"heads", "heads of a row", 4},
                   {"style", "pairing", 0, {"half", "interleaved"}},
                   {"start", "first position", 0, {}, 0}},
          .dtypes = {DType::fp32, DType::bf16},
          .check = [](const Problem& p) {
            if (p["tokens"] % p["heads"]) throw InputError("tokens must be a multiple of heads");
          }};
}

std::string error_of(const Text& given, DType dtype = DType::fp32) {
  try {
    op().problem(given, dtype);
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

TEST(OpProblem, FillsInDefaultsInTheOrderOfDims) {
  EXPECT_EQ(op().problem(Text{{"style", "interleaved"}, {"tokens", "8"}}, DType::bf16).key(),
            "scale[tokens=8,heads=4,style=interleaved,start=0,dtype=bf16]");
  EXPECT_EQ(op().problem(Assignment{{"tokens", 3}, {"heads", 3}, {"style", 1}}, DType::fp32).key(),
            "scale[tokens=3,heads=3,style=interleaved,start=0,dtype=fp32]");
}

TEST(OpProblem, AnOptionalDimIsOmittedAtItsDefault) {
  Op windowed = op();
  windowed.dims.push_back({"window", "keys seen", 0, {}, 0, true});
  const auto plain = windowed.problem(Text{{"tokens", "8"}}, DType::fp32);
  const auto with_default = windowed.problem(Text{{"tokens", "8"}, {"window", "0"}}, DType::fp32);
  const auto other = windowed.problem(Text{{"tokens", "8"}, {"window", "16"}}, DType::fp32);
  EXPECT_EQ(plain.key(), op().problem(Text{{"tokens", "8"}}, DType::fp32).key());
  EXPECT_EQ(plain["window"], 0);
  EXPECT_EQ(plain, with_default);
  EXPECT_EQ(plain, op().problem(Text{{"tokens", "8"}}, DType::fp32));
  EXPECT_NE(plain, other);
  EXPECT_EQ(other.key(), "scale[tokens=8,heads=4,style=half,start=0,window=16,dtype=fp32]");
}

TEST(OpProblem, ErrorsAreOneSentence) {
  EXPECT_EQ(error_of({{"token", "1"}}), "op 'scale' has no dim 'token'; did you mean 'tokens'?");
  EXPECT_EQ(error_of({{"tokens", "4"}}, DType::fp16), "op 'scale' does not take dtype fp16");
  EXPECT_EQ(error_of({{"heads", "4"}}), "op 'scale' needs dim 'tokens' (rows)");
  EXPECT_EQ(error_of({{"tokens", "0"}}), "dim 'tokens' of op 'scale' is 0; it must be at least 1");
  EXPECT_EQ(error_of({{"tokens", "4"}, {"start", "-1"}}),
            "dim 'start' of op 'scale' is -1; it must be at least 0");
  EXPECT_EQ(error_of({{"tokens", "99999999999999999999"}}),
            "dim 'tokens' of op 'scale' is 99999999999999999999, which does not fit 64 bits");
  EXPECT_EQ(error_of({{"tokens", "4000000000"}}),
            "dim 'tokens' of op 'scale' is 4000000000; it must be at most 2147483647");
  EXPECT_EQ(error_of({{"tokens", "4x"}}), "dim 'tokens' of op 'scale' is '4x'; it must be an integer");
  EXPECT_EQ(error_of({{"tokens", "4"}, {"style", "whole"}}),
            "dim 'style' of op 'scale' is 'whole'; it must be one of half, interleaved");
  EXPECT_EQ(error_of({{"tokens", "6"}}), "tokens must be a multiple of heads");
  try {
    op().problem(Assignment{{"tokens", 4}, {"style", 2}}, DType::fp32);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(), "dim 'style' of op 'scale' must be one of half, interleaved");
  }
}

TEST(LongSums, GrowTheTolerance) {
  const Tolerance fp32 = default_tolerance(DType::fp32), bf16 = default_tolerance(DType::bf16);
  EXPECT_EQ(with_long_sum(fp32, 1024).rel_l2, fp32.rel_l2);  // sqrt(1024) * 2^-24 = 1.9e-6
  EXPECT_EQ(with_long_sum(fp32, 1024).max_rel, fp32.max_rel);
  EXPECT_EQ(with_long_sum(fp32, 65536).rel_l2, 0x1p-16);
  EXPECT_EQ(with_long_sum(fp32, 65536).max_rel, 0x1p-14);
  EXPECT_EQ(with_long_sum(bf16, 1 << 20).rel_l2, bf16.rel_l2);
}

TEST(DefaultTolerance, FollowsTheDtype) {
  EXPECT_EQ(default_tolerance(DType::int32).rel_l2, 0);
  EXPECT_EQ(default_tolerance(DType::fp32).rel_l2, 2e-6);
  EXPECT_DOUBLE_EQ(default_tolerance(DType::bf16, 2).rel_l2, 1.2 * 0x1p-7);
}

}  // namespace
}  // namespace warptune
