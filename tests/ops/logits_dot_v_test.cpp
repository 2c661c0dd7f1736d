#include <algorithm>

#include "harness/core/error.h"
#include "tests/support.h"

namespace warptune::testing {
namespace {

Dims dims(int batch, int q_heads, int kv_heads, int head_dim, int context) {
  return {{"batch", std::to_string(batch)},       {"q_heads", std::to_string(q_heads)},
          {"kv_heads", std::to_string(kv_heads)}, {"head_dim", std::to_string(head_dim)},
          {"context", std::to_string(context)},   {"uneven", batch > 1 ? "yes" : "no"}};
}

class LogitsDotV : public ::testing::TestWithParam<Dims> {};
class GpuLogitsDotV : public LogitsDotV {};
class LogitsDotVCompile : public LogitsDotV {};

TEST_P(LogitsDotV, HostVariantsMatchTheReference) {
  check_host_variants("logits_dot_v", GetParam(), kFloats);
}
TEST_P(LogitsDotVCompile, CudaVariantsCompile) {
  const DType dtypes[] = {DType::fp32, DType::bf16};
  check_compiles("logits_dot_v", GetParam(), dtypes, 3);
}
TEST_P(GpuLogitsDotV, CudaVariantsMatchTheReference) {
  const DType dtypes[] = {DType::bf16};
  check_cuda_variants("logits_dot_v", GetParam(), dtypes, 3);
}
TEST(GpuLogitsDotVOp, OtherDtypesMatchTheReference) {
  const DType dtypes[] = {DType::fp32, DType::fp16};
  check_cuda_variants("logits_dot_v", dims(3, 6, 3, 80, 65), dtypes, 3);
}

const auto kLogitsDotVShapes =
    ::testing::Values(dims(1, 1, 1, 64, 1), dims(5, 8, 2, 128, 700), dims(3, 6, 3, 80, 65),
                      dims(2, 8, 1, 256, 129), dims(4, 3, 1, 50, 33), dims(1, 2, 2, 128, 5000));
INSTANTIATE_TEST_SUITE_P(Shapes, LogitsDotV, kLogitsDotVShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuLogitsDotV, kLogitsDotVShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, LogitsDotVCompile,
                         ::testing::Values(dims(5, 8, 2, 128, 700), dims(3, 6, 3, 80, 65)), shape_name);

TEST(LogitsDotVOp, QHeadsAreAMultipleOfKvHeads) {
  try {
    find_op("logits_dot_v").op.problem(dims(1, 5, 2, 64, 10), DType::bf16);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(), "logits_dot_v: q_heads (5) must be a multiple of kv_heads (2)");
  }
}
TEST(LogitsDotVOp, TheSeedSaysWhichSequenceIsFinished) {
  const Op& op = find_op("logits_dot_v").op;
  const Problem p = op.problem(dims(5, 2, 1, 64, 40), DType::fp32);
  for (const std::uint64_t seed : {0u, 3u, 14u}) {
    const auto specs = op.tensors(p, seed);
    const auto& lengths = std::ranges::find(specs, "lengths", &TensorSpec::name)->values;
    ASSERT_EQ(lengths.size(), 5u);
    for (std::size_t s = 0; s < 5; ++s) EXPECT_EQ(lengths[s] == 0, s == seed % 5) << s;
  }
}
TEST(LogitsDotVOp, LongFp32SumsHaveAWiderTolerance) {
  const Op& op = find_op("logits_dot_v").op;
  const auto bound = [&](int context, DType dtype) {
    return op.tolerance(op.problem(dims(1, 2, 1, 64, context), dtype)).rel_l2;
  };
  EXPECT_DOUBLE_EQ(bound(100, DType::fp32), 8e-6);
  EXPECT_DOUBLE_EQ(bound(16384, DType::fp32), 16e-6);
  EXPECT_EQ(bound(16384, DType::bf16), bound(100, DType::bf16));
}
TEST(LogitsDotVOp, BytesAreThoseOfVAndTheLogits) {
  const Op& op = find_op("logits_dot_v").op;
  const Cost cost = op.cost(op.problem(dims(1, 8, 2, 128, 1000), DType::bf16));
  EXPECT_EQ(cost.bytes, 2.0 * (1000 * (8 + 2 * 128) + 8 * 128) + 4);
  EXPECT_EQ(cost.flops, 2.0 * 1000 * 8 * 128);
}

}  // namespace
}  // namespace warptune::testing
