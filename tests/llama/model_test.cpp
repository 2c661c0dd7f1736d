// Complete models on a device against the goldens of transformers and against themselves.
#include "harness/llama/model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "harness/core/error.h"
#include "harness/llama/decode_report.h"
#include "harness/llama/golden.h"
#include "harness/llama/prompts.h"
#include "harness/results/source_hash.h"
#include "kernels/linear/args.h"
#include "tests/llama/small_models.h"
#include "variants/table.h"

namespace warptune {
namespace {

using testing::golden_run_name, testing::GoldenRun, testing::kFamilyGoldens, testing::kGoldens, testing::tiny;

namespace fs = std::filesystem;

void expect_golden(const std::string& name, const std::string& where, DType dtype, bool naive, bool fused,
                   const char* file = "golden.safetensors") {
  SCOPED_TRACE(name + " " + std::string(name_of(dtype)) + (naive ? " naive" : "") + (fused ? " fused" : ""));
  const fs::path folder = fs::path(TEST_DATA) / "golden" / name;
  const auto device = open_device(where);
  const ModelConfig config = read_model_config(folder / "config.json");
  const Golden golden = read_golden(folder / file);
  const Weights weights = load_weights(*device, config, dtype, folder);
  PlanBook book(ops(), *device, {.naive = naive});
  std::size_t longest = 0;
  for (const std::vector<int>& prompt : golden.prompts) longest = std::max(longest, prompt.size());
  Model model(*device, config, weights, book,
              {.batch = static_cast<int>(golden.prompts.size()),
               .capacity = 80,
               .positions = static_cast<int>(longest) + golden.steps(),
               .max_steps = golden.steps(),
               .fuse = {fused, fused, fused && !config.mlp_bias, fused, false},
               .graph = !naive});
  const Agreement agreement = check_golden(model, golden);
  EXPECT_TRUE(agreement.ok()) << agreement.summary();
}

TEST(Model, AgreesWithTransformersOnTheHost) {
  for (const char* name : kGoldens)
    for (const DType dtype : {DType::fp32, DType::bf16})
      for (const bool fused : {false, true}) expect_golden(name, "host", dtype, false, fused);
  expect_golden("tied", "host", DType::fp16, false, false);
}

class Family : public ::testing::TestWithParam<GoldenRun> {};
TEST_P(Family, AgreesWithTransformersOnTheHost) {
  const auto [name, dtype] = GetParam();
  for (const bool fused : {false, true}) expect_golden(name, "host", dtype, false, fused);
  expect_golden(name, "host", dtype, true, false);
}
INSTANTIATE_TEST_SUITE_P(Goldens, Family,
                         ::testing::Combine(::testing::ValuesIn(kFamilyGoldens),
                                            ::testing::Values(DType::fp32, DType::bf16)),
                         golden_run_name);

TEST(Model, LongropeHasItsLongFactorsBeyondTheOriginalLength) {
  expect_golden("phi3", "host", DType::fp32, false, true, "golden_long.safetensors");
}

TEST(Model, NaivePlansAgreeWithTransformers) {
  for (const char* name : kGoldens) expect_golden(name, "host", DType::fp32, true, false);
}

class GpuModel : public ::testing::TestWithParam<GoldenRun> {};
TEST_P(GpuModel, AgreesWithTransformers) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto [name, dtype] = GetParam();
  for (const bool naive : {false, true})
    for (const bool fused : {false, true})
      if (!naive || !fused) expect_golden(name, "cuda:0", dtype, naive, fused);
}
INSTANTIATE_TEST_SUITE_P(Goldens, GpuModel,
                         ::testing::Combine(::testing::ValuesIn(kGoldens),
                                            ::testing::Values(DType::fp32, DType::bf16, DType::fp16)),
                         golden_run_name);
INSTANTIATE_TEST_SUITE_P(Families, GpuModel,
                         ::testing::Combine(::testing::ValuesIn(kFamilyGoldens),
                                            ::testing::Values(DType::fp32, DType::bf16, DType::fp16)),
                         golden_run_name);

/// A model with random weights on the host, with all objects that it refers to.
struct Rig {
  explicit Rig(ModelOptions options, ModelConfig shape = tiny(), DType dtype = DType::fp32,
               PlanBook::Options plans = {})
      : config(std::move(shape)),
        weights(random_weights(*device, config, dtype, 3)),
        book(ops(), *device, std::move(plans)),
        model(*device, config, weights, book, options) {}
  std::unique_ptr<Device> device = open_device("host");
  ModelConfig config;
  Weights weights;
  PlanBook book;
  Model model;
};

std::vector<std::vector<int>> run(Model& model, const std::vector<std::vector<int>>& prompts, int steps) {
  model.prefill(prompts);
  for (int i = 0; i < steps; ++i) model.step();
  return model.transcript();
}

TEST(Model, ABatchOfUnevenPromptsMatchesEachAlone) {
  const std::vector<int> lengths = {1, 7, 33, 64};
  const auto prompts = random_prompts(4, lengths, tiny().vocab, 5);
  Rig together({.batch = 4, .capacity = 80, .max_steps = 6});
  const auto tokens = run(together.model, prompts, 6);
  for (std::size_t b = 0; b < prompts.size(); ++b) {
    Rig alone({.batch = 1, .capacity = 80, .max_steps = 6});
    EXPECT_EQ(run(alone.model, {prompts[b]}, 6)[0], tokens[b]) << "sequence " << b;
    EXPECT_EQ(tokens[b].size(), 7u);
  }
}

TEST(Model, DecodeMatchesAPrefillOfTheSameTokens) {
  auto prompts = random_prompts(1, std::vector{61}, tiny().vocab, 6);
  Rig stepped({.batch = 1, .capacity = 80, .max_steps = 5});
  const auto tokens = run(stepped.model, prompts, 5)[0];  // crosses the bucket of 64
  const auto logits = stepped.model.logits();
  prompts[0].insert(prompts[0].end(), tokens.begin(), tokens.end() - 1);
  Rig complete({.batch = 1, .capacity = 80, .max_steps = 0});
  complete.model.prefill(prompts);
  const auto want = complete.model.logits();
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(logits[i], want[i], 2e-4) << i;
}

// Both prompts grow beyond 16 tokens, from where on theta grows with every token.
TEST(Model, FusedAndSeparateAppendsGiveTheSameWhereThetaGrows) {
  ModelConfig growing = tiny();
  growing.rope = {.kind = RopeKind::dynamic_ntk, .factor = 4, .original_max_position = 16};
  const auto prompts = random_prompts(2, std::vector{5, 20}, tiny().vocab, 7);
  const auto logits = [&](const ModelConfig& config, bool fused) {
    Rig rig({.batch = 2, .capacity = 64, .max_steps = 16, .fuse = {.append = fused}}, config);
    run(rig.model, prompts, 16);
    return rig.model.logits();
  };
  const auto apart = logits(growing, false), fused = logits(growing, true), still = logits(tiny(), true);
  double largest = 0, moved = 0;
  for (std::size_t i = 0; i < apart.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(fused[i]) - apart[i]));
    moved = std::max(moved, std::abs(static_cast<double>(fused[i]) - still[i]));
  }
  EXPECT_LT(largest, 2e-4);
  EXPECT_GT(moved, 1e-2) << "the growth matters";
}

