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

/// The args struct of an op, and a larger one of some of its problems.
struct SmallArgs {
  const void* x;
  const int* lengths;
  void* workspace;
  int tokens;
  float eps;
};
struct Strides {
  long long head, row;
};
struct LargeArgs : SmallArgs {
  void* y;
  unsigned twice;
  Strides strides;
};

Op op_with_fields() {
  return {.name = "op",
          .dims = {{"tokens", ""}, {"large", "", 0, {"no", "yes"}}},
          .tensors =
              [](const Problem& p, std::uint64_t) {
                std::vector<TensorSpec> specs = {{.name = "x", .shape = {p["tokens"]}}};
                if (p["large"] == 1) specs.push_back({.name = "first", .shape = {1}});
                return specs;
              },
          .fields = {field("x", &SmallArgs::x), field("lengths", &SmallArgs::lengths),
                     field("workspace", &SmallArgs::workspace), field("tokens", &SmallArgs::tokens),
                     field("eps", &SmallArgs::eps, 0.5f),
                     field("y", &LargeArgs::y, [](const ArgsSource& s) { return s.tensor("first"); }),
                     field("twice", &LargeArgs::twice, [](const Problem& p) { return 2 * p["tokens"]; }),
                     field("strides.row", &LargeArgs::strides, &Strides::row,
                           [](const Problem& p) {
                             return Strides{1, p["tokens"]};
                           })},
          .args_bytes = [](const Problem& p) { return p["large"] ? sizeof(LargeArgs) : sizeof(SmallArgs); }};
}

TEST(BindFields, FillsEachMemberByItsNameOrFromItsValue) {
  const Op op = op_with_fields();
  float memory[3];
  const std::vector<void*> tensors = {&memory[0], &memory[1]};
  const Args args =
      bind_fields(op, op.problem({{"tokens", 7}, {"large", 1}}, DType::fp32), tensors, &memory[2]);
  ASSERT_EQ(args.size(), sizeof(LargeArgs));
  const auto& large = *static_cast<const LargeArgs*>(args.data());
  EXPECT_EQ(large.x, &memory[0]);
  EXPECT_EQ(large.lengths, nullptr) << "the problem has no such tensor";
  EXPECT_EQ(large.workspace, &memory[2]);
  EXPECT_EQ(large.tokens, 7);
  EXPECT_EQ(large.eps, 0.5f);
  EXPECT_EQ(large.y, &memory[1]);
  EXPECT_EQ(large.twice, 14u);
  EXPECT_EQ(large.strides.row, 7);
  EXPECT_EQ(large.strides.head, 0) << "not among the fields";
}

TEST(BindFields, ASmallerStructHasItsOwnMembersOnly) {
  Op op = op_with_fields();
  const Problem problem = op.problem({{"tokens", 7}}, DType::fp32);
  EXPECT_EQ(bind_fields(op, problem, std::vector<void*>(1), nullptr).size(), sizeof(SmallArgs));
  op.args_bytes = {};
  EXPECT_EQ(bind_fields(op, problem, std::vector<void*>(1), nullptr).size(), sizeof(LargeArgs));
}

TEST(BindFields, ANumberThatItsMemberCannotHoldIsAnError) {
  const Op op = op_with_fields();
  const auto bind = [&](std::int64_t tokens) {
    Problem problem = op.problem({{"tokens", 1}, {"large", 1}}, DType::fp32);
    problem.dims.set("tokens", tokens);
    bind_fields(op, problem, std::vector<void*>(2), nullptr);
  };
  bind(2147483647);
  EXPECT_THROW(bind(2147483648), InputError);  // tokens
  EXPECT_THROW(bind(-1), InputError);          // twice
}

}  // namespace
}  // namespace warptune
