#include <cmath>

#include "harness/core/error.h"
#include "harness/core/rope.h"
#include "tests/support.h"

namespace warptune::testing {
namespace {

class RopeAppend : public ::testing::TestWithParam<Dims> {};
class GpuRopeAppend : public RopeAppend {};
class RopeAppendCompiles : public RopeAppend {};

Dims shape(int tokens, int q_heads, int kv_heads, int head_dim, Dims more = {}) {
  Dims dims = {{"tokens", std::to_string(tokens)},
               {"q_heads", std::to_string(q_heads)},
               {"kv_heads", std::to_string(kv_heads)},
               {"head_dim", std::to_string(head_dim)}};
  dims.insert(dims.end(), more.begin(), more.end());
  return dims;
}

TEST_P(RopeAppend, HostVariantsMatchTheReference) { check_host_variants("rope_append", GetParam(), kFloats); }
TEST_P(RopeAppendCompiles, CudaVariantsCompile) { check_compiles("rope_append", GetParam(), kFloats, 2); }
TEST_P(GpuRopeAppend, CudaVariantsMatchTheReference) {
  check_cuda_variants("rope_append", GetParam(), kFloats, 8);
}

const auto kRopeAppendShapes = ::testing::Values(
    shape(1, 4, 4, 128), shape(1, 3, 1, 2), shape(7, 4, 2, 64, {{"style", "interleaved"}}),
    shape(3, 8, 2, 64), shape(3, 5, 1, 64), shape(3, 12, 2, 128), shape(3, 7, 1, 128),
    shape(13, 3, 1, 80, {{"bias", "yes"}}), shape(5, 8, 1, 96, {{"style", "interleaved"}, {"bias", "yes"}}),
    shape(29, 2, 1, 34, {{"batch", "3"}}), shape(29, 2, 1, 34, {{"batch", "3"}, {"style", "interleaved"}}),
    shape(17, 4, 2, 256, {{"batch", "17"}, {"k_layout", "dsx"}}),
    shape(23, 2, 2, 80, {{"batch", "2"}, {"k_layout", "dsx"}, {"bias", "yes"}, {"style", "interleaved"}}),
    shape(11, 7, 7, 24, {{"k_layout", "dsx"}}), shape(31, 2, 1, 128, {{"scaling", "linear"}}),
    shape(31, 2, 1, 64, {{"scaling", "llama3"}, {"start", "9000"}}),
    shape(41, 2, 1, 64, {{"scaling", "dynamic_ntk"}, {"batch", "4"}}),
    shape(19, 2, 1, 20, {{"scaling", "dynamic_ntk"}, {"style", "interleaved"}}),
    shape(37, 2, 1, 16, {{"start", "131000"}}),
    shape(37, 2, 1, 16, {{"start", "131000"}, {"style", "interleaved"}, {"scaling", "llama3"}}),
    shape(29, 4, 2, 64, {{"batch", "3"}, {"page_size", "16"}}),
    shape(150, 2, 1, 34, {{"batch", "2"}, {"page_size", "32"}, {"start", "100"}}),
    shape(23, 2, 2, 80, {{"batch", "2"}, {"k_layout", "dsx"}, {"page_size", "256"}}),
    shape(29, 4, 2, 128, {{"batch", "3"}, {"kv_dtype", "int8"}}),
    shape(29, 3, 1, 128, {{"batch", "3"}, {"kv_dtype", "fp8"}, {"bias", "yes"}}),
    shape(7, 4, 2, 64, {{"kv_dtype", "int8"}, {"style", "interleaved"}, {"page_size", "16"}}),
    shape(7, 4, 2, 256, {{"kv_dtype", "fp8"}, {"style", "interleaved"}, {"page_size", "64"}}),
    shape(11, 2, 1, 80, {{"kv_dtype", "int8"}, {"k_layout", "dsx"}, {"scaling", "dynamic_ntk"}}),
    shape(17, 4, 2, 32, {{"kv_dtype", "fp8"}, {"k_layout", "dsx"}, {"page_size", "16"}, {"batch", "2"}}),
    shape(13, 4, 2, 64, {{"rotary_dim", "16"}}), shape(13, 4, 2, 80, {{"rotary_dim", "32"}, {"bias", "yes"}}),
    shape(13, 2, 1, 128, {{"rotary_dim", "126"}, {"batch", "2"}}),
    shape(13, 2, 1, 128, {{"rotary_dim", "64"}, {"kv_dtype", "int8"}, {"k_layout", "dsx"}}),
    shape(31, 2, 1, 64, {{"rotary_dim", "32"}, {"scaling", "dynamic_ntk"}, {"batch", "4"}}),
    shape(5, 5, 1, 64, {{"qk_norm", "yes"}}), shape(3, 7, 1, 128, {{"qk_norm", "yes"}, {"bias", "yes"}}),
    shape(7, 4, 2, 80, {{"qk_norm", "yes"}, {"style", "interleaved"}}),
    shape(29, 4, 2, 128, {{"qk_norm", "yes"}, {"batch", "3"}, {"kv_dtype", "int8"}, {"page_size", "16"}}),
    shape(17, 2, 1, 128, {{"qk_norm", "yes"}, {"rotary_dim", "64"}, {"k_layout", "dsx"}}),
    shape(31, 2, 1, 64, {{"rotary_dim", "48"}, {"scaling", "dynamic_ntk"}, {"style", "interleaved"}}));
INSTANTIATE_TEST_SUITE_P(Shapes, RopeAppend, kRopeAppendShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuRopeAppend, kRopeAppendShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(
    Shapes, RopeAppendCompiles,
    ::testing::Values(shape(1, 32, 8, 128), shape(7, 4, 2, 80, {{"style", "interleaved"}, {"bias", "yes"}}),
                      shape(9, 2, 1, 24, {{"k_layout", "dsx"}, {"scaling", "dynamic_ntk"}, {"batch", "2"}}),
                      shape(9, 4, 2, 128, {{"kv_dtype", "int8"}, {"page_size", "16"}}),
                      shape(9, 4, 2, 128, {{"rotary_dim", "32"}}), shape(9, 32, 8, 128, {{"qk_norm", "yes"}}),
                      shape(9, 4, 2, 80, {{"qk_norm", "yes"}, {"bias", "yes"}}),
                      shape(9, 4, 2, 256,
                            {{"kv_dtype", "fp8"}, {"k_layout", "dsx"}, {"style", "interleaved"}})),
    shape_name);

TEST(GpuRopeAppendConfigs, AllMatchTheReference) {
  const DType dtypes[] = {DType::bf16};
  check_cuda_variants("rope_append", shape(67, 8, 2, 128, {{"batch", "3"}, {"bias", "yes"}}), dtypes, 1000);
}

// A position below 0 marks a finished sequence: its rows are not written.
const Dims kPart = shape(29, 4, 2, 32, {{"batch", "3"}}),
           kPartDsx = shape(29, 4, 2, 32, {{"batch", "3"}, {"k_layout", "dsx"}}),
           kPartPaged = shape(29, 4, 2, 32, {{"batch", "3"}, {"page_size", "16"}}),
           kPartInt8 = shape(29, 4, 2, 32, {{"batch", "3"}, {"kv_dtype", "int8"}, {"page_size", "16"}});
OpEntry rope_append_rest_kept() {
  return with_rest_kept(find_op("rope_append"), {"q", "k_cache", "v_cache"});
}
OpEntry scales_kept() {
  return with_rest_kept(find_op("rope_append"), {"q", "k_cache", "v_cache", "k_scale", "v_scale"});
}

TEST(RopeAppendBugs, HostWritesTheNewRowsOnly) {
  check_host_variants(rope_append_rest_kept(), kPart, kFloats);
  check_host_variants(rope_append_rest_kept(), kPartDsx, kFloats);
  check_host_variants(rope_append_rest_kept(), kPartPaged, kFloats);
  check_host_variants(scales_kept(), kPartInt8, kFloats);
}
TEST(GpuRopeAppendBugs, WritesTheNewRowsOnly) {
  check_cuda_variants(rope_append_rest_kept(), kPart, kFloats, 8);
}
TEST(GpuRopeAppendBugs, WritesTheNewRowsOnlyOfTheBlockedLayout) {
  check_cuda_variants(rope_append_rest_kept(), kPartDsx, kFloats, 8);
}
TEST(GpuRopeAppendBugs, WritesTheNewRowsOnlyOfPages) {
  check_cuda_variants(rope_append_rest_kept(), kPartPaged, kFloats, 8);
  check_cuda_variants(scales_kept(), kPartInt8, kFloats, 8);
}

TEST(GpuRopeAppendConfigs, AllMatchTheReferenceWithNorms) {
  const DType dtypes[] = {DType::bf16};
  check_cuda_variants("rope_append", shape(67, 10, 2, 128, {{"batch", "3"}, {"qk_norm", "yes"}}), dtypes,
                      1000);
}

TEST(RopeAppendOp, RejectsUnsupportedShapes) {
  const Op& op = find_op("rope_append").op;
  EXPECT_THROW(op.problem(shape(1, 1, 1, 7), DType::fp32), InputError);
  EXPECT_THROW(op.problem(shape(1, 1, 1, 2, {{"scaling", "dynamic_ntk"}}), DType::fp32), InputError);
  EXPECT_THROW(op.problem(shape(1, 1, 1, 12, {{"k_layout", "dsx"}}), DType::bf16), InputError);
  EXPECT_THROW(op.problem(shape(1, 1, 1, 24, {{"k_layout", "dsx"}, {"kv_dtype", "int8"}}), DType::bf16),
               InputError);
  for (const char* size : {"8", "48", "512"})
    EXPECT_THROW(op.problem(shape(1, 1, 1, 2, {{"page_size", size}}), DType::fp32), InputError) << size;
}

// transformers' GPT-NeoX rotates the leading elements and concatenates the rest behind them.
TEST(RopeAppendOp, ElementsBehindRotaryDimStay) {
  const OpEntry& entry = find_op("rope_append");
  const Problem p = entry.op.problem(shape(1, 1, 1, 12, {{"rotary_dim", "4"}, {"start", "5"}}), DType::fp32);
  EXPECT_THROW(entry.op.problem(shape(1, 1, 1, 12, {{"rotary_dim", "3"}}), DType::fp32), InputError);
  EXPECT_THROW(entry.op.problem(shape(1, 1, 1, 12, {{"rotary_dim", "14"}}), DType::fp32), InputError);
  const auto specs = entry.op.tensors(p, 1);
  const auto inv_freq = std::ranges::find(specs, "inv_freq", &TensorSpec::name);
  ASSERT_EQ(inv_freq->floats.size(), 6u);
  EXPECT_EQ(inv_freq->floats[0], 1.0f);
  EXPECT_FLOAT_EQ(inv_freq->floats[1], 0.01f);
  for (std::size_t i = 2; i < 6; ++i) EXPECT_EQ(inv_freq->floats[i], 0.0f);
}

TEST(RopeAppendOp, BlockedKeysSplitEachHeadAcrossRows) {
  const Op& op = find_op("rope_append").op;
  const Problem p =
      op.problem(shape(5, 4, 2, 32, {{"k_layout", "dsx"}, {"page_size", "16"}, {"batch", "1"}}), DType::bf16);
  const auto specs = op.tensors(p, 1);
  const auto k = std::ranges::find(specs, "k_cache", &TensorSpec::name),
             v = std::ranges::find(specs, "v_cache", &TensorSpec::name);
  ASSERT_EQ(v->shape.size(), 4u);
  const std::int64_t pages = v->shape[0];
  EXPECT_EQ(v->shape, (std::vector<std::int64_t>{pages, 2, 16, 32}));
  EXPECT_EQ(k->shape, (std::vector<std::int64_t>{pages, 2, 4, 16, 8})) << "[pages, kv_heads, D/x, S, x]";
}

TEST(RopeAppendOp, BatchesHaveTokensOfFinishedSequences) {
  const Op& op = find_op("rope_append").op;
  const auto finished = [&](const char* batch) {
    const Problem p = op.problem(shape(32, 1, 1, 8, {{"batch", batch}}), DType::fp32);
    const auto specs = op.tensors(p, 1);
    const auto& positions = std::ranges::find(specs, "position", &TensorSpec::name)->values;
    return std::ranges::count(positions, -1);
  };
  EXPECT_EQ(finished("1"), 0);
  EXPECT_EQ(finished("4"), 2);
}

TEST(RopeAppendOp, QkvHasAtMostTwoToThe31Elements) {
  const Op& op = find_op("rope_append").op;  // (30 + 2 * 1) * 64 elements per token
  EXPECT_NO_THROW(op.problem(shape(1 << 20, 30, 1, 64), DType::bf16));
  EXPECT_THROW(op.problem(shape((1 << 20) + 1, 30, 1, 64), DType::bf16), InputError);
}

TEST(RopeTables, Llama3KeepsShortWavesAndSlowsLongOnes) {
  const RopeScaling plain{.theta = 500000};
  RopeScaling scaled = plain;
  scaled.kind = RopeKind::llama3;
  scaled.factor = 8;
  const auto a = rope_inv_freq(128, plain), b = rope_inv_freq(128, scaled);
  EXPECT_EQ(a.front(), 1.0f);
  EXPECT_EQ(b.front(), 1.0f);
  EXPECT_EQ(b.back(), a.back() / 8);
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_LE(b[i], a[i]);
    EXPECT_GE(b[i], a[i] / 8);
    EXPECT_NEAR(a[i], std::pow(500000.0, -2.0 * static_cast<double>(i) / 128), 2e-7);
  }
}

TEST(RopeTables, LinearDividesEveryFrequency) {
  const auto a = rope_inv_freq(64, {}), b = rope_inv_freq(64, {.kind = RopeKind::linear, .factor = 4});
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(b[i], a[i] / 4);
}

}  // namespace
}  // namespace warptune::testing