TEST(Model, FusedNormsAndSwigluGiveTheSame) {
  const auto prompts = random_prompts(2, std::vector{5, 9}, tiny().vocab, 7);
  const auto of_step = [&](bool norm, bool swiglu, bool split_norm) {
    Rig rig({.batch = 2,
             .capacity = 64,
             .max_steps = 4,
             .fuse = {.append = false, .norm = norm, .swiglu = swiglu, .split_norm = split_norm}});
    run(rig.model, prompts, 4);
    return std::pair(rig.model.logits(), static_cast<int>(rig.model.step_calls(16).size()));
  };
  const auto [apart, launches] = of_step(false, false, false);
  for (const bool norm : {false, true})
    for (const bool swiglu : {false, true})
      for (const bool split_norm : {false, true}) {
        SCOPED_TRACE(fmt::format("norm {} swiglu {} split_norm {}", norm, swiglu, split_norm));
        const auto [fused, fewer] = of_step(norm, swiglu, split_norm);
        for (std::size_t i = 0; i < apart.size(); ++i) EXPECT_NEAR(fused[i], apart[i], 2e-4) << i;
        // The first norm follows no product.
        const int norms = split_norm ? 2 * tiny().layers : norm ? 2 * tiny().layers + 1 : 0;
        EXPECT_EQ(launches - fewer, norms + (swiglu ? tiny().layers : 0));
      }
}

