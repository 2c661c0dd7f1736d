// Problems at the edge: long rows, more blocks than an axis of a grid has, offsets beyond 32 bits, far
// positions, and values near the ends of a dtype's range.
#include <algorithm>
#include <cmath>

#include "harness/core/space.h"
#include "harness/core/variant_values.h"
#include "harness/device/compile.h"
#include "harness/verify/input_change.h"
#include "tests/support.h"

namespace warptune::testing {
namespace {

constexpr DType kFp16[] = {DType::fp16}, kBf16[] = {DType::bf16};

struct Case {
  std::string op;
  Dims dims;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << find_op(c.op).op.problem(c.dims, DType::bf16).key();
}
std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return info.param.op + "_" + std::to_string(info.index);
}

/// Changed inputs of an op.
OpEntry with_changes(const std::string& op, const InputChanges& changes) {
  OpEntry entry = find_op(op);
  entry.op = with_inputs(entry.op, changes);
  return entry;
}

// The error of an fp32 sum grows with its length.
class LongRows : public ::testing::TestWithParam<Case> {};
class GpuLongRows : public LongRows {};
TEST_P(LongRows, HostVariantsMatchTheReference) {
  check_host_variants(GetParam().op, GetParam().dims, kFp32);
}
TEST_P(GpuLongRows, CudaVariantsMatchTheReference) {
  check_cuda_variants(GetParam().op, GetParam().dims, kFp32, 4);
}
const auto kLongRows = ::testing::Values(
    Case{"softmax", {{"batch", "1"}, {"q_heads", "1"}, {"q_len", "1"}, {"kv_len", "32768"}}},
    Case{"rms_norm", {{"tokens", "2"}, {"hidden", "65536"}}},
    Case{"add_rms_norm", {{"tokens", "1"}, {"hidden", "262144"}}},
    Case{"attention_prefill",
         {{"batch", "1"},
          {"q_len", "2"},
          {"kv_len", "131072"},
          {"q_heads", "2"},
          {"kv_heads", "1"},
          {"head_dim", "16"}}});
INSTANTIATE_TEST_SUITE_P(Cases, LongRows, kLongRows, case_name);
INSTANTIATE_TEST_SUITE_P(Cases, GpuLongRows, kLongRows, case_name);

// More sequences, or tiles, than an axis of a grid has blocks.
Case attention(const char* batch) {
  return {"attention_decode",
          {{"batch", batch}, {"q_heads", "2"}, {"kv_heads", "1"}, {"head_dim", "64"}, {"context", "16"}}};
}
const Case kManyBlocks[] = {
    attention("65536"),
    {"logits_dot_v",
     {{"batch", "65536"}, {"q_heads", "2"}, {"kv_heads", "1"}, {"head_dim", "16"}, {"context", "16"}}},
    {"attention_prefill",
     {{"batch", "1"},
      {"q_len", "524296"},
      {"kv_len", "2"},
      {"q_heads", "1"},
      {"kv_heads", "1"},
      {"head_dim", "8"},
      {"causal", "no"}}},
    {"linear", {{"tokens", "1048577"}, {"in", "32"}, {"out", "32"}}},
    {"linear", {{"tokens", "70"}, {"in", "64"}, {"out", "2097184"}}},
};
class ManyBlocks : public ::testing::TestWithParam<Case> {};
class GpuManyBlocks : public ManyBlocks {};
INSTANTIATE_TEST_SUITE_P(Cases, ManyBlocks, ::testing::ValuesIn(kManyBlocks), case_name);
INSTANTIATE_TEST_SUITE_P(Cases, GpuManyBlocks, ::testing::ValuesIn(kManyBlocks), case_name);

TEST_P(ManyBlocks, ConfigurationsCanBeLaunchedOnEveryDevice) {
  const OpEntry& entry = find_op(GetParam().op);
  for (const DType dtype : {DType::fp32, DType::bf16})
    for (const char* arch : {"sm_80", "sm_90a"}) {
      const Problem problem = entry.op.problem(GetParam().dims, dtype);
      std::size_t legal = 0;
      for (const Variant& variant : entry.variants) {
        if (variant.stages.empty() || calls_library(variant) || !variant.runs(problem, Backend::cuda))
          continue;
        for (const Config& config : Space(variant, problem, known_device(arch)).configs()) {
          ++legal;
          for (const Stage* stage : active_stages(variant, problem, config))
            EXPECT_EQ(exceeded_launch_limit(launch_of(variant, *stage, problem, config)), std::nullopt)
                << variant.name << " " << config.str();
        }
      }
      EXPECT_GT(legal, 0u) << problem.key() << " " << arch;
    }
}
TEST_P(GpuManyBlocks, CudaVariantsMatchTheReference) {
  check_cuda_variants(GetParam().op, GetParam().dims, kFp32, 2);
  check_cuda_variants(GetParam().op, GetParam().dims, kBf16, 2);
}

// Outputs times blocks, and weight rows of SwiGLU, beyond 32 bits.
Dims many_outputs(const char* out, const char* epilogue) {
  return {{"tokens", "17"}, {"in", "64"}, {"out", out}, {"epilogue", epilogue}};
}
TEST(ManyOutputs, StreamingGemmsCompile) {
  for (const char* out : {"2097144", "2097184", "67108864"})
    check_compiles("linear", many_outputs(out, "none"), kBf16, 2);
  check_compiles("linear", many_outputs("2097184", "argmax"), kBf16, 2);
}
TEST(GpuManyOutputs, StreamingGemmsMatchTheReference) {
  for (const char* out : {"2097144", "2097184", "67108864"})
    check_cuda_variants("linear", many_outputs(out, "none"), kBf16, 2);
  check_cuda_variants("linear", many_outputs("2097184", "swiglu"), kBf16, 2);
}

// Padded rows beyond 32 bits, of two elements: 9 GB.
TEST(GpuManyRows, RestorePaddingMatchesTheReference) {
  check_cuda_variants("restore_padding", {{"batch", "32769"}, {"max_q_len", "65536"}, {"hidden", "2"}}, kFp16,
                      2);
}

// Angles up to 2^30, in a cache of a few gigabytes.
Dims far_rope(const char* start, const char* head_dim) {
  return {{"tokens", "37"}, {"q_heads", "2"}, {"kv_heads", "1"}, {"head_dim", head_dim}, {"start", start}};
}
TEST(FarPositions, CudaVariantsCompile) {
  check_compiles("rope_append", far_rope("10000000", "16"), kFloats, 2);
  const Dims dims = {{"batch", "1"},     {"q_heads", "4"},      {"kv_heads", "1"},
                     {"head_dim", "64"}, {"context", "300000"}, {"append", "yes"}};
  check_compiles("attention_decode", dims, kFloats, 2);
}
TEST(GpuFarPositions, RopeAppendMatchesTheReference) {
  for (const char* start : {"131072", "1000000", "10000000", "40000000"})
    check_cuda_variants("rope_append", far_rope(start, "16"), kFloats, 4);
  check_cuda_variants("rope_append", far_rope("1073741700", "4"), kFp16, 2);
}
TEST(GpuFarPositions, DecodeRotatesAsPromptsDo) {
  for (const char* style : {"half_split", "interleaved"})
    for (const char* context : {"140000", "20000000"})
      check_cuda_variants("attention_decode",
                          {{"batch", "1"},
                           {"q_heads", "4"},
                           {"kv_heads", "1"},
                           {"head_dim", "64"},
                           {"context", context},
                           {"window", "256"},
                           {"append", "yes"},
                           {"style", style}},
                          kFloats, 4);
}

// Scales of V from tiny to huge, and both in one tile: weights stay inside the range of fp16.
const InputChanges kValueScales[] = {
    {{.tensor = "v_scale", .scale = 1e-4}},
    {{.tensor = "v_scale", .scale = 1e-7}},
    {{.tensor = "v_scale", .scale = 1e9}},
    {{.tensor = "v_scale", .scale = 1e-5, .value = 3.0, .every = 67}},
    {{.tensor = "v_scale", .value = 0.0, .every = 2}},
};
Dims eight_bit(const char* kv_dtype, const char* append) {
  return {{"batch", "2"},     {"q_heads", "8"},       {"kv_heads", "2"},     {"head_dim", "128"},
          {"context", "700"}, {"kv_dtype", kv_dtype}, {"kv_scale", "token"}, {"append", append}};
}
TEST(ValueScales, HostVariantsMatchTheReference) {
  for (const InputChanges& changes : kValueScales)
    check_host_variants(with_changes("attention_decode", changes), eight_bit("int8", "no"), kBf16);
}
TEST(GpuValueScales, CudaVariantsMatchTheReference) {
  for (const char* kv_dtype : {"int8", "fp8"})
    for (const InputChanges& changes : kValueScales) {
      SCOPED_TRACE(changes.front().str());
      check_cuda_variants(with_changes("attention_decode", changes), eight_bit(kv_dtype, "no"), kBf16, 6);
    }
  check_cuda_variants(with_changes("attention_decode", kValueScales[3]), eight_bit("int8", "yes"), kBf16, 6);
}

// x times the norm's weight exceeds fp16, the normalized x does not.
Dims fused_norm(const char* tokens, const char* epilogue) {
  return {
      {"tokens", tokens}, {"in", "1024"}, {"out", "256"}, {"prologue", "rms_norm"}, {"epilogue", epilogue}};
}
const InputChanges kLargeX = {{.tensor = "x", .scale = 3e4}, {.tensor = "norm_weight", .scale = 8}};
TEST(LargeActivations, HostVariantsMatchTheReference) {
  check_host_variants(with_changes("linear", kLargeX), fused_norm("3", "none"), kFp16);
}
TEST(LargeActivations, FusedNormsCompile) {
  for (const char* tokens : {"1", "3", "8", "20"})
    check_compiles("linear", fused_norm(tokens, "none"), kFp16, 2);
}
TEST(GpuLargeActivations, FusedNormsMatchTheReference) {
  for (const char* tokens : {"1", "3", "8", "20", "64"})
    check_cuda_variants(with_changes("linear", kLargeX), fused_norm(tokens, "none"), kFp16, 6);
  check_cuda_variants(with_changes("linear", kLargeX), fused_norm("4", "swiglu"), kFp16, 6);
}

// Rows of the caches past the lengths may hold anything.
OpEntry with_garbage_past_lengths() {
  OpEntry entry = find_op("attention_decode");
  entry.op.tensors = [tensors = entry.op.tensors](const Problem& p, std::uint64_t seed) {
    auto specs = tensors(p, seed);
    const auto find = [&](const char* name) { return std::ranges::find(specs, name, &TensorSpec::name); };
    const std::vector<std::int32_t> lengths = find("lengths")->values;
    for (const char* cache : {"k_cache", "v_cache"}) {
      TensorSpec& spec = *find(cache);
      const std::int64_t rows = spec.shape[2], row = spec.shape[3], sequence = spec.shape[1] * rows * row;
      const Values random(spec, tensor_seed(seed, static_cast<std::size_t>(&spec - specs.data())));
      std::vector<float> values;
      for (std::int64_t i = 0; i < spec.count(); ++i)
        values.push_back(i / row % rows < lengths[static_cast<std::size_t>(i / sequence)]
                             ? static_cast<float>(random[i])
                             : NAN);
      spec.floats = std::move(values);
    }
    return specs;
  };
  return entry;
}
const Dims kUnevenDecode = {{"batch", "7"},     {"q_heads", "4"},   {"kv_heads", "2"},
                            {"head_dim", "64"}, {"context", "208"}, {"uneven", "yes"}};
TEST(GarbagePastLengths, HostVariantsDoNotReadIt) {
  check_host_variants(with_garbage_past_lengths(), kUnevenDecode, kFloats);
}
TEST(GpuGarbagePastLengths, CudaVariantsDoNotUseIt) {
  check_cuda_variants(with_garbage_past_lengths(), kUnevenDecode, kFloats, 6);
}

}  // namespace
}  // namespace warptune::testing
