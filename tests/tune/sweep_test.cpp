#include "harness/tune/sweep.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "harness/llama/model_config.h"
#include "tests/files.h"
#include "tests/tune/sweep_text.h"

namespace warptune {
namespace {
using testing::error_of;
using testing::file;
using testing::load;
using testing::with_op;

TEST(Sweep, AnOpMaySkipVariants) {
  const Sweep sweep =
      load(with_op("    problems: [{tokens: 1, hidden: 8}]\n    skip: [\"rms_norm/(naive|host.*)\"]\n"));
  ASSERT_EQ(sweep.items.size(), 1u);
  EXPECT_FALSE(sweep.items[0].choices.empty());
  for (const VariantChoice& choice : sweep.items[0].choices) {
    EXPECT_NE(choice.variant->name, "naive");
    EXPECT_FALSE(choice.variant->name.starts_with("host"));
  }
}

TEST(Sweep, ALibraryThatTheProgramWasBuiltWithoutIsNamed) {
  const auto& variants = find_op("attention_prefill").variants;
  if (std::ranges::find(variants, "cudnn", &Variant::name) != variants.end()) GTEST_SKIP() << "it has cuDNN";
  const std::string sweep =
      "ops:\n  - op: attention_prefill\n"
      "    problems: [{batch: 1, q_len: 8, kv_len: 8, q_heads: 1, kv_heads: 1, head_dim: 64}]\n"
      "    variants: [cudnn]\n";
  EXPECT_EQ(error_of(sweep),
            "4: op 'attention_prefill' has no variant 'cudnn' here: this program was built without cuDNN "
            "(cmake -DCUDNN_ROOT=FOLDER)");
}

TEST(Sweep, ErrorsHaveALineAndASuggestion) {
  EXPECT_EQ(error_of("opps: []\n"), "1: unknown key 'opps' in a sweep; did you mean 'ops'?");
  EXPECT_EQ(error_of("name: x\n"), "1: a sweep needs 'ops', 'models' or 'steps'");
  EXPECT_EQ(error_of("name: x\nops: []\n"), "2: 'ops' is an empty list; give at least one");
  EXPECT_EQ(error_of("ops:\n  - op: rms_nrom\n"), "2: unknown op 'rms_nrom'; did you mean 'rms_norm'?");
  EXPECT_EQ(error_of(with_op("")), "2: op 'rms_norm' needs 'problems'");
  EXPECT_EQ(error_of("device: gpu\nops: []\n"),
            "1: 'device' is 'gpu'; it must be auto, host, cuda:N, all, or a list with commas");
  EXPECT_EQ(error_of("dtypes: [fp8]\nops: []\n"),
            "1: unknown dtype 'fp8'; known are fp32, fp16, bf16, int32");
  EXPECT_EQ(error_of("cache: warm\nops: []\n"), "1: 'cache' is 'warm'; it must be cold or hot");
  EXPECT_EQ(error_of("objective: joules\nops: []\n"),
            "1: 'objective' is 'joules'; it must be time, energy or edp");
  EXPECT_EQ(error_of("finalists: 0\nops: []\n"), "1: 'finalists' is 0; it must be 1 to 64");
  EXPECT_EQ(error_of("seed: -1\nops: []\n"), "1: 'seed' is -1; it must be 0 or more");
  EXPECT_EQ(error_of(with_op("    problems:\n      - {tokens: 1, hiden: 8}\n")),
            "4: op 'rms_norm' has no dim 'hiden'; did you mean 'hidden'?");
  EXPECT_EQ(error_of(with_op("    problems:\n      - {tokens: 1}\n")),
            "4: op 'rms_norm' needs dim 'hidden' (row length)");
  EXPECT_EQ(error_of(with_op("    problems:\n      - tokens: 1\n        hidden: [8, x]\n")),
            "5: dim 'hidden' of op 'rms_norm' is 'x'; it must be an integer");
  EXPECT_EQ(error_of(with_op("    problems: [{tokens: [], hidden: 8}]\n")),
            "3: dim 'tokens' is an empty list; give at least one");
  EXPECT_EQ(error_of(with_op("    problems: [{tokens: 0, hidden: 8}]\n")),
            "3: dim 'tokens' of op 'rms_norm' is 0; it must be at least 1");
  const std::string problems = "    problems: [{tokens: 1, hidden: 8}]\n";
  EXPECT_EQ(error_of(with_op(problems + "    variants: [naiv]\n")),
            "4: op 'rms_norm' has no variant 'naiv'; did you mean 'naive'?");
  EXPECT_EQ(error_of(with_op(problems + "    variants:\n      - naive: {parameters: {blok: 64}}\n")),
            "5: variant 'rms_norm/naive' has no parameter 'blok'; did you mean 'block'?");
  EXPECT_EQ(error_of(with_op(problems + "    variants:\n      - naive: {parameters: {block: 0}}\n")),
            "5: parameter 'block' is 0; it must be at least 1");
  EXPECT_EQ(
      error_of(with_op(problems + "    variants:\n      - naive: {parameters: {block: {from: 8}}}\n")),
      "5: the range of parameter 'block' must be {from: A, to: B, times: N} or {from: A, to: B, step: N}");
  EXPECT_TRUE(error_of(with_op(problems + "    constraints: ['blok > 8']\n")).starts_with("4: "));
  EXPECT_NE(error_of("ops: [\n").find("not valid YAML"), std::string::npos);
  EXPECT_EQ(error_of("models: [{model: llama2-7, context: 8}]\n"),
            "1: unknown model 'llama2-7'; did you mean 'llama2-7b'?");
}

TEST(Sweep, EveryBadFileHasItsMessage) {
  const std::vector<std::pair<std::string, std::string>> messages = {
      {"not_yaml", "4: not valid YAML: end of sequence flow not found"},
      {"not_a_map", "1: a sweep must be a map with 'ops', 'models' or 'steps'"},
      {"unknown_key", "2: unknown key 'dtype' in a sweep; did you mean 'dtypes'?"},
      {"key_twice", "2: key 'seed' of a sweep is given twice"},
      {"no_ops", "2: a sweep needs 'ops', 'models' or 'steps'"},
      {"unknown_op", "4: unknown op 'atention_decode'; did you mean 'attention_decode'?"},
      {"no_problems", "2: op 'rms_norm' needs 'problems'"},
      {"unknown_dim", "5: op 'rms_norm' has no dim 'rows'; its dims are tokens, hidden"},
      {"missing_dim", "4: op 'rms_norm' needs dim 'hidden' (row length)"},
      {"wrong_dim", "6: dim 'out' of op 'linear' is '11k'; it must be an integer"},
      {"wrong_choice",
       "8: dim 'style' of op 'rope_append' is 'diagonal'; it must be one of half_split, interleaved"},
      {"contradictory_dims", "4: attention_decode: q_heads (32) must be a multiple of kv_heads (5)"},
      {"wrong_dtype", "3: unknown dtype 'float16'; known are fp32, fp16, bf16, int32"},
      {"unknown_variant", "6: op 'rms_norm' has no variant 'vectorised'; did you mean 'vectorized'?"},
      {"unknown_parameter",
       "8: variant 'rms_norm/vectorized' has no parameter 'width'; it has block, rows, vec, cache_hint, pdl"},
      {"label_not_offered", "8: parameter 'combine' is 'cluster'; it must be one of last_block, ll"},
      {"empty_parameter", "7: parameter 'block' is an empty list; give at least one"},
      {"backward_range", "4: the range of dim 'tokens' is empty: 64 is above 1"},
      {"constraint_name",
       "8: unknown name 'width' at position 9 of constraint 'block * width <= hidden'; it may use block, "
       "rows, vec, cache_hint, pdl, tokens, hidden, dtype_bytes, mantissa_bits, sms, arch, shared_per_block, "
       "has_bulk_copy, "
       "has_wgmma, has_clusters, has_pdl, has_fp8_conversion"},
      {"constraint_syntax",
       "5: constraint '(block >= 64 && block < 512' is wrong at position 28: missing parenthesis"},
      {"duty_cycle",
       "3: 'duty_cycle' is 2; it must be 0.05 to 1, the part of the time in which the device works"},
      {"few_samples", "3: 'min_samples' is 1; it must be 6 to 100000 (fewer give no 95 % interval)"},
      {"assignment", "7: constraint 'tokens = 5' is wrong at position 8: '=' assigns; '==' compares"},
      {"two_documents", "4: a second document begins; a file holds one sweep"},
      {"leading_comma", "1: not valid YAML: a document cannot begin with this character"},
      {"comma_after_the_sweep", "2: a second document begins; a file holds one sweep"},
      {"no_value", "1: key 'dtypes' of a sweep has no value"},
      {"huge_number", "4: dim 'tokens' of op 'rms_norm' is 99999999999999999999, which does not fit 64 bits"},
      {"huge_dim", "5: dim 'hidden' of op 'rms_norm' is 4000000000; it must be at most 2147483647"},
      {"huge_tensor",
       "4: a launch of rms_norm[tokens=2000000000,hidden=2000000000,dtype=bf16] takes 1.6e+19 bytes, more "
       "than "
       "any memory"},
      {"many_problems", "4: 81000000 problems; a sweep takes at most 1000000"},
      {"unknown_model",
       "2: unknown model '../golden/none'; known are llama2-7b, llama2-13b, llama3-8b, llama3.1-8b, "
       "llama3.3-70b, llama3.2-1b, "
       "llama3.2-3b, tinyllama-1.1b, mistral-7b, qwen2.5-7b, qwen3-8b, qwen3-0.6b, or a folder beside this "
       "file with a config.json, or a GGUF file"},
      {"model_without_lengths",
       "2: model 'llama2-7b' needs 'context' (decode), 'prompt_len' (prefill) or both"},
      {"model_kv_dtype", "4: 'kv_dtype' is 'int4'; it must be same, int8 or fp8"},
      {"model_weights",
       "4: 'int3' is no format of weights; it must be same, int8, int4, fp8, nvfp4, mxfp4, q4_k, q5_k or "
       "q6_k, "
       "with :group=32, 64 or 128 where groups of columns have a scale, fp8 also with :activations=fp8"},
      {"model_weights_group", "4: weights of 64 columns have no groups of 128; it must divide them"},
      {"model_k_layout", "4: 'k_layout' is 'rows'; it must be sd or dsx"},
      {"model_page_size",
       "2: rope_append: page_size is 24; it must be 0 (contiguous), 16, 32, 64, 128 or 256"},
      {"step_without_context", "4: an item of 'steps' needs 'context'"},
      {"step_model", "3: unknown model 'llama3.2-2b'; did you mean 'llama3.2-1b'?"},
      {"step_prompt_len",
       "4: unknown key 'prompt_len' in an item of 'steps'; known are model, ranks, batch, context, weights, "
       "kv_dtype, k_layout, "
       "page_size, window, dtypes, candidates"},
      {"step_weights_group", "4: weights of 64 columns have no groups of 128; it must divide them"},
      {"step_not_a_map", "2: an item of 'steps' must be a map of names to values"},
      {"step_batch", "4: 'batch' of a step is 100000; it must be at most 4096"},
  };
  const std::filesystem::path folder = std::filesystem::path(TEST_DATA) / "bad_yaml";
  for (const auto& [name, message] : messages) {
    const std::string path = (folder / (name + ".yaml")).string();
    try {
      load_sweep(ops(), path);
      ADD_FAILURE() << path << " is accepted";
    } catch (const InputError& e) {
      EXPECT_EQ(e.what(), path + ":" + message);
    }
  }
  const auto files = std::distance(std::filesystem::directory_iterator(folder), {});
  EXPECT_EQ(static_cast<std::size_t>(files), messages.size());
}

TEST(Sweep, StepsAreCrossedAndContextsShareABucket) {
  const Sweep sweep = load(
      "seed: 7\nfinalists: 5\ndtypes: [bf16, fp16]\nsteps:\n"
      "  - {model: llama3.2-1b, batch: [1, 8], context: [300, 512, 513], kv_dtype: int8}\n");
  EXPECT_TRUE(sweep.items.empty());
  ASSERT_EQ(sweep.steps.size(), 2u * 2 * 2);
  EXPECT_EQ(step_problem(sweep.steps[0].spec).key(),
            "step[model=llama3.2-1b,batch=1,context=512,cache=kv=int8,dtype=bf16]");
  EXPECT_EQ(sweep.steps[1].spec.context, 1024);
  EXPECT_EQ(sweep.steps[0].spec.seed, 7u);
  EXPECT_EQ(sweep.steps[0].candidates, 5);

  const std::string step = "steps:\n  - {model: llama3.2-1b, context: 512, candidates: ";
  EXPECT_EQ(load(step + "32}\n").steps[0].candidates, 32);
  EXPECT_EQ(error_of(step + "65}\n"), "2: 'candidates' is 65; it must be 1 to 64");
}

TEST(Sweep, ConstraintRowsAreYesOrNo) {
  const std::string rest = with_op("    problems: [{tokens: 1, hidden: 8}]\n");
  EXPECT_FALSE(load(rest).constraint_rows);
  EXPECT_TRUE(load("constraint_rows: true\n" + rest).constraint_rows);
  EXPECT_EQ(error_of("constraint_rows: 1\n" + rest), "1: 'constraint_rows' is '1'; it must be true or false");
}

TEST(Sweep, PruneIsConditionsOnResources) {
  const std::string rest = with_op("    problems: [{tokens: 1, hidden: 8}]\n");
  EXPECT_TRUE(load(rest).prune.empty());
  EXPECT_EQ(load("prune: spill_bytes > 0\n" + rest).prune, std::vector<std::string>{"spill_bytes > 0"});
  EXPECT_EQ(load("prune: [spill_bytes > 0, occupancy_pct < 5]\n" + rest).prune.size(), 2u);
  EXPECT_EQ(error_of("prune:\n  - spill_bytes > 0\n  - spills > 0\n" + rest),
            "3: unknown name 'spills' at position 1 of prune condition 'spills > 0'; it may use "
            "registers, shared_bytes, spill_bytes, occupancy_pct");
  EXPECT_EQ(error_of("prune: []\n" + rest), "1: 'prune' is an empty list; give at least one");
  EXPECT_EQ(error_of("prune: {spills: true}\n" + rest), "1: 'prune' must be a list");
  EXPECT_EQ(error_of("prune: registers >\n" + rest),
            "1: prune condition 'registers >' is wrong at position 12: unexpected end of expression");
}

TEST(Sweep, APruneConditionMustNameAResource) {
  const std::string rest = with_op("    problems: [{tokens: 1, hidden: 8}]\n");
  for (const std::string constant : {"1", "true", "0 < 1"})
    EXPECT_EQ(error_of("prune:\n  - spill_bytes > 0\n  - \"" + constant + "\"\n" + rest),
              "3: prune condition '" + constant +
                  "' names none of registers, shared_bytes, spill_bytes, occupancy_pct");
}

TEST(Sweep, ALongTextIsShortenedInErrors) {
  const std::string rest = with_op("    problems: [{tokens: 1, hidden: 8}]\n"), is_long(400000, 'x');
  std::string hosts;
  for (int i = 0; i < 100000; ++i) hosts += ",host";
  const auto problem = [&](const std::string& dims) { return with_op("    problems: [{" + dims + "}]\n"); };
  for (const std::string& text :
       {"prune: " + is_long + "\n" + rest,
        "prune: 1 +" + is_long + "\n" + rest,
        "prune: registers > " + std::string(400000, '(') + "\n" + rest,
        is_long + ": 1\n" + rest,
        "device: " + is_long + "\n" + rest,
        "device: host,host" + hosts + "\n" + rest,
        "models: [{model: llama2-7b, context: 8, skip: " + is_long + "}]\n",
        "strategy: " + is_long + "\n" + rest,
        "strategy: {name: guided, budget: " + is_long + "}\n" + rest,
        "seed: " + is_long + "\n" + rest,
        "seed: " + std::string(400000, '9') + "\n" + rest,
        "dtypes: " + is_long + "\n" + rest,
        "cache: " + is_long + "\n" + rest,
        "constraint_rows: " + is_long + "\n" + rest,
        "name: " + is_long + "\n" + rest,
        "models: [{model: " + is_long + ", context: 8}]\n",
        "sampling: {max_time: " + is_long + "}\n" + rest,
        "ops: [{op: " + is_long + "}]\n",
        problem("tokens: " + is_long + ", hidden: 8"),
        problem(is_long + ": 8"),
        rest + "    constraints: [" + is_long + " > 1]\n",
        rest + "    variants: [" + is_long + "]\n",
        rest + "    variants: [vectorized: {parameters: {block: " + is_long + "}}]\n",
        rest + "    variants: [vectorized: {parameters: {" + is_long + ": 1}}]\n"}) {
    const std::string error = error_of(text);
    EXPECT_LT(error.size(), 1000u) << error.substr(0, 2000);
    EXPECT_NE(error, "no error") << text.substr(0, 100);
  }
}

TEST(Sweep, AStrategyMayUseResources) {
  const std::string rest = with_op("    problems: [{tokens: 1, hidden: 8}]\n");
  EXPECT_FALSE(load("strategy: guided\n" + rest).search.resources);
  EXPECT_TRUE(load("strategy: {name: guided, resources: true}\n" + rest).search.resources);
  EXPECT_EQ(error_of("strategy: {name: guided, resources: yes}\n" + rest),
            "1: 'resources' is 'yes'; it must be true or false");
}

TEST(Sweep, UsesTheDevicesOfTheCommandLine) {
  const std::string rest = with_op("    problems: [{tokens: 1, hidden: 8}]\n");
  for (const std::string device : {"all", "auto", "host", "cuda:1", "cuda:0,cuda:2"})
    EXPECT_EQ(load("device: " + device + "\n" + rest).device, device);
  for (const char* wrong : {"cuda", "cuda:0,", "all,host"})
    EXPECT_NE(error_of(std::string("device: ") + wrong + "\n" + rest), "no error") << wrong;
}

TEST(Sweep, CrossesListsAndDropsDuplicates) {
  const Sweep sweep =
      load(with_op("    dtypes: [fp32, bf16]\n    problems:\n      - {tokens: [1, 2], hidden: {from: 8, to: "
                   "32, times: 2}}\n"
                   "      - {tokens: 1, hidden: 8}\n"));
  ASSERT_EQ(sweep.items.size(), 12u);
  EXPECT_EQ(sweep.items[0].problem.key(), "rms_norm[tokens=1,hidden=8,dtype=fp32]");
  EXPECT_EQ(sweep.items[11].problem.key(), "rms_norm[tokens=2,hidden=32,dtype=bf16]");
}

TEST(Sweep, ModelsExpandToTheirProblems) {
  const Sweep sweep = load("models: [{model: llama2-7b, context: 256, ops: [rms_norm]}]\n");
  ASSERT_FALSE(sweep.items.empty());
  EXPECT_EQ(sweep.items[0].problem["hidden"], 4096);
}

TEST(Sweep, ModelsMaySetTheirCacheFormat) {
  const Sweep sweep = load(
      "models: [{model: llama2-7b, dtypes: bf16, context: 2048, prompt_len: 2048, kv_dtype: fp8, page_size: "
      "16, "
      "window: 512, ops: [rope_append, attention_decode, attention_prefill]}]\n");
  const auto has = [&](const std::string& op, const std::string& end) {
    return std::ranges::any_of(sweep.items, [&](const SweepItem& item) {
      return item.problem.op == op && item.problem.key().ends_with(end + ",dtype=bf16]");
    });
  };
  EXPECT_TRUE(has("attention_decode", "kv_dtype=fp8,kv_scale=token,page_size=16,window=512"));
  EXPECT_TRUE(has("rope_append", "kv_dtype=fp8,page_size=16"));
  EXPECT_TRUE(has("rope_append", "start=0")) << "into the cache that prompts attend to";
  EXPECT_TRUE(has("attention_prefill", "uneven=no,window=512"));
}

TEST(Sweep, ModelsMaySetTheLayoutOfK) {
  const Sweep sweep = load(
      "models: [{model: llama2-7b, dtypes: bf16, context: 2048, prompt_len: 512, k_layout: dsx, "
      "ops: [rope_append, attention_decode, attention_prefill]}]\n");
  ASSERT_FALSE(sweep.items.empty());
  for (const SweepItem& item : sweep.items) EXPECT_EQ(item.problem["k_layout"], 1) << item.problem.key();
  const Sweep quantized = load(
      "models: [{model: llama2-7b, dtypes: bf16, prompt_len: 512, kv_dtype: int8, k_layout: dsx, "
      "ops: [rope_append, attention_prefill]}]\n");
  for (const SweepItem& item : quantized.items)
    EXPECT_EQ(item.problem["k_layout"], item.problem.op == "rope_append" && item.problem["kv_dtype"] != 0)
        << "prompts attend to rows of K: " << item.problem.key();
}

TEST(Sweep, ModelsMaySetTheFormatOfTheirWeights) {
  const auto keys = [](const std::string& weights, const std::string& model = "llama2-7b") {
    std::vector<std::string> found;
    for (const SweepItem& item : load("models: [{model: " + model +
                                      ", dtypes: bf16, context: 512, prompt_len: 512" + weights + "}]\n")
                                     .items)
      found.push_back(item.problem.key());
    std::ranges::sort(found);
    return found;
  };
  const auto gemms = [](const std::vector<std::string>& all, const std::string& part) {
    return std::ranges::count_if(all, [&](const auto& key) {
      return key.starts_with("linear[") && key.find(part) != std::string::npos;
    });
  };
  const auto same = keys(""), both = keys(", weights: [same, int4, 'fp8:group=128']"),
             int4 = keys(", weights: int4");
  EXPECT_EQ(keys(", weights: same"), same);
  EXPECT_TRUE(std::ranges::includes(both, same));
  EXPECT_TRUE(std::ranges::includes(both, int4));
  for (const auto& key : both) {
    if (std::ranges::binary_search(same, key)) continue;
    EXPECT_TRUE(key.starts_with("linear[") && key.find("weights=") != std::string::npos) << key;
  }
  const std::string qkv = "linear[tokens=1,in=4096,out=12288,bias=no,";
  EXPECT_TRUE(std::ranges::binary_search(both, qkv + "prologue=rms_norm,weights=int4,group=128,dtype=bf16]"));
  EXPECT_TRUE(std::ranges::binary_search(both, qkv + "prologue=rms_norm,weights=fp8,group=128,dtype=bf16]"));
  EXPECT_EQ(gemms(int4, "out=32000"), gemms(same, "out=32000")) << "lm_head is not quantized";
  EXPECT_EQ(gemms(both, "weights=int4"), gemms(both, "weights=fp8"));
  // The weights of a quantized checkpoint are the default.
  const std::string folder = std::string(TEST_DATA) + "/quantized/awq";
  EXPECT_GT(gemms(keys("", folder), "weights=int4,group=32,zeros=yes"), 0);
  EXPECT_EQ(gemms(keys(", weights: same", folder), "weights="), 0);
  EXPECT_GT(gemms(keys(", weights: int8", folder), "weights=int8"), 0);
}

TEST(Sweep, StepsMaySetTheFormatOfTheirWeights) {
  const Sweep sweep = load(
      "dtypes: bf16\nsteps:\n  - {model: llama3.2-1b, context: 512, weights: [same, int4, "
      "'int8:group=64']}\n");
  ASSERT_EQ(sweep.steps.size(), 3u);
  EXPECT_EQ(step_problem(sweep.steps[0].spec).key(),
            "step[model=llama3.2-1b,batch=1,context=512,dtype=bf16]");
  EXPECT_EQ(step_problem(sweep.steps[1].spec).key(),
            "step[model=llama3.2-1b,batch=1,context=512,weights=int4:group=128,dtype=bf16]");
  EXPECT_EQ(step_problem(sweep.steps[2].spec).key(),
            "step[model=llama3.2-1b,batch=1,context=512,weights=int8:group=64,dtype=bf16]");
  EXPECT_TRUE(error_of("steps:\n  - {model: llama3.2-1b, context: 512,\n     weights: [same, int5]}\n")
                  .starts_with("3: 'int5' is no format of weights"));
}

TEST(Sweep, AModelMayBeAFolderNextToTheFile) {
  const std::filesystem::path golden = std::filesystem::path(TEST_DATA) / "golden" / "gqa";
  const Sweep sweep =
      load("models: [{model: " + golden.string() + ", dtypes: fp32, context: 64, ops: [rms_norm]}]\n");
  ASSERT_EQ(sweep.items.size(), 1u);
  EXPECT_EQ(sweep.items[0].problem.key(), "rms_norm[tokens=1,hidden=64,dtype=fp32]");
  const std::filesystem::path quick = std::filesystem::path(SOURCE_ROOT) / "configs" / "quick.yaml";
  EXPECT_TRUE(std::ranges::any_of(load_sweep(ops(), quick).items, [](const SweepItem& item) {
    return item.problem.key() == "linear[tokens=3,in=64,out=1024,bias=no,dtype=fp32]";
  })) << "quickstart decodes the golden; its problems must be swept";
  const std::string folder = ::testing::TempDir();
  EXPECT_EQ(error_of("models: [{model: " + folder + ", context: 64}]\n").substr(0, 3), "1: ");
}

TEST(Sweep, IsCountedBeforeItIsBuilt) {
  EXPECT_EQ(
      error_of(with_op("    problems:\n      - tokens: {from: -9223372036854775808, to: "
                       "9223372036854775807, step: 1}\n        hidden: 8\n")),
      "4: the range of dim 'tokens' has 18446744073709551615 steps of 1; it must have less than 10000000");
  EXPECT_EQ(error_of("models:\n  - model: llama2-7b\n    batch: {from: 1, to: 9999, step: 1}\n"
                     "    context: {from: 1, to: 9999, step: 1}\n"),
            "2: 99980001 problems; a sweep takes at most 1000000");
  EXPECT_EQ(
      error_of("models: [{model: llama2-7b, batch: {from: 1, to: 999999, step: 1}, context: [64, 128]}]\n"),
      "1: 1999998 problems; a sweep takes at most 1000000");
  EXPECT_EQ(error_of("models: [{model: llama2-7b, prompt_len: 2147483647}]\n"),
            "1: 1048576 problems; a sweep takes at most 1000000");
  EXPECT_NE(error_of("models: [{model: llama2-7b, batch: 2147483647, prompt_len: 7}]\n")
                .find("more than any memory"),
            std::string::npos);
}

/// Equal prompts fill equal chunks, so that most of a large batch comes to no further problem.
TEST(Sweep, ALargeBatchOfPromptsHasTheProblemsOfItsChunks) {
  const auto keys = [](int batch) {
    std::set<std::string> found;
    for (const SweepItem& item :
         load("models: [{model: llama2-7b, batch: " + std::to_string(batch) + ", prompt_len: 300}]\n").items)
      if (item.entry->op.name == "attention_prefill") found.insert(item.problem.key());
    return found;
  };
  EXPECT_EQ(keys(6 * 100 + 5), keys(6 * 3 + 5));
}

TEST(Sweep, RepeatedProblemsAreCountedToo) {
  std::string again;
  for (int i = 0; i < 20'000; ++i) again += "      - *all\n";
  EXPECT_EQ(error_of(with_op("    problems:\n      - &all {tokens: {from: 1, to: 999, step: 1}, hidden: "
                             "{from: 1, to: 1000, step: 1}}\n" +
                             again)),
            "4: 2997000 problems; a sweep takes at most 1000000");
}

TEST(Sweep, ARangeHasABoundedLength) {
  const auto error = [](const std::string& to) {
    return error_of(
        with_op("    problems: [{tokens: 1, hidden: 8}]\n    variants:\n"
                "      - vectorized: {parameters: {block: {from: 1, to: " +
                to + ", step: 1}}}\n"));
  };
  EXPECT_EQ(error("10000001"),
            "5: the range of parameter 'block' has 10000000 steps of 1; it must have less than 10000000");
  EXPECT_EQ(error("100000"), "no error");
}

TEST(Sweep, MayHaveManyProblems) {
  EXPECT_EQ(
      load(with_op(
               "    problems: [{tokens: {from: 1, to: 200, step: 1}, hidden: {from: 1, to: 500, step: 1}}]\n"
               "    variants: [host_naive]\n"))
          .items.size(),
      100'000u);
}

TEST(Sweep, LongListsAndManyKeysTakeLinearTime) {
  std::string list, map;
  for (int i = 0; i < 100'000; ++i) list += "8, ";
  for (int i = 0; i < 80'000; ++i) map += "k" + std::to_string(i) + ": 1\n";
  EXPECT_EQ(load(with_op("    problems: [{tokens: [" + list + "8], hidden: 8}]\n")).items.size(), 1u);
  EXPECT_EQ(error_of(with_op("    problems: [{tokens: 1, hidden: 8}]\n") + map),
            "4: unknown key 'k0' in a sweep; known are name, device, dtypes, cache, seed, inputs, output, "
            "sampling, "
            "finalists, other_caches, objective, sustained, fresh_process, max_configs, constraint_rows, "
            "missing, prune, strategy, "
            "ops, models, "
            "steps, kernels, kernel_files, ops_defined, tune");
}

TEST(Sweep, ASkipPatternTakesLinearTime) {
  const std::string problem = "    problems: [{tokens: 1, hidden: 8}]\n";
  EXPECT_EQ(load(with_op(problem + "    skip: ['([a-z_/]*)*!', '((.*)*)*!', '(x+x+)+y']\n")).items.size(),
            1u);
}

/// The words of a scalar or a list.
std::set<std::string> words_of(const YAML::Node& node) {
  std::set<std::string> words;
  if (node.IsScalar()) words.insert(node.Scalar());
  for (const YAML::Node& item : node) words.insert(item.Scalar());
  return words;
}

/// The documented decode of a preset passes no --dtype; scripts/quickstart.sh decodes the checkpoint in fp32.
TEST(SweepFile, ShippedSweepsTuneTheDtypeThatTheirDecodeTakes) {
  const std::filesystem::path root = SOURCE_ROOT;
  EXPECT_NE(testing::text_of(root / "scripts/quickstart.sh").find("decode --model \"$model\" --dtype fp32"),
            std::string::npos);
  const auto presets = preset_names();
  int models = 0;
  for (const auto& file : std::filesystem::directory_iterator(root / "configs")) {
    const YAML::Node sweep = YAML::LoadFile(file.path());
    for (const char* key : {"models", "steps"})
      for (const YAML::Node& item : sweep[key] ? sweep[key] : YAML::Node(YAML::NodeType::Sequence)) {
        const YAML::Node dtypes = item["dtypes"] ? item["dtypes"] : sweep["dtypes"];
        const bool is_preset = std::ranges::count(presets, item["model"].Scalar()) > 0;
        const DType taken = is_preset ? default_dtype(Backend::cuda) : DType::fp32;
        const auto tuned = dtypes ? words_of(dtypes) : std::set<std::string>{"bf16"};
        EXPECT_TRUE(tuned.contains(std::string(name_of(taken))))
            << file.path() << ":" << item.Mark().line + 1 << ": decode takes " << name_of(taken);
        ++models;
      }
  }
  EXPECT_GT(models, 30);
  for (const char* folder : {"docs", "scripts"})
    for (const auto& file : std::filesystem::recursive_directory_iterator(root / folder)) {
      if (file.path().extension() != ".md" && file.path().extension() != ".sh") continue;
      std::istringstream lines(testing::text_of(file.path()));
      for (std::string line; std::getline(lines, line);)
        EXPECT_FALSE(line.find("--preset") != std::string::npos && line.find("--dtype") != std::string::npos)
            << file.path() << ": " << line;
    }
}

}  // namespace
}  // namespace warptune