TEST(Model, OInsideAttentionGivesTheSame) {
  const auto prompts = random_prompts(1, std::vector{9}, tiny().vocab, 7);
  ModelConfig config = tiny();
  for (const bool qk_norm : {false, true}) {
    config.qk_norm = qk_norm;
    const auto of_step = [&](bool norm, bool o) {
      Rig rig({.batch = 1,
               .capacity = 64,
               .max_steps = 4,
               .fuse = {.append = true, .norm = norm, .swiglu = false, .split_norm = false, .o = o}},
              config);
      run(rig.model, prompts, 4);
      return std::pair(rig.model.logits(), static_cast<int>(rig.model.step_calls(16).size()));
    };
    const auto [apart, launches] = of_step(true, false);
    const auto [fused, fewer] = of_step(true, true);
    for (std::size_t i = 0; i < apart.size(); ++i) EXPECT_NEAR(fused[i], apart[i], 2e-4) << i;
    EXPECT_EQ(launches - fewer, tiny().layers);
    EXPECT_THROW(of_step(false, true), InputError) << "it takes a fused norm";
  }
}

TEST(Model, TheFusedAppendNormalizesHeads) {
  ModelConfig config = tiny();
  config.qk_norm = true;
  Rig rig({.batch = 1, .capacity = 64, .max_steps = 1, .fuse = {.append = true}}, config);
  run(rig.model, random_prompts(1, std::vector{9}, tiny().vocab, 7), 1);
  int fused = 0;
  for (const Call& call : rig.model.step_calls(16)) {
    const Problem& p = call.entry->problem;
    EXPECT_NE(p.op, "rope_append");
    if (p.op == "attention_decode") fused += p["append"] == 1 && p["qk_norm"] == 1;
  }
  EXPECT_EQ(fused, config.layers);
}

TEST(Model, GemmsGetTheWeightsOfTheNextOne) {
  Rig rig({.batch = 1, .capacity = 64, .max_steps = 1, .fuse = {.norm = true, .swiglu = true}});
  run(rig.model, random_prompts(1, std::vector{5}, tiny().vocab, 7), 1);
  const auto& layers = rig.model.weights().layers;
  int seen = 0;
  for (const Call& call : rig.model.step_calls(16)) {
    const std::string name = call.outputs.empty() ? "" : call.outputs.back().op;
    const auto layer = static_cast<std::size_t>(std::max(call.layer, 0));
    const bool last = layer + 1 == layers.size();
    const Matrix* next = nullptr;
    std::int64_t rows = tiny().hidden, in = tiny().hidden;
    if (name == "linear_qkv")
      next = &layers[layer].o, in = tiny().q_width();
    else if (name == "add_rms_norm_attention")
      next = &layers[layer].gate_up, rows = 2 * tiny().intermediate;
    else if (name == "swiglu")
      next = &layers[layer].down, in = tiny().intermediate;
    else if (name == "add_rms_norm_mlp")
      next = last ? nullptr : &layers[layer + 1].qkv, rows = tiny().qkv_width();
    else
      continue;
    ++seen;
    PrefetchLinearArgs args;
    ASSERT_EQ(call.args.size(), sizeof args);
    std::memcpy(&args, call.args.data(), sizeof args);
    if (!next) {
      EXPECT_EQ(args.next_rows, 0) << "lm_head is not prefetched";
      continue;
    }
    EXPECT_EQ(args.next_weight, next->weight.data()) << name;
    EXPECT_EQ(args.next_rows, rows) << name;
    EXPECT_EQ(args.next_row_bytes, in * static_cast<std::int64_t>(sizeof(float))) << name;
  }
  EXPECT_EQ(seen, 4 * tiny().layers);
}

