// Models split over ranks, each a process of the host, against one rank and against goldens.
#include "harness/llama/tensor_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>

#include "harness/core/error.h"
#include "harness/core/hash.h"
#include "harness/llama/golden.h"
#include "harness/llama/model.h"
#include "harness/llama/prompts.h"
#include "harness/llama/quantized_matrix.h"
#include "harness/llama/step_problem.h"
#include "tests/llama/small_models.h"
#include "tests/ranks.h"
#include "variants/table.h"

namespace warptune {
namespace {

using testing::on_ranks;

namespace fs = std::filesystem;
using Group = std::shared_ptr<RankGroup>;

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

/// Every rank has sampled the same tokens.
void expect_equal_tokens(const Group& group, const Model& model) {
  std::string text;
  for (const std::vector<int>& sequence : model.sampled())
    for (const int id : sequence) text += std::to_string(id) + ' ';
  const auto all = group->all_gather(stable_hash(text));
  EXPECT_TRUE(std::ranges::all_of(all, [&](auto hash) { return hash == all[0]; })) << text;
}

struct Case {
  ModelConfig config;
  DType dtype = DType::fp32;
  ModelOptions options = {};
  std::vector<int> prompts = {9, 3};  // lengths
  fs::path checkpoint = {};           // empty: random weights
  Weights weights(Device& device, const ModelConfig& part) const {
    return checkpoint.empty() ? random_weights(device, part, dtype, 5)
                              : load_weights(device, part, dtype, checkpoint);
  }
};

/// The logits of the ranks are those of one.
void expect_as_one_rank(const Case& c, int ranks) {
  on_ranks(ranks, [&](const Group& group) {
    const OwnedDevice alone = open_device("host"), device = open_device("host", group);
    const ModelConfig part = split_over_ranks(c.config, group->rank(), ranks);
    const Weights whole_weights = c.weights(*alone, c.config), weights = c.weights(*device, part);
    PlanBook whole_book(ops(), *alone, {}), book(ops(), *device, {});
    ModelOptions options = c.options;
    options.batch = static_cast<int>(c.prompts.size());
    options.capacity = 128;
    options.max_steps = 6;
    Model whole(*alone, c.config, whole_weights, whole_book, options);
    Model model(*device, part, weights, book, options);
    const auto prompts = random_prompts(options.batch, c.prompts, c.config.vocab, 3);
    const Agreement agreement = check_against(model, whole, prompts, 5);
    EXPECT_TRUE(agreement.ok()) << agreement.summary();
    model.prefill(prompts);
    for (int i = 0; i < 5; ++i) model.step();
    expect_equal_tokens(group, model);
  });
}

/// 6 query heads on 2 KV heads.
ModelConfig six_heads() {
  ModelConfig config = testing::tiny();
  config.q_heads = 6;
  config.vocab = 96;
  return config;
}

TEST(TensorParallel, ThePartOfARankHasItsDims) {
  const ModelConfig part = split_over_ranks(preset("llama3-8b"), 3, 4);
  EXPECT_EQ(part.q_heads, 8);
  EXPECT_EQ(part.kv_heads, 2);
  EXPECT_EQ(part.intermediate, 14336 / 4);
  EXPECT_EQ(part.vocab, 128256);
  EXPECT_EQ(head_rows(part), 128256 / 4);
  const auto [qkv, qk, v, o, gate_up, down] = layer_slices(part);
  EXPECT_EQ(qkv.rows[0].first, 3072);
  EXPECT_EQ(qkv.rows[1].first, 4096 + 768);
  EXPECT_EQ(qkv.rows[2].first, 4096 + 1024 + 768);
  EXPECT_EQ(qkv.row_count(), part.qkv_width());
  EXPECT_EQ(o.columns.first, 3072);
  EXPECT_EQ(gate_up.rows[1].first, 14336 + 3 * 3584);
  EXPECT_EQ(down.columns.count, 3584);
  EXPECT_EQ(layer_modules(part, 0).v.parts[0].second.first, 768) << "of v_proj";
}

TEST(TensorParallel, RanksShareAKvHeadWhereThereAreFewer) {
  for (int rank = 0; rank < 8; ++rank) {
    const ModelConfig part = split_over_ranks(preset("tinyllama-1.1b"), rank, 8);
    EXPECT_EQ(part.kv_heads, 1);
    EXPECT_EQ(layer_slices(part).qkv.rows[1].first, 2048 + rank / 2 * 64);
  }
}

TEST(TensorParallel, WhatCannotBeSplitIsRefused) {
  const auto error = [](const ModelConfig& config, int ranks) {
    return error_of([&] { split_over_ranks(config, 0, ranks); });
  };
  EXPECT_EQ(error(preset("tinyllama-1.1b"), 3),
            "tinyllama-1.1b has 32 query heads, which 3 ranks cannot split evenly");
  EXPECT_EQ(error(preset("tinyllama-1.1b"), 9), "a model runs on 1 to 8 ranks, not 9");
  ModelConfig config = testing::tiny();
  config.q_heads = config.kv_heads = 6;
  EXPECT_EQ(error(config, 4), "tiny has 6 query heads, which 4 ranks cannot split evenly");
  config.q_heads = 12;
  EXPECT_EQ(error(config, 4), "tiny has 6 KV heads, which 4 ranks cannot split evenly");
  config.kv_heads = 4;
  config.intermediate = 50;
  EXPECT_EQ(error(config, 4), "tiny has 50 columns of the MLP, which 4 ranks cannot split evenly");
  config.intermediate = 48;
  config.hidden = 44;
  EXPECT_EQ(error(config, 4), "tiny has a hidden size of 44; ranks exchange multiples of 8");
}

TEST(TensorParallel, AStepHasTheProblemsOfRanks) {
  const ModelConfig part = split_over_ranks(preset("llama3-8b"), 0, 2);
  const auto keys = [&](const std::vector<Problem>& problems) {
    std::vector<std::string> keys;
    for (const Problem& problem : problems) keys.push_back(problem.key());
    return keys;
  };
  const std::int64_t length = 512;
  const auto decode = keys(decode_problems(ops(), part, DType::bf16, 1, std::span(&length, 1)));
  const auto has = [&](const std::vector<std::string>& list, const char* key) {
    return std::ranges::find(list, key) != list.end();
  };
  EXPECT_TRUE(has(decode, "all_reduce_add_rms_norm[tokens=1,hidden=4096,ranks=2,dtype=bf16]"));
  EXPECT_TRUE(has(decode, "all_gather[tokens=1,columns=64128,ranks=2,dtype=bf16]"));
  EXPECT_FALSE(has(decode, "add_rms_norm[tokens=1,hidden=4096,dtype=bf16]"));
  EXPECT_TRUE(std::ranges::none_of(decode, [](const std::string& key) {
    return key.find("epilogue=argmax") != key.npos || key.find("rms_norm,") != key.npos;
  }));
  const auto prefill = keys(prefill_problems(ops(), part, DType::bf16, 1, std::span(&length, 1)));
  EXPECT_TRUE(has(prefill, "all_reduce[bytes=4194304,ranks=2,dtype=bf16]"));
  EXPECT_TRUE(has(prefill, "add_rms_norm[tokens=512,hidden=4096,dtype=bf16]"));
  const Problem step = step_problem(part, DType::bf16, 1, 512, {});
  EXPECT_EQ(step.key(), "step[model=llama3-8b,batch=1,context=512,ranks=2,dtype=bf16]");
  EXPECT_EQ(step_spec(step, preset("llama3-8b")).model.q_heads, 16);
}

TEST(TensorParallel, RandomWeightsAreThoseOfOneRank) {
  for (const int ranks : {2, 4}) {
    ModelConfig config = testing::tiny();  // a vocabulary that stays whole; with 4 ranks two share a KV head
    expect_as_one_rank({config}, ranks);
    config.tied_embeddings = true;
    config.vocab = 96;
    config.qkv_bias = config.o_bias = config.mlp_bias = true;
    expect_as_one_rank({config, DType::bf16}, ranks);
  }
  ModelConfig config = six_heads();
  expect_as_one_rank({config, DType::fp32, {.graph = false}}, 2);
  config.qk_norm = true;
  expect_as_one_rank({config, DType::fp16}, 2);
}

TEST(TensorParallel, ManyTokensAreReducedBeforeTheNorm) {
  expect_as_one_rank({six_heads(), DType::fp32, {}, {70, 3}}, 2);
}

TEST(TensorParallel, EveryFormatOfWeightsIsSplit) {
  ModelConfig config = six_heads();
  config.q_heads = config.kv_heads = 4;
  config.head_dim = 128;
  config.intermediate = 512;
  config.hidden = 256;
  for (const WeightFormat& format : testing::all_weight_formats()) {
    if (format.act_order) continue;
    SCOPED_TRACE(format.str());
    expect_as_one_rank({in_format(config, format)}, 2);
  }
  config.weights = parse_weight_format("int4:group=32");
  config.layer_formats.assign(static_cast<std::size_t>(config.layers), LayerFormats::all(config.weights));
  config.layer_formats.back().v = parse_weight_format("int8");
  expect_as_one_rank({config}, 2);
}

TEST(TensorParallel, RoundedWeightsHaveTheValuesOfOneRank) {
  const fs::path folder = fs::path(TEST_DATA) / "golden" / "mha";
  for (const char* format : {"int8", "int8:group=64", "int4:group=32", "fp8", "nvfp4", "mxfp4"}) {
    SCOPED_TRACE(format);
    ModelConfig config = read_model(folder);
    config.weights = parse_weight_format(format);
    expect_as_one_rank({.config = config, .checkpoint = folder}, 2);
  }
}

TEST(TensorParallel, SamplingAndQuantizedCachesGoOnAsWithOneRank) {
  ModelOptions sampled{.sampling = parse_sampling("top_k=5,temperature=0.8,seed=3")};
  expect_as_one_rank({six_heads(), DType::fp32, sampled}, 2);
  expect_as_one_rank({six_heads(), DType::fp32, {.kv = {.quantized = DType::int8, .page_size = 16}}}, 2);
}

TEST(TensorParallel, WhatAddsTheResidualElsewhereIsRefused) {
  on_ranks(2, [&](const Group& group) {
    const OwnedDevice device = open_device("host", group);
    const ModelConfig part = split_over_ranks(six_heads(), group->rank(), 2);
    const Weights weights = random_weights(*device, part, DType::fp32, 1);
    PlanBook book(ops(), *device, {});
    const auto error = [&](const FusionChoice& fuse) {
      Model model(*device, part, weights, book, {.batch = 1, .capacity = 64, .max_steps = 1, .fuse = fuse});
      return error_of([&] { model.step_calls(10); });
    };
    EXPECT_EQ(error({.norm = true}),
              "--fuse-norm on needs one rank: 2 ranks add the residual in their exchange");
    EXPECT_EQ(error({.split_norm = true}),
              "--split-norm on needs one rank: 2 ranks add the residual in their exchange");
    EXPECT_EQ(error({.argmax = true}),
              "--fuse-argmax on needs the whole vocabulary; 2 ranks split that of tiny");
    EXPECT_NE(error({.o = true}), "no error");
    group->barrier();
  });
}

/// The logits of a checkpoint on ranks are those of its golden, unless it is refused with that sentence.
void expect_golden(const fs::path& model_path, const fs::path& golden_path, DType dtype, int ranks,
                   const std::string& refusal = "no error") {
  SCOPED_TRACE(model_path.string() + fmt::format(" on {} ranks", ranks));
  on_ranks(ranks, [&](const Group& group) {
    const OwnedDevice device = open_device("host", group);
    ModelConfig config;
    Weights weights;
    const std::string error = error_of([&] {
      config = split_over_ranks(read_model(model_path), group->rank(), ranks);
      weights = load_weights(*device, config, dtype, model_path);
    });
    EXPECT_EQ(error, refusal);
    if (error != "no error") return;
    const Golden golden = read_golden(golden_path);
    PlanBook book(ops(), *device, {});
    Model model(*device, config, weights, book,
                {.batch = static_cast<int>(golden.prompts.size()),
                 .capacity = 80,
                 .positions = 30 + golden.steps(),
                 .max_steps = golden.steps()});
    const Agreement agreement = check_golden(model, golden);
    EXPECT_TRUE(agreement.ok()) << agreement.summary();
    expect_equal_tokens(group, model);
  });
}

class GoldenOnRanks : public ::testing::TestWithParam<const char*> {};
TEST_P(GoldenOnRanks, Agrees) {
  const fs::path folder = fs::path(TEST_DATA) / "golden" / GetParam();
  for (const int ranks : {2, 4})
    if (read_model(folder).q_heads % ranks == 0)
      for (const DType dtype : {DType::fp32, DType::bf16})
        expect_golden(folder, folder / "golden.safetensors", dtype, ranks);
}
INSTANTIATE_TEST_SUITE_P(Folders, GoldenOnRanks,
                         ::testing::Values("mha", "gqa", "llama3_rope", "tied", "mistral", "phi3", "smollm3",
                                           "granite"),
                         [](const auto& info) { return std::string(info.param); });

class QuantizedGoldenOnRanks : public ::testing::TestWithParam<const char*> {};
TEST_P(QuantizedGoldenOnRanks, AgreesOrIsRefused) {
  const std::string name = GetParam();
  const fs::path folder = fs::path(TEST_DATA) / "quantized" / name;
  std::string refusal = "no error";
  if (name == "gptq_act_order")
    refusal =
        "'model.layers.0.self_attn.o_proj' has its columns in another order (g_idx), which ranks cannot "
        "split";
  if (name == "fp8_block")
    refusal = "fp8_block has 128 columns of o in groups of 128, which 2 ranks cannot split evenly";
  if (name == "gptq")
    refusal = "gptq has 192 columns of down in groups of 64, which 2 ranks cannot split evenly";
  expect_golden(folder, folder / "golden.safetensors", DType::fp32, 2, refusal);
}
INSTANTIATE_TEST_SUITE_P(Folders, QuantizedGoldenOnRanks, ::testing::ValuesIn(testing::kQuantizedGoldens),
                         [](const auto& info) { return std::string(info.param); });

TEST(TensorParallel, GgufFilesAreSplitOrRefused) {
  const fs::path folder = fs::path(TEST_DATA) / "gguf";
  const auto expect = [&](const std::string& name, const std::string& refusal) {
    expect_golden(folder / name / "model.gguf", folder / name / "golden.safetensors", DType::fp32, 2,
                  refusal);
  };
  expect("llama_q4_k", "model has 256 columns of down in groups of 256, which 2 ranks cannot split evenly");
  expect("qwen3_f16", "no error");
  for (const char* name : {"llama_q4_0", "qwen2_q8_0"})
    expect(name, "model has 96 columns of down in groups of 32, which 2 ranks cannot split evenly");
}

/// The stored value of an element of a matrix.
int value_at(const QuantizedMatrix& matrix, std::int64_t columns, std::int64_t row, std::int64_t column) {
  const int bits = weight_bits(matrix.format.weights);
  const PackedPosition at = packed_position(matrix.format.weights, columns, row, column);
  return std::to_integer<int>(matrix.weight[static_cast<std::size_t>(at.byte)]) >> at.shift &
         ((1 << bits) - 1);
}

TEST(TensorParallel, ASliceOfGgufBlocksHasTheValuesOfTheWhole) {
  const fs::path file = fs::path(TEST_DATA) / "gguf" / "llama_q4_0" / "model.gguf";
  const ModelConfig config = read_model(file);
  const Checkpoint checkpoint(file);
  const std::int64_t hidden = config.hidden, q = config.q_width(), head = config.head_dim, group = 32;
  const auto read = [&](const std::string& module, const Slice& rows, const Slice& columns) {
    return read_quantized(checkpoint, *config.quantization, {{"model.layers.0." + module, rows}}, columns)
        .value();
  };
  const auto expect_slice = [&](const std::string& module, const Slice& rows, const Slice& columns) {
    const QuantizedMatrix whole = read(module, rows.stored, columns.stored),
                          slice = read(module, rows, columns);
    for (std::int64_t row = 0; row < rows.count; ++row)
      for (std::int64_t column = 0; column < columns.count; ++column)
        ASSERT_EQ(value_at(slice, columns.count, row, column),
                  value_at(whole, columns.stored, rows.first + row, columns.first + column));
    const auto scale = [](const QuantizedMatrix& m, std::int64_t width, std::int64_t row,
                          std::int64_t column) {
      return load(DType::fp16, m.scales.data(),
                  scale_index(m.format.weights, m.format.group, width, row, column));
    };
    EXPECT_EQ(scale(slice, columns.count, 1, 0), scale(whole, columns.stored, rows.first + 1, columns.first));
  };
  expect_slice("self_attn.q_proj", {head, head, q}, hidden);  // whose rows the file has in pairs
  expect_slice("mlp.down_proj", hidden, {group, 2 * group, config.intermediate});
}

}  // namespace
}  // namespace warptune
