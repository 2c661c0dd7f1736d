// What is exported launches as the variants themselves do, all over the box that it is for.
#include "harness/export/launch_model.h"

#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/device/compile.h"
#include "tests/support.h"
#include "variants/table.h"

namespace warptune {
namespace {

Problem problem_of(const std::string& op, const testing::Dims& dims) {
  return ops().find(op).op.problem(dims, DType::bf16);
}

/// The first default of a problem on an H200 with this variant.
Config config_of(const Problem& problem, const std::string& variant) {
  const auto tiles = ops().default_tiles(problem, known_device("sm_90a"), variant);
  EXPECT_FALSE(tiles.empty()) << problem.key() << " has no default of " << variant;
  return tiles.empty() ? Config{} : tiles.front().config;
}

struct Case {
  std::string op, variant;
  testing::Dims dims;
};

class ExportedLaunch : public ::testing::TestWithParam<Case> {};

TEST_P(ExportedLaunch, IsThatOfTheVariantInItsBox) {
  const auto& [name, variant_name, dims] = GetParam();
  const OpEntry& entry = ops().find(name);
  const Variant& variant = entry.variant(variant_name);
  const Problem problem = problem_of(name, dims);
  const Config config = config_of(problem, variant_name);
  const DeviceFacts facts = known_device("sm_90a");
  const Specialization kernels(entry, variant, problem, config, facts);
  DimBox limit;
  for (const Dim& dim : entry.op.dims)
    if (dim.role == DimRole::work) limit.push_back({dim.name, 1, problem[dim.name]});
  const DimBox box = kernels.largest_box(limit);
  const LaunchModel model = kernels.launch(box);
  const auto stages = active_kernels(variant, problem, config);
  ASSERT_EQ(model.stages.size(), stages.size());
  for (const Problem& p : kernels.problems_in(box, 9)) {
    const auto value = [&](const std::string& dim) { return p[dim]; };
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const Launch launch = launch_of(variant, *stages[i], p, config);
      EXPECT_EQ(expand_kernel_name(variant, *stages[i], p, config), model.stages[i].kernel) << p.key();
      EXPECT_EQ(model.stages[i].grid.x.evaluate(value), launch.grid.x) << p.key();
      EXPECT_EQ(model.stages[i].grid.y.evaluate(value), launch.grid.y) << p.key();
      EXPECT_EQ(model.stages[i].grid.z.evaluate(value), launch.grid.z) << p.key();
      EXPECT_EQ(model.stages[i].block.x.evaluate(value), launch.block.x) << p.key();
      EXPECT_EQ(model.stages[i].shared_bytes.evaluate(value), launch.shared_bytes) << p.key();
      EXPECT_EQ(model.stages[i].max_blocks.evaluate(value), launch.max_blocks) << p.key();
    }
    const std::int64_t workspace = bytes_of(variant.workspace, variant, p, config);
    EXPECT_EQ(model.workspace_bytes.evaluate(value), workspace) << p.key();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Variants, ExportedLaunch,
    ::testing::Values(Case{"rms_norm", "vectorized", {{"tokens", "4096"}, {"hidden", "4096"}}},
                      Case{"swiglu", "vectorized", {{"tokens", "512"}, {"intermediate", "11008"}}},
                      Case{"argmax", "vectorized", {{"batch", "64"}, {"vocab", "32000"}}},
                      Case{"attention_decode",
                           "mma_pipelined",
                           {{"batch", "64"},
                            {"q_heads", "32"},
                            {"kv_heads", "8"},
                            {"head_dim", "128"},
                            {"context", "4096"}}},
                      Case{"attention_prefill",
                           "flash_wgmma",
                           {{"batch", "4"},
                            {"q_heads", "32"},
                            {"kv_heads", "8"},
                            {"head_dim", "128"},
                            {"q_len", "2048"},
                            {"kv_len", "2048"},
                            {"causal", "yes"}}}),
    [](const auto& info) { return info.param.op + "_" + info.param.variant; });

TEST(ExportedBox, TokensInTheKernelsNameAreOneValue) {
  const Problem problem = problem_of("linear", {{"tokens", "4"}, {"in", "4096"}, {"out", "4096"}});
  const OpEntry& entry = ops().find("linear");
  const Variant& variant = entry.variant("gemv_vectorized");
  Config config;
  for (const auto& [name, value] :
       {std::pair{"warps", 4}, {"warps_per_row", 1}, {"rows", 1}, {"unroll", 4}, {"pdl", 0}})
    config.set(name, value);
  const DeviceFacts facts = known_device("sm_90a");
  const Specialization kernels(entry, variant, problem, config, facts);
  EXPECT_EQ(kernels.largest_box({{"tokens", 1, 4}}), (DimBox{{"tokens", 4, 4}}));
}

TEST(ExportedBox, AShorterContextIsServedAsLengthsAreReadAtRunTime) {
  const Problem problem = problem_of(
      "attention_decode",
      {{"batch", "8"}, {"q_heads", "32"}, {"kv_heads", "8"}, {"head_dim", "128"}, {"context", "4096"}});
  const OpEntry& entry = ops().find("attention_decode");
  const auto tiles = ops().default_tiles(problem, known_device("sm_90a"));
  ASSERT_FALSE(tiles.empty());
  const DeviceFacts facts = known_device("sm_90a");
  const Specialization kernels(entry, *tiles[0].variant, problem, tiles[0].config, facts);
  const DimBox box = kernels.largest_box({{"batch", 8, 8}, {"context", 2049, 4096}});
  EXPECT_EQ(box[1].from, 2049) << tiles[0].variant->name << " " << tiles[0].config.str();
}

const ExportedField& field(const ArgsLayout& layout, const std::string& name) {
  for (const ExportedField& f : layout.fields)
    if (f.field.name == name) return f;
  throw std::out_of_range(name);
}

TEST(ArgsLayout, EachMemberSaysWhatItHolds) {
  const Op& op = ops().find("attention_decode").op;
  const testing::Dims dims = {{"batch", "2"}, {"q_heads", "8"}, {"kv_heads", "2"}, {"head_dim", "64"}};
  const auto with_context = [&](const char* batch, const char* context) {
    auto all = dims;
    all[0].second = batch;
    all.emplace_back("context", context);
    return problem_of("attention_decode", all);
  };
  const ArgsLayout layout =
      args_layout(op, with_context("2", "512"), {with_context("3", "512"), with_context("2", "1024")});
  EXPECT_EQ(field(layout, "q").tensor, "q");
  EXPECT_TRUE(field(layout, "workspace").workspace);
  EXPECT_EQ(field(layout, "batch").dim, "batch");
  EXPECT_TRUE(field(layout, "capacity").required) << "it is the caller's, and no dim";
  EXPECT_FLOAT_EQ(static_cast<float>(field(layout, "scale").value.value_or(0)), 0.125f);
  EXPECT_EQ(field(layout, "lse").value, 0) << "a pointer that this problem does not use";
}

TEST(ArgsLayout, OffsetsInsideOfATensorAreKept) {
  const Op& op = ops().find("attention_prefill").op;
  const Problem problem = problem_of("attention_prefill", {{"batch", "1"},
                                                           {"q_heads", "8"},
                                                           {"kv_heads", "2"},
                                                           {"head_dim", "64"},
                                                           {"q_len", "128"},
                                                           {"kv_len", "128"},
                                                           {"kv_layout", "qkv"}});
  const ArgsLayout layout = args_layout(op, problem, {});
  EXPECT_EQ(field(layout, "k_cache").tensor, "qkv");
  EXPECT_EQ(field(layout, "k_cache").tensor_offset, 8 * 64 * 2);
  EXPECT_EQ(field(layout, "k_strides.row").value, (8 + 2 * 2) * 64);
}

TEST(ArgsLayout, EveryTensorIsReachedByAMember) {
  const std::vector<std::pair<std::string, testing::Dims>> problems = {
      {"embedding", {{"tokens", "3"}, {"vocab", "64"}, {"hidden", "32"}}},
      {"rms_norm", {{"tokens", "3"}, {"hidden", "32"}}},
      {"add_rms_norm", {{"tokens", "3"}, {"hidden", "32"}}},
      {"swiglu", {{"tokens", "3"}, {"intermediate", "32"}}},
      {"rope_append",
       {{"tokens", "3"},
        {"q_heads", "4"},
        {"kv_heads", "2"},
        {"head_dim", "64"},
        {"kv_dtype", "int8"},
        {"page_size", "16"}}},
      {"linear", {{"tokens", "3"}, {"in", "64"}, {"out", "64"}, {"bias", "yes"}}},
      {"linear",
       {{"tokens", "3"}, {"in", "64"}, {"out", "64"}, {"prologue", "rms_norm"}, {"epilogue", "add"}}},
      {"linear", {{"tokens", "3"}, {"in", "64"}, {"out", "64"}, {"epilogue", "argmax"}}},
      {"attention_decode",
       {{"batch", "2"},
        {"q_heads", "4"},
        {"kv_heads", "2"},
        {"head_dim", "64"},
        {"context", "64"},
        {"append", "yes"},
        {"bias", "yes"},
        {"kv_dtype", "fp8"},
        {"kv_scale", "token"},
        {"page_size", "16"},
        {"score_bias", "alibi"},
        {"lse", "yes"},
        {"epilogue", "quantize"}}},
      {"attention_prefill",
       {{"batch", "2"},
        {"q_heads", "4"},
        {"kv_heads", "2"},
        {"head_dim", "64"},
        {"q_len", "64"},
        {"kv_len", "64"},
        {"score_bias", "additive"},
        {"dropout", "10"},
        {"page_size", "16"},
        {"lse", "yes"}}},
      {"argmax", {{"batch", "2"}, {"vocab", "64"}}},
      {"top_k", {{"batch", "2"}, {"vocab", "64"}, {"k", "4"}, {"repetition_penalty", "yes"}}}};
  for (const auto& [op, dims] : problems) {
    const Problem problem = problem_of(op, dims);
    const ArgsLayout layout = args_layout(ops().find(op).op, problem, {});
    for (const TensorSpec& tensor : ops().find(op).op.tensors(problem, 1)) {
      if (op == "rope_append" && tensor.name == "bias") continue;  // the op has it even where it is not read
      EXPECT_TRUE(std::ranges::any_of(layout.fields, [&](const auto& f) { return f.tensor == tensor.name; }))
          << problem.key() << ": " << tensor.name;
    }
  }
}

TEST(ArgsLayout, MembersThatAreNotDescribedAreAnError) {
  const Problem problem = problem_of("attention_decode", {{"batch", "1"},
                                                          {"q_heads", "8"},
                                                          {"kv_heads", "2"},
                                                          {"head_dim", "64"},
                                                          {"context", "512"},
                                                          {"append", "yes"},
                                                          {"scaling", "dynamic_ntk"}});
  Op op = ops().find("attention_decode").op;
  const ArgsLayout layout = args_layout(op, problem, {});
  const auto theta = std::ranges::find(layout.fields, "theta", [](const auto& f) { return f.field.name; });
  ASSERT_NE(theta, layout.fields.end());
  EXPECT_EQ(theta->field.type, "double");
  std::erase_if(op.fields, [](const ArgsField& f) {
    return f.name == "theta" || f.name == "factor" || f.name == "max_position";
  });
  EXPECT_THROW(args_layout(op, problem, {}), InputError);
}

}  // namespace
}  // namespace warptune