/// The ops of a step, and the tokens of a run.
struct Greedy {
  explicit Greedy(ModelOptions options, DType dtype = DType::bf16, PlanBook::Options plans = {}) {
    options.batch = 3;
    options.capacity = 64;
    options.max_steps = 12;
    Rig rig(options, tiny(), dtype, std::move(plans));
    tokens = run(rig.model, random_prompts(3, std::vector{5, 9, 2}, tiny().vocab, 7), 12);
    for (const Call& call : rig.model.step_calls(16)) ops.push_back(call.entry->problem.key());
  }
  bool has(const std::string& part) const {
    return std::ranges::any_of(ops, [&](const auto& key) { return key.find(part) != std::string::npos; });
  }
  std::vector<std::vector<int>> tokens;
  std::vector<std::string> ops;
};

TEST(Model, AFusedArgmaxGivesTheSameTokens) {
  for (const DType dtype : {DType::fp32, DType::bf16})  // 16-bit logits often have equal maxima
    for (const bool norm : {false, true}) {
      const Greedy apart({.fuse = {false, norm, false, false}}, dtype);
      const Greedy fused({.fuse = {false, norm, false, true}}, dtype);
      EXPECT_EQ(fused.tokens, apart.tokens);
      EXPECT_EQ(fused.ops.size() + 1, apart.ops.size());
      EXPECT_TRUE(fused.has("epilogue=argmax") && !fused.has("argmax["));
      EXPECT_TRUE(!apart.has("epilogue=argmax") && apart.has("argmax["));
    }
  const Greedy sampled({.sampling = parse_sampling("top_k=5"), .fuse = {.argmax = true}});
  EXPECT_TRUE(!sampled.has("epilogue=argmax") && sampled.has("top_k[")) << "its sampling is not greedy";
}

TEST(Model, ArgmaxIsFusedWhereItIsFasterByTheWisdom) {
  const ModelProblems of(ops(), tiny(), DType::fp32);
  const auto is_fused = [&](double fused_us) {
    const auto device = open_device("host");
    const DeviceFacts& facts = device->facts();
    Wisdom wisdom({facts.name, facts.arch, facts.driver, facts.toolkit, "abc"});
    const auto put = [&](const Problem& problem, double us) {
      Winner winner{.problem = problem, .variant = "host_naive", .config = {}, .time_us = us};
      winner.source_hash = source_hash(Compiler(KernelSources(), {}), ops(), winner);
      wisdom.put(winner);
    };
    put(of.lm_head(3), 10);
    put(of.argmax(3), 2);
    put(of.lm_head(3, {.argmax = true}), fused_us);
    return Greedy({}, DType::fp32, {.wisdom = wisdom, .has_wisdom = true}).has("epilogue=argmax");
  };
  EXPECT_TRUE(is_fused(11));
  EXPECT_FALSE(is_fused(13));
}

TEST(Model, APinnedStepAttendsToTheKeysOfEachSequence) {
  const auto prompts = random_prompts(2, std::vector{5, 30}, tiny().vocab, 7);
  Rig rig({.batch = 2, .capacity = 64, .max_steps = 1});
  const auto next_logits = [&](const std::optional<std::vector<int>>& keys) {
    rig.model.prefill(prompts);
    if (keys) rig.model.pin(*keys);
    rig.model.step();
    const auto both = rig.model.logits();
    const auto half = both.begin() + static_cast<std::ptrdiff_t>(both.size() / 2);
    return std::pair(std::vector(both.begin(), half), std::vector(half, both.end()));
  };
  const auto want = next_logits(std::nullopt), even = next_logits(std::vector{31, 31});
  EXPECT_EQ(next_logits(std::vector{6, 31}), want);
  EXPECT_NE(even.first, want.first);
  EXPECT_EQ(even.second, want.second);
  EXPECT_THROW(rig.model.pin(std::vector{6}), std::logic_error);
}

TEST(Model, GraphsAndLaunchesGiveTheSame) {
  const auto prompts = random_prompts(2, std::vector{5, 9}, tiny().vocab, 7);
  Rig graph({.batch = 2, .capacity = 64, .max_steps = 4, .graph = true});
  Rig launches({.batch = 2, .capacity = 64, .max_steps = 4, .graph = false});
  EXPECT_EQ(run(graph.model, prompts, 4), run(launches.model, prompts, 4));
}

