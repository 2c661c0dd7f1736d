// Every value of every parameter of every CUDA variant, on problems where it is legal. A new op needs an
// entry in coverage().
#include <algorithm>

#include "harness/device/device.h"
#include "tests/support.h"

namespace warptune::testing {
namespace {

struct Coverage {
  std::string op;
  std::vector<Dims> problems;
  DType dtype = DType::bf16;
  std::vector<Dims> fp32_problems = {};  // for values that are legal in fp32 only
};

Dims heads(int batch, int q_heads, int kv_heads, int head_dim, int context, bool dsx = false) {
  Dims d{{"batch", std::to_string(batch)},
         {"q_heads", std::to_string(q_heads)},
         {"kv_heads", std::to_string(kv_heads)},
         {"head_dim", std::to_string(head_dim)},
         {"context", std::to_string(context)}};
  if (dsx) d.push_back({"k_layout", "dsx"});
  return d;
}

std::vector<Coverage> coverage() {
  return {
      {"embedding", {{{"tokens", "300"}, {"vocab", "50"}, {"hidden", "8192"}}}},
      {"padding_offset", {{{"batch", "2500"}, {"max_q_len", "11"}}}, DType::int32},
      {"remove_padding", {{{"batch", "9"}, {"max_q_len", "31"}, {"hidden", "8192"}}}},
      {"restore_padding", {{{"batch", "9"}, {"max_q_len", "31"}, {"hidden", "8192"}}}},
      {"causal_mask", {{{"batch", "2"}, {"max_q_len", "64"}, {"max_k_len", "8192"}}}},
      {"rms_norm", {{{"tokens", "300"}, {"hidden", "8192"}}, {{"tokens", "300"}, {"hidden", "512"}}}},
      {"add_rms_norm", {{{"tokens", "300"}, {"hidden", "8192"}}, {{"tokens", "300"}, {"hidden", "512"}}}},
      {"linear",
       {{{"tokens", "1"}, {"in", "4096"}, {"out", "4096"}},
        {{"tokens", "1"}, {"in", "4096"}, {"out", "512"}, {"epilogue", "add"}},
        {{"tokens", "1"}, {"in", "5120"}, {"out", "512"}},
        {{"tokens", "1"}, {"in", "11008"}, {"out", "512"}},
        {{"tokens", "1"}, {"in", "14336"}, {"out", "512"}},
        {{"tokens", "8"}, {"in", "4096"}, {"out", "1024"}},
        {{"tokens", "8"}, {"in", "4096"}, {"out", "4096"}},
        {{"tokens", "8"}, {"in", "4096"}, {"out", "4096"}, {"epilogue", "add"}},
        {{"tokens", "32"}, {"in", "2048"}, {"out", "12288"}},
        {{"tokens", "2"}, {"in", "512"}, {"out", "40000"}},
        {{"tokens", "17"}, {"in", "512"}, {"out", "40000"}},
        {{"tokens", "16"}, {"in", "128"}, {"out", "400000"}},
        {{"tokens", "1"}, {"in", "16384"}, {"out", "512"}},
        {{"tokens", "256"}, {"in", "1024"}, {"out", "512"}},
        {{"tokens", "1100"}, {"in", "128"}, {"out", "512"}},
        {{"tokens", "1"}, {"in", "8192"}, {"out", "512"}, {"weights", "int4"}},
        {{"tokens", "1"}, {"in", "11008"}, {"out", "512"}, {"weights", "int4"}, {"group", "128"}},
        {{"tokens", "16"}, {"in", "4096"}, {"out", "512"}, {"weights", "int4"}, {"group", "128"}},
        {{"tokens", "2"}, {"in", "4096"}, {"out", "4096"}, {"epilogue", "add"}, {"weights", "int4"}},
        {{"tokens", "16"}, {"in", "2048"}, {"out", "4096"}, {"weights", "int4"}, {"group", "128"}},
        {{"tokens", "32"}, {"in", "1024"}, {"out", "12288"}, {"weights", "int4"}, {"group", "128"}},
        {{"tokens", "48"}, {"in", "512"}, {"out", "28672"}, {"weights", "int4"}, {"group", "128"}},
        {{"tokens", "256"}, {"in", "512"}, {"out", "512"}, {"weights", "int8"}},
        {{"tokens", "256"}, {"in", "512"}, {"out", "512"}, {"weights", "fp8"}, {"activations", "fp8"}},
        {{"tokens", "256"}, {"in", "3072"}, {"out", "512"}, {"weights", "fp8"}, {"activations", "fp8"}},
        {{"tokens", "1100"}, {"in", "512"}, {"out", "512"}, {"weights", "fp8"}, {"activations", "fp8"}}}},
      {"all_reduce", {{{"bytes", "131072"}, {"ranks", "2"}}}},
      {"all_gather", {{{"tokens", "4"}, {"columns", "16384"}, {"ranks", "2"}}}},
      {"all_reduce_add_rms_norm",
       {{{"tokens", "3"}, {"hidden", "8192"}, {"ranks", "2"}},
        {{"tokens", "3"}, {"hidden", "512"}, {"ranks", "2"}}}},
      {"rope_append", {{{"tokens", "300"}, {"q_heads", "8"}, {"kv_heads", "2"}, {"head_dim", "128"}}}},
      {"attention_decode",
       {heads(1, 32, 32, 128, 4096),
        heads(1, 2, 1, 128, 1000),
        heads(1, 3, 1, 128, 1000),
        heads(1, 5, 1, 128, 1000),
        heads(1, 6, 1, 128, 1000),
        heads(1, 7, 1, 128, 1000),
        heads(1, 8, 1, 128, 32768),
        heads(2, 8, 2, 256, 300),
        heads(2, 8, 2, 64, 4096),
        heads(1, 8, 1, 64, 4096),
        heads(1, 8, 1, 64, 100),
        heads(1, 32, 32, 128, 200),
        heads(64, 32, 8, 128, 300),
        heads(16, 32, 32, 64, 1100),
        heads(1, 2, 2, 16, 200),
        heads(1, 2, 2, 128, 200, true),
        heads(1, 2, 2, 64, 200, true),
        heads(1, 420, 1, 128, 90),
        heads(1, 8, 2, 256, 90),
        {{"batch", "1"},
         {"q_heads", "2"},
         {"kv_heads", "2"},
         {"head_dim", "128"},
         {"context", "200"},
         {"append", "yes"}},
        {{"batch", "1"},
         {"q_heads", "16"},
         {"kv_heads", "2"},
         {"head_dim", "64"},
         {"context", "1000"},
         {"append", "yes"},
         {"epilogue", "project"},
         {"hidden", "768"}}}},
      {"attention_prefill",
       {{{"batch", "1"},
         {"q_len", "300"},
         {"kv_len", "300"},
         {"q_heads", "8"},
         {"kv_heads", "2"},
         {"head_dim", "128"}},
        {{"batch", "1"},
         {"q_len", "100"},
         {"kv_len", "2000"},
         {"q_heads", "4"},
         {"kv_heads", "4"},
         {"head_dim", "64"}},
        {{"batch", "1"},
         {"q_len", "70"},
         {"kv_len", "130"},
         {"q_heads", "2"},
         {"kv_heads", "2"},
         {"head_dim", "256"},
         {"score_bias", "additive"}},
        {{"batch", "1"},
         {"q_len", "40"},
         {"kv_len", "8192"},
         {"q_heads", "2"},
         {"kv_heads", "1"},
         {"head_dim", "64"}},
        {{"batch", "1"},
         {"q_len", "9"},
         {"kv_len", "600"},
         {"q_heads", "160"},
         {"kv_heads", "40"},
         {"head_dim", "64"}},
        {{"batch", "1"},
         {"q_len", "9"},
         {"kv_len", "3000"},
         {"q_heads", "40"},
         {"kv_heads", "10"},
         {"head_dim", "64"}},
        {{"batch", "1"},
         {"q_len", "9"},
         {"kv_len", "8192"},
         {"q_heads", "2"},
         {"kv_heads", "1"},
         {"head_dim", "256"}}},
       DType::bf16,
       {{{"batch", "1"},
         {"q_len", "100"},
         {"kv_len", "300"},
         {"q_heads", "4"},
         {"kv_heads", "2"},
         {"head_dim", "64"}},
        {{"batch", "1"},
         {"q_len", "100"},
         {"kv_len", "300"},
         {"q_heads", "4"},
         {"kv_heads", "2"},
         {"head_dim", "64"},
         {"precision", "tf32"}}}},
      {"swiglu", {{{"tokens", "300"}, {"intermediate", "11008"}}}},
      {"softmax",
       {{{"batch", "2"}, {"q_heads", "2"}, {"q_len", "16"}, {"kv_len", "8192"}},
        {{"batch", "2"}, {"q_heads", "2"}, {"q_len", "16"}, {"kv_len", "256"}}}},
      {"logits_dot_v", {heads(2, 16, 2, 128, 5000), heads(2, 8, 8, 128, 700), heads(2, 4, 2, 256, 300)}},
      {"argmax", {{{"batch", "1"}, {"vocab", "128256"}}, {{"batch", "64"}, {"vocab", "32000"}}}},
      {"top_k",
       {{{"batch", "1"}, {"vocab", "128256"}, {"k", "50"}},
        {{"batch", "64"}, {"vocab", "3000"}, {"k", "50"}},
        {{"batch", "64"}, {"vocab", "3000"}, {"k", "3000"}},
        {{"batch", "64"}, {"vocab", "3000"}, {"k", "50"}, {"repetition_penalty", "yes"}, {"min_p", "yes"}}}},
      {"advance", {{{"batch", "300"}}}, DType::int32},
  };
}

/// The values of parameters that are legal on no problem of an op.
std::vector<std::string> missing_values(const OpEntry& entry, const Coverage& c, const DeviceFacts& facts) {
  std::vector<std::string> missing, missing_in_fp32;
  covering_configs(entry, c.problems, c.dtype, facts, missing);
  for (const auto& [variant, problem, config] :
       covering_configs(entry, c.fp32_problems, DType::fp32, facts, missing_in_fp32))
    for (const auto& value : config)
      std::erase(missing,
                 entry.op.name + "/" + variant->name + " " + value.name + "=" + std::to_string(value.value));
  return missing;
}

TEST(EveryParameter, HasAProblemForEachValue) {
  const auto all = coverage();
  for (const OpEntry& entry : ops()) {
    const auto it = std::ranges::find(all, entry.op.name, &Coverage::op);
    if (it == all.end()) {
      ADD_FAILURE() << "add problems of " << entry.op.name << " to coverage() (docs/adding-an-op.md)";
      continue;
    }
    // Some values are legal on one architecture only.
    const auto sm_80 = missing_values(entry, *it, known_device("sm_80"));
    for (const std::string& text : missing_values(entry, *it, known_device("sm_90a")))
      EXPECT_EQ(std::ranges::count(sm_80, text), 0)
          << text << ": coverage() has no problem where this value is legal";
  }
}

class EveryParameterOf : public ::testing::TestWithParam<Coverage> {};

TEST_P(EveryParameterOf, MatchesTheReferenceWithEachOfItsValues) {
  const Coverage& c = GetParam();
  if (ranks_of(find_op(c.op).op.problem(c.problems.front(), c.dtype)) > 1)
    GTEST_SKIP() << "it runs on several GPUs: AllReduceGpu";
  check_covering_configs(find_op(c.op), c.problems, c.dtype);
  if (!c.fp32_problems.empty()) check_covering_configs(find_op(c.op), c.fp32_problems, DType::fp32);
}
INSTANTIATE_TEST_SUITE_P(Gpu, EveryParameterOf, ::testing::ValuesIn(coverage()),
                         [](const auto& info) { return info.param.op; });

}  // namespace
}  // namespace warptune::testing
