#include "harness/core/error.h"
#include "tests/attention_dims.h"
#include "tests/support.h"

namespace warptune::testing {
namespace {

class AttentionPrefill : public ::testing::TestWithParam<Dims> {};
class GpuAttentionPrefill : public AttentionPrefill {};
class AttentionPrefillCompiles : public AttentionPrefill {};

TEST_P(AttentionPrefill, HostVariantsMatchTheReference) {
  check_host_variants("attention_prefill", GetParam(), kFloats);
}
TEST_P(AttentionPrefillCompiles, CudaVariantsCompile) {
  check_compiles("attention_prefill", GetParam(), kFloats, 2);
}
TEST_P(GpuAttentionPrefill, CudaVariantsMatchTheReference) {
  check_cuda_variants("attention_prefill", GetParam(), kFloats, 5);
}

const Dims kFull = {{"causal", "no"}}, kUnevenPrompts = {{"uneven", "yes"}},
           kFullUneven = {{"causal", "no"}, {"uneven", "yes"}};
const auto kAttentionPrefillShapes = ::testing::Values(
    shape(1, 1, 1, 1, 1, 64), shape(1, 1, 37, 4, 2, 128), shape(1, 17, 17, 3, 1, 80),
    shape(2, 31, 67, 2, 2, 96), shape(1, 31, 67, 2, 1, 96, kFull), shape(5, 41, 53, 4, 1, 64, kUnevenPrompts),
    shape(6, 29, 29, 2, 1, 32, kFullUneven), shape(1, 23, 7, 2, 1, 64), shape(1, 23, 7, 2, 1, 64, kFull),
    shape(1, 13, 19, 7, 1, 33), shape(1, 5, 9, 3, 3, 1), shape(1, 19, 19, 5, 1, 256),
    shape(1, 9, 14, 6, 1, 64), shape(2, 17, 17, 8, 2, 128), shape(1, 11, 11, 8, 1, 16, kFull));
INSTANTIATE_TEST_SUITE_P(Shapes, AttentionPrefill, kAttentionPrefillShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuAttentionPrefill, kAttentionPrefillShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(LongShapes, GpuAttentionPrefill,
                         ::testing::Values(shape(1, 301, 301, 2, 1, 128), shape(1, 257, 641, 4, 1, 128),
                                           shape(1, 200, 333, 2, 2, 64, kFull),
                                           shape(5, 211, 307, 4, 2, 80, kUnevenPrompts),
                                           shape(5, 211, 307, 6, 2, 96, kFullUneven),
                                           shape(1, 300, 130, 2, 1, 128), shape(1, 192, 256, 2, 1, 256),
                                           shape(1, 128, 128, 6, 1, 128), shape(1, 129, 384, 5, 1, 64)),
                         shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, AttentionPrefillCompiles,
                         ::testing::Values(shape(2, 40, 70, 3, 1, 80, kFullUneven)), shape_name);

/// As in attention_decode_test.cpp.
OpEntry prefill_far_below_zero() {
  OpEntry entry =
      with_input(find_op("attention_prefill"), "q", [](const Problem&, std::int64_t) { return 4.0f; });
  entry = with_input(entry, "k_cache", [](const Problem&, std::int64_t i) {
    return -8.0f - 0.25f * static_cast<float>(i * 7 % 11);
  });
  return with_tolerance(entry, {.rel_l2 = 2e-2, .max_rel = 2e-2});
}
OpEntry prefill_close_scores() {
  OpEntry entry = with_input(find_op("attention_prefill"), "q", [](const Problem& p, std::int64_t i) {
    return i % p["head_dim"] == 0 ? 64.0f : i % p["head_dim"] == 1 ? 1.0f : 0.0f;
  });
  entry = with_input(entry, "k_cache", [](const Problem& p, std::int64_t i) {
    const std::int64_t d = p["head_dim"];
    return i % d == 0 ? 64.0f : i % d == 1 ? 2.0f * static_cast<float>(i / d % 3) : 0.0f;
  });
  return with_tolerance(entry, {.rel_l2 = 2e-2, .max_rel = 2e-2});
}
OpEntry exact_prefill() {
  return with_tolerance(find_op("attention_prefill"), {.rel_l2 = 4e-7, .max_rel = 8e-7});
}

/// Row sums over thousands of K/V tiles with one row maximum: the error of the log-sum-exp must not grow with
/// the number of tiles. All values are 1, so that only the log-sum-exp can differ.
OpEntry ones_of(float rel_l2) {
  const OpEntry entry =
      with_input(find_op("attention_prefill"), "v_cache", [](const Problem&, std::int64_t) { return 1.0f; });
  return with_tolerance(entry, {.rel_l2 = rel_l2, .max_rel = 2 * rel_l2});
}

constexpr DType kHalves[] = {DType::fp16, DType::bf16};
const Dims kShortPrefill = shape(2, 37, 77, 4, 2, 64), kOneKeyPrefill = shape(2, 1, 1, 4, 2, 64);

TEST(AttentionPrefillBugs, HostScoresMayAllBeFarBelowZero) {
  check_host_variants(prefill_far_below_zero(), kShortPrefill, kFloats);
}
TEST(AttentionPrefillBugs, HostScoresKeepFp32) {
  check_host_variants(prefill_close_scores(), kShortPrefill, kFloats);
}
TEST(AttentionPrefillBugs, HostRowSumOfOneKeyIsExact) {
  check_host_variants(exact_prefill(), kOneKeyPrefill, kFp32);
}
TEST(GpuAttentionPrefillBugs, ScoresMayAllBeFarBelowZero) {
  check_cuda_variants(prefill_far_below_zero(), kShortPrefill, kFloats, 5);
}
TEST(GpuAttentionPrefillBugs, ScoresKeepFp32) {
  check_cuda_variants(prefill_close_scores(), kShortPrefill, kFloats, 5);
}
TEST(GpuAttentionPrefillBugs, SumsOverManyTilesStayExact) {
  check_cuda_variants(ones_of(6e-6f), shape(1, 4, 32768, 1, 1, 64, {{"lse", "yes"}}), kHalves, 5);
}
TEST(GpuAttentionPrefillBugs, RowSumOfOneKeyIsExact) {
  check_cuda_variants(exact_prefill(), kOneKeyPrefill, kFp32, 5);
}

TEST(AttentionPrefillCompile, ModelShape) {
  const DType dtypes[] = {DType::bf16};
  check_compiles("attention_prefill", shape(1, 512, 512, 32, 8, 128), dtypes);
}
TEST(AttentionPrefillCompile, OddHeads) {
  const DType dtypes[] = {DType::fp32};
  check_compiles("attention_prefill", shape(1, 13, 19, 7, 1, 33), dtypes, 2);
}

TEST(GpuAttentionPrefillConfigs, AllMatchTheReference) {
  const DType dtypes[] = {DType::bf16};
  check_cuda_variants("attention_prefill", shape(1, 257, 641, 4, 1, 128), dtypes, 1000);
}

TEST(AttentionPrefillOp, RejectsHeadsThatDoNotDivide) {
  const Op& op = find_op("attention_prefill").op;
  EXPECT_THROW(op.problem(shape(1, 1, 1, 3, 2, 64), DType::fp32), InputError);
}

TEST(AttentionPrefillOp, CountsVisiblePairs) {
  const Op& op = find_op("attention_prefill").op;
  const auto flops = [&](const Dims& dims) { return op.cost(op.problem(dims, DType::bf16)).flops; };
  EXPECT_EQ(flops(shape(1, 4, 4, 1, 1, 1)), 4.0 * 10);
  EXPECT_EQ(flops(shape(1, 4, 4, 1, 1, 1, kFull)), 4.0 * 16);
  EXPECT_EQ(flops(shape(1, 2, 5, 1, 1, 1)), 4.0 * (4 + 5));
  EXPECT_EQ(flops(shape(1, 5, 2, 1, 1, 1)), 4.0 * (1 + 2));
}

}  // namespace
}  // namespace warptune::testing