TEST(Model, FinishedSequencesAreSkipped) {
  const auto prompts = random_prompts(2, std::vector{5, 9}, tiny().vocab, 7);
  Rig open({.batch = 2, .capacity = 64, .max_steps = 8});
  const auto tokens = run(open.model, prompts, 8);
  ModelConfig shape = tiny();
  shape.eos = {tokens[0][2]};  // the third token of the first sequence
  Rig closed({.batch = 2, .capacity = 64, .max_steps = 8, .eos = shape.eos[0]}, shape);
  const auto cut = run(closed.model, prompts, 8);
  const auto end = std::ranges::find(tokens[0], shape.eos[0]) - tokens[0].begin();
  EXPECT_EQ(cut[0], std::vector<int>(tokens[0].begin(), tokens[0].begin() + end + 1));
  if (std::ranges::find(tokens[1], shape.eos[0]) == tokens[1].end()) {
    EXPECT_EQ(cut[1], tokens[1]);
    EXPECT_FALSE(closed.model.all_finished());
  }
}

TEST(Model, TopKIsReproducibleAndDiffersBySeed) {
  const auto prompts = random_prompts(1, std::vector{5}, tiny().vocab, 7);
  const auto with = [&](const char* sampling) {
    Rig rig({.batch = 1, .capacity = 64, .max_steps = 20, .sampling = parse_sampling(sampling)});
    return run(rig.model, prompts, 20);
  };
  EXPECT_EQ(with("top_k=50,p=0.95,temperature=2,seed=1"), with("top_k=50,p=0.95,temperature=2,seed=1"));
  EXPECT_NE(with("top_k=50,p=0.95,temperature=2,seed=1"), with("top_k=50,p=0.95,temperature=2,seed=2"));
  Rig greedy({.batch = 1, .capacity = 64, .max_steps = 20});
  EXPECT_EQ(with("top_k=1"), run(greedy.model, prompts, 20));
}

TEST(Model, LogitsStayFiniteOverManyLayers) {
  ModelConfig shape = tiny();
  shape.layers = 64;
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    Rig rig({.batch = 1, .capacity = 64, .max_steps = 1}, shape, dtype);
    rig.model.prefill(random_prompts(1, std::vector{8}, shape.vocab, 2));
    for (const float x : rig.model.logits()) EXPECT_LT(std::abs(x), 50.0f);
  }
}

TEST(Model, TunedAgreesWithNaive) {
  const auto prompts = random_prompts(2, std::vector{5, 40}, tiny().vocab, 9);
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const ModelOptions options{.batch = 2, .capacity = 80, .max_steps = 8};
    Rig tuned(options, tiny(), dtype), naive(options, tiny(), dtype, {.naive = true});
    const Agreement agreement = check_against(tuned.model, naive.model, prompts, 8);
    EXPECT_TRUE(agreement.ok()) << agreement.summary();
  }
}

TEST(Model, StepsAloneAgreeWithNaive) {
  const auto prompts = random_prompts(2, std::vector{5, 40}, tiny().vocab, 9);
  for (const KvFormat& kv : {KvFormat{}, KvFormat{.page_size = 16}, KvFormat{.quantized = DType::int8}}) {
    const ModelOptions options{.batch = 2, .capacity = 80, .max_steps = 8, .kv = kv};
    Rig tuned(options), naive(options, tiny(), DType::fp32, {.naive = true});
    const Agreement same = check_against(tuned.model, naive.model, prompts, 8, CheckScope::steps);
    EXPECT_TRUE(same.ok()) << same.summary();
    EXPECT_EQ(naive.model.transcript(), tuned.model.transcript());
    // Other keys are found: the cache does count.
    tuned.model.prefill(prompts);
    naive.model.prefill(random_prompts(2, std::vector{5, 40}, tiny().vocab, 10));
    naive.model.force(tuned.model.ids());
    tuned.model.step();
    naive.model.step();
    EXPECT_NE(tuned.model.logits(), naive.model.logits());
  }
}

TEST(Model, AHiddenSizeWithoutWholeGroupsOfSquaresRunsAtEveryBatch) {
  ModelConfig shape = tiny();
  shape.hidden = 40;
  for (const int batch : {1, 2, 17, 65}) {
    const auto prompts = random_prompts(batch, std::vector{5, 9}, shape.vocab, 7);
    Rig tuned({.batch = batch, .capacity = 64, .max_steps = 3}, shape);
    Rig naive({.batch = batch, .capacity = 64, .max_steps = 3, .fuse = kUnfused}, shape, DType::fp32,
              {.naive = true});
    EXPECT_EQ(run(tuned.model, prompts, 3), run(naive.model, prompts, 3)) << batch;
    for (const Problem& problem :
         decode_problems(ops(), shape, DType::fp32, batch, std::vector<std::int64_t>{64}))
      EXPECT_EQ(problem.key().find("rms_scale"), std::string::npos) << problem.key();
  }
  try {
    Rig split({.batch = 2, .capacity = 64, .max_steps = 1, .fuse = {.split_norm = true}}, shape);
    split.model.prefill(random_prompts(2, std::vector{5}, shape.vocab, 7));
    split.model.step();
    FAIL();
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(),
                 "--split-norm on needs a hidden size that is a multiple of 16; that of tiny is 40");
  }
}

/// A model whose embedding of token 11 is NaN, fed with it in step 2: the first step whose logits are not
/// finite.
void expect_bad_step(const char* where, bool fuse_argmax, bool graph, const char* sampling) {
  const auto device = open_device(where);
  const ModelConfig config = tiny();
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    SCOPED_TRACE(fmt::format("{} {} {}", name_of(dtype), fuse_argmax, sampling));
    const Weights weights = random_weights(*device, config, dtype, 3);
    const std::size_t row = static_cast<std::size_t>(config.hidden) * size_of(dtype);
    std::vector<std::byte> nan(row);
    for (int i = 0; i < config.hidden; ++i) store(dtype, nan.data(), i, NAN);
    device->upload(weights.embedding.as<std::byte>() + 11 * row, nan.data(), row, device->stream());
    device->synchronize();
    PlanBook book(ops(), *device, {});
    FusionChoice fuse = kUnfused;
    fuse.argmax = fuse_argmax;
    Model model(*device, config, weights, book,
                {.batch = 2,
                 .capacity = 64,
                 .max_steps = 4,
                 .sampling = parse_sampling(sampling),
                 .fuse = fuse,
                 .graph = graph});
    const std::vector<std::vector<int>> prompts = {{5, 6}, {7}};
    for (int again = 0; again < 2; ++again) {  // a prefill forgets the steps before
      model.prefill(prompts);
      model.force(std::vector{1, 2});
      model.step();
      EXPECT_FALSE(model.bad_logits());
      model.force(std::vector{3, 11});
      model.step();
      model.step();
      const auto bad = model.bad_logits();
      ASSERT_TRUE(bad);
      EXPECT_EQ(bad->str(), "the logits of step 2 are NaN or infinite (sequence 1)");
    }
  }
}

TEST(Model, NoticesLogitsThatAreNotFinite) {
  for (const bool fuse_argmax : {false, true}) expect_bad_step("host", fuse_argmax, true, "greedy");
  expect_bad_step("host", false, false, "top_k=50");
}
TEST(GpuModelLogits, NoticesLogitsThatAreNotFinite) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  for (const bool graph : {false, true})
    for (const bool fuse_argmax : {false, true}) expect_bad_step("cuda:0", fuse_argmax, graph, "greedy");
  expect_bad_step("cuda:0", false, true, "top_k=50");
  expect_bad_step("cuda:0", false, true, "top_k=0,p=0.9");
}

TEST(Model, WrongPromptsAreErrors) {
  Rig rig({.batch = 1, .capacity = 64, .max_steps = 1});
  EXPECT_THROW(rig.model.prefill(std::vector<std::vector<int>>{{}}), InputError);
  EXPECT_THROW(rig.model.prefill(std::vector<std::vector<int>>{{97}}), InputError);
  EXPECT_THROW(rig.model.prefill(std::vector<std::vector<int>>{std::vector<int>(64, 1)}), InputError);
}

TEST(Agreement, SeesWrongLogitsAndForgivesTies) {
  const std::vector<float> want = {1.0f, 0.99f, -1.0f, 0.5f};
  Agreement exact(DType::fp32);
  exact.add(want, want, 0, 0);
  EXPECT_TRUE(exact.ok());
  Agreement off(DType::fp32);
  off.add(std::vector{1.0f, 0.99f, -1.0f, 0.502f}, want, 0, 0);
  EXPECT_FALSE(off.ok());
  Agreement tie(DType::bf16);
  tie.add(std::vector{0.99f, 1.0f, -1.0f, 0.5f}, want, 0, 0);
  EXPECT_TRUE(tie.ok()) << tie.summary();
  Agreement nan(DType::bf16);
  nan.add(std::vector{1.0f, NAN, -1.0f, 0.5f}, want, 0, 0);
  EXPECT_FALSE(nan.ok());
}

TEST(DecodeReport, TimesTheStepAndItsOps) {
  Rig rig({.batch = 2, .capacity = 80, .max_steps = 4});
  rig.model.prefill(random_prompts(2, std::vector{5, 9}, tiny().vocab, 7));
  DecodeReport report{.model = "tiny", .dtype = "fp32", .plan_set = rig.book.plan_set(), .batch = 2};
  report.step = time_step(rig.model, std::vector{70, 70});
  report.ops = time_ops(rig.model, std::vector{70, 70});
  EXPECT_EQ(report.step.context, 70);
  EXPECT_GT(report.step.us, 0);
  EXPECT_LE(report.step.us_p10, report.step.us_p90);
  int launches = 0;
  for (const OpTime& op : report.ops) launches += op.count;
  EXPECT_EQ(launches, 2 + 2 * 9 + 3);
  EXPECT_EQ(to_row(report, rig.device->facts(), {"r", "c", "h"}, "t").size(), decode_columns().size());
  EXPECT_NE(to_text(report).find("tokens/s"), std::string::npos);
  report.floor_us = 2 * report.step.us;
  EXPECT_NE(to_text(report).find("200.0 % reached (above the measured peak: the working set fits the cache)"),
            std::string::npos)
      << to_text(report);
}

TEST(DecodeReport, AnUnevenStepHasTheFloorOfItsMeanLength) {
  Rig rig({.batch = 2, .capacity = 80, .max_steps = 4});
  rig.model.prefill(random_prompts(2, std::vector{5, 9}, tiny().vocab, 7));
  const std::vector<int> contexts = {6, 70};
  DecodeReport report{.model = "tiny", .batch = 2, .step = time_step(rig.model, contexts)};
  EXPECT_TRUE(report.step.uneven());
  EXPECT_EQ(report.step.context, 70);
  EXPECT_EQ(report.step.mean_context, 38);
  EXPECT_FALSE(time_step(rig.model, std::vector{70, 70}).uneven());
  EXPECT_EQ(step_bytes(tiny(), DType::fp32, contexts), step_bytes(tiny(), DType::fp32, 2, 38));
  EXPECT_EQ(step_bytes(tiny(), DType::fp32, contexts, {.window = 10}), step_bytes(tiny(), DType::fp32, 2, 8))
      << "6 keys and the last 10";

  report.wall = {.steps = 4, .us_per_step = 1.02 * report.step.us};
  report.ops = time_ops(rig.model, contexts);
  const std::string text = to_text(report);
  EXPECT_NE(text.find("context 70 at most, 38.0 on average"), std::string::npos) << text;
  EXPECT_NE(text.find("us per token over 4 steps, +2.0 % against the timed step"), std::string::npos) << text;
}

TEST(DecodeReport, FloorCountsWeightsAndKeysOnce) {
  const ModelConfig& c = preset("llama2-7b");
  const double weights = 6738415616.0, embedding = 32000.0 * 4096;  // parameters as published
  EXPECT_EQ(static_cast<double>(weight_bytes(c, DType::bf16)), 2 * weights);
  EXPECT_EQ(step_bytes(c, DType::bf16, 1, 512), 2 * (weights - embedding + 4096 + 2.0 * 32 * 512 * 4096));
}

}  // namespace
}  // namespace warptune
