#include "harness/llama/model_config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "harness/core/error.h"
#include "tests/program.h"

namespace warptune {
namespace {

const std::string kSmall = R"("hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
  "num_attention_heads": 4, "vocab_size": 256)";

ModelConfig parse(const std::string& more) {
  return parse_model_config("{" + kSmall + (more.empty() ? "" : ", " + more) + "}", "config.json");
}

void expect_error(const std::string& text, const std::string& part) {
  try {
    parse_model_config(text, "config.json");
    FAIL() << "no error for " << text;
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

TEST(ModelConfig, FillsInDefaultsOfOldConfigs) {
  const ModelConfig c = parse("");
  EXPECT_EQ(c.kv_heads, 4);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.rope.theta, 10000);
  EXPECT_EQ(c.rope.kind, RopeKind::none);
  EXPECT_FALSE(c.tied_embeddings);
  EXPECT_FLOAT_EQ(c.rms_eps, 1e-6f);
  EXPECT_EQ(c.qkv_width(), 192);
}

TEST(ModelConfig, ReadsHeadsEosAndFlags) {
  const ModelConfig c = parse(
      R"("num_key_value_heads": 2, "head_dim": 64, "tie_word_embeddings": true, "attention_bias": true,
         "eos_token_id": [3, 5], "rms_norm_eps": 1e-5, "rope_scaling": null)");
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.head_dim, 64);
  EXPECT_TRUE(c.tied_embeddings && c.qkv_bias && c.o_bias);
  EXPECT_EQ(c.eos, (std::vector{3, 5}));
  EXPECT_EQ(parse(R"("eos_token_id": 2)").eos, std::vector{2});
}

TEST(ModelConfig, ReadsEveryRopeScaling) {
  const ModelConfig linear = parse(R"("rope_scaling": {"type": "linear", "factor": 2.0})");
  EXPECT_EQ(linear.rope.kind, RopeKind::linear);
  EXPECT_EQ(linear.rope.factor, 2);
  const ModelConfig dynamic =
      parse(R"("max_position_embeddings": 512, "rope_scaling": {"rope_type": "dynamic", "factor": 4})");
  EXPECT_EQ(dynamic.rope.kind, RopeKind::dynamic_ntk);
  EXPECT_EQ(dynamic.rope.original_max_position, 512);
  const ModelConfig llama3 = parse(
      R"("rope_theta": 500000, "rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
         "high_freq_factor": 4, "original_max_position_embeddings": 8192})");
  EXPECT_EQ(llama3.rope.kind, RopeKind::llama3);
  EXPECT_EQ(llama3.rope.theta, 500000);
}

TEST(ModelConfig, ReadsRopeParametersOfTransformers5) {
  const ModelConfig c = parse(R"("rope_parameters": {"rope_type": "default", "rope_theta": 250000.0})");
  EXPECT_EQ(c.rope.kind, RopeKind::none);
  EXPECT_EQ(c.rope.theta, 250000);
}

TEST(ModelConfig, WrongConfigsAreOneSentence) {
  expect_error("", "config.json: it is empty; it must be JSON");
  expect_error("[1]", "not a JSON object");
  expect_error("{}", "'hidden_size' is missing");
  expect_error("{" + kSmall + R"(, "num_key_value_heads": 3})", "multiple of num_key_value_heads");
  expect_error("{" + kSmall + R"(, "head_dim": "x"})", "integer");
  expect_error("{" + kSmall + R"(, "head_dim": 15})", "odd");
  expect_error(
      "{" + kSmall + R"(, "model_type": "gpt2"})",
      "'model_type' is \"gpt2\"; it must be one of llama, mistral, ministral, qwen2, qwen3, phi3, smollm3, "
      "granite");
  expect_error("{" + kSmall + R"(, "rope_scaling": {"type": "ntk", "factor": 2}})",
               "default, linear, dynamic, llama3, yarn or longrope");
  expect_error("{" + kSmall + R"(, "rope_scaling": {"type": "linear"}})", "'factor' is missing");
  expect_error("{" + kSmall + R"(, "rope_scaling": 3})", "an object");
  expect_error("{" + kSmall + R"(, "vocab_size": 99999999999})", "integer");
  expect_error("{" + kSmall + R"(, "rms_norm_eps": -1})", "above 0");
  expect_error(R"({"hidden_size": 4000000000000})",
               "'hidden_size' is 4000000000000; it must be an integer from 1 to 16777216");
  expect_error("{" + kSmall + R"(, "head_dim": 100000})", "an integer from 1 to 4096");
}

TEST(ModelConfig, UnsupportedFeaturesAreRefused) {
  expect_error("{" + kSmall + R"(, "partial_rotary_factor": 0.5})", "whole heads are rotated");
  expect_error(
      "{" + kSmall + R"(, "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25}})",
      "whole heads are rotated");
  expect_error("{" + kSmall + R"(, "sliding_window": 4096})", "'sliding_window' is 4096; it must be null");
  expect_error("{" + kSmall + R"(, "sliding_window": -1})", "'sliding_window' is -1");
  EXPECT_EQ(parse(R"("partial_rotary_factor": 1.0, "sliding_window": null, "rope_scaling": null)").hidden,
            64);
}

TEST(ModelConfig, BothRopeKeysMustSayTheSame) {
  const auto both = [](const std::string& scaling, const std::string& parameters) {
    return R"("rope_scaling": )" + scaling + R"(, "rope_parameters": )" + parameters;
  };
  const std::string llama3 = R"("rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
    "high_freq_factor": 4, "original_max_position_embeddings": 32)";
  const std::string parameters = "{" + llama3 + R"(, "rope_theta": 500000})";
  const RopeScaling alone = parse(R"("rope_parameters": )" + parameters).rope;
  EXPECT_EQ(parse(both("{" + llama3 + "}", parameters)).rope, alone) << "theta is that of rope_parameters";
  EXPECT_EQ(parse(both("{}", parameters)).rope, alone);
  EXPECT_EQ(parse(both("null", parameters)).rope, alone);
  EXPECT_EQ(parse(R"("rope_theta": 500000, )" + both("{" + llama3 + "}", "{}")).rope, alone);
  EXPECT_EQ(parse(both(R"({"type": "linear", "factor": 2})", R"({"rope_type": "linear", "factor": 2.0})"))
                .rope.kind,
            RopeKind::linear)
      << "the old and the new name of the type";
  for (const char* other : {R"({"type": "linear", "factor": 2})", R"({"type": "default"})"})
    expect_error("{" + kSmall + ", " + both(other, parameters) + "}",
                 "config.json: 'rope_scaling' and 'rope_parameters' differ");
  expect_error("{" + kSmall + ", " + both("{" + llama3 + R"(, "rope_theta": 10000})", parameters) + "}",
               "differ");
}

TEST(ModelConfig, AWindowThatIsOffIsNoWindow) {
  for (const char* off : {R"("sliding_window": 4096, "use_sliding_window": false)", R"("sliding_window": 0)",
                          R"("sliding_window": null, "use_sliding_window": true)",
                          R"("sliding_window": 64, "layer_types": ["full_attention", "full_attention"])"})
    EXPECT_EQ(parse(off).hidden, 64) << off;
  for (const char* on : {R"("sliding_window": 4096, "use_sliding_window": true)",
                         R"("sliding_window": 64, "layer_types": ["full_attention", "sliding_attention"])"})
    expect_error("{" + kSmall + ", " + on + "}", "every token attends to all before it");
}

ModelConfig parse_as(const char* type, const std::string& more = "") {
  return parse("\"model_type\": \"" + std::string(type) + "\"" + (more.empty() ? "" : ", " + more));
}

TEST(ModelConfig, AFamilyBringsItsFacts) {
  const ModelConfig qwen2 = parse_as("qwen2"), qwen3 = parse_as("qwen3"), phi3 = parse_as("phi3");
  EXPECT_TRUE(qwen2.qkv_bias && !qwen2.o_bias && !qwen2.qk_norm);
  EXPECT_TRUE(qwen3.qk_norm && !qwen3.qkv_bias);
  EXPECT_EQ(qwen3.head_dim, 128) << "where the key is missing";
  EXPECT_EQ(parse_as("qwen3", R"("head_dim": 16)").head_dim, 16);
  EXPECT_EQ(phi3.modules.qkv, std::vector<std::string>{"self_attn.qkv_proj"});
  EXPECT_FLOAT_EQ(phi3.rms_eps, 1e-5f);
  EXPECT_TRUE(parse_as("llama", R"("mlp_bias": true)").mlp_bias);
}

TEST(ModelConfig, ReadsTheWindowOfAllLayers) {
  EXPECT_EQ(parse_as("mistral", R"("sliding_window": 512)").window, 512);
  EXPECT_EQ(parse_as("mistral", R"("sliding_window": null)").window, 0);
  EXPECT_EQ(parse_as("mistral", R"("sliding_window": 2048)").window, 0) << "as large as the context";
  EXPECT_EQ(parse_as("mistral", R"("max_position_embeddings": 32768)").window, 4096)
      << "transformers' window where the key is missing";
  EXPECT_EQ(parse_as("mistral", R"("sliding_window": 512, "use_sliding_window": false)").window, 0);
  EXPECT_EQ(parse_as("qwen2", R"("sliding_window": 512)").window, 0) << "not asked for";
  const std::string on = R"("sliding_window": 512, "use_sliding_window": true)";
  EXPECT_EQ(parse_as("qwen2", on).window, 0) << "from layer 28 on";
  EXPECT_EQ(parse_as("qwen2", on + R"(, "max_window_layers": 0)").window, 512);
  for (const char* mixed :
       {R"(, "max_window_layers": 1)", R"(, "layer_types": ["full_attention", "sliding_attention"])"})
    expect_error(
        "{" + kSmall + R"(, "model_type": "qwen3", )" + on + mixed + "}",
        "'sliding_window' is 512; it must be null, or at least max_position_embeddings, 2048: 1 of 2 "
        "layers have the window, and here all layers have the same");
  expect_error("{" + kSmall + R"(, "layer_types": ["full_attention", "linear_attention"]})",
               "it must be a list of full_attention and sliding_attention");
}

TEST(ModelConfig, ReadsLayersWithoutRope) {
  const ModelConfig c = parse_as("smollm3", R"("no_rope_layers": [0, 1])");
  EXPECT_TRUE(!c.rotates(0) && c.rotates(1) && c.tied_embeddings);
  EXPECT_FALSE(parse_as("smollm3", R"("no_rope_layer_interval": 2)").rotates(1));
  EXPECT_TRUE(parse("").rotates(1));
  expect_error("{" + kSmall + R"(, "model_type": "smollm3", "no_rope_layers": [1]})", "a list of 2 numbers");
  expect_error(
      "{" + kSmall + R"(, "model_type": "smollm3", "rope_scaling": {"type": "dynamic", "factor": 2}})",
      "'rope_scaling' is");
}

TEST(ModelConfig, FoldsTheMultipliersOfGranite) {
  const ModelConfig c = parse_as("granite", R"("embedding_multiplier": 12, "residual_multiplier": 0.5,
    "attention_multiplier": 0.125, "logits_scaling": 8, "rms_norm_eps": 1e-5)");
  EXPECT_EQ(c.embedding_multiplier, 24);
  EXPECT_EQ(c.logits_multiplier, 0.125);
  EXPECT_FLOAT_EQ(c.rms_eps, 4e-5f);
  EXPECT_EQ(c.attention_scale(0), 0.125f);
  EXPECT_EQ(parse("").attention_scale(0), 0.25f) << "1 / sqrt(16)";
}

TEST(ModelConfig, ReadsYarnAndLongrope) {
  const ModelConfig yarn = parse(
      R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512})");
  EXPECT_EQ(yarn.rope.kind, RopeKind::yarn);
  EXPECT_EQ(yarn.rope.original_max_position, 512);
  EXPECT_NEAR(yarn.rope.attention_factor, 1.138629, 1e-6) << "0.1 ln 4 + 1";
  EXPECT_NEAR(yarn.attention_scale(0), 0.25 * 1.138629 * 1.138629, 1e-6) << "q and k have the factor";
  EXPECT_EQ(parse(R"("rope_scaling": {"type": "yarn", "factor": 4, "attention_factor": 1.5})")
                .rope.attention_factor,
            1.5);
  const std::string factors =
      R"("short_factor": [1, 1, 1, 1, 1, 1, 1, 2], "long_factor": [1, 1, 1, 1, 1, 1, 1, 4])";
  const ModelConfig phi3 = parse_as("phi3", R"("original_max_position_embeddings": 256, "rope_scaling":
    {"type": "su", )" + factors + "}");
  EXPECT_EQ(phi3.rope.kind, RopeKind::longrope);
  EXPECT_NEAR(phi3.rope.attention_factor, std::sqrt(1 + 3.0 / 8), 1e-6) << "2048 / 256, of 256";
  EXPECT_EQ(rope_inv_freq(16, phi3.rope, 256)[7], 2 * rope_inv_freq(16, phi3.rope, 257)[7]);
  expect_error(
      "{" + kSmall + R"(, "rope_scaling": {"type": "longrope", "short_factor": [1], "long_factor": []}})",
      "'short_factor' is [1]; it must be a list of 8 numbers, half of head_dim");
}

TEST(ModelConfig, TakesTheEndTokensOfTheGenerationConfig) {
  const std::filesystem::path folder = testing::fresh_folder("generation_config");
  std::ofstream(folder / "config.json") << "{" << kSmall << R"(, "eos_token_id": [5, 7]})";
  const auto eos = [&](const std::string& text) {
    std::ofstream(folder / "generation_config.json") << text;
    return read_model_config(folder / "config.json").eos;
  };
  EXPECT_EQ(read_model_config(folder / "config.json").eos, (std::vector{5, 7})) << "there is none";
  EXPECT_EQ(eos(R"({"eos_token_id": [7, 9]})"), (std::vector{5, 7, 9}));
  EXPECT_EQ(eos(R"({"eos_token_id": 3})"), (std::vector{5, 7, 3}));
  EXPECT_EQ(eos("{}"), (std::vector{5, 7}));
  EXPECT_THROW(eos(R"({"eos_token_id": "x"})"), InputError);
  EXPECT_THROW(eos("[]"), InputError);
}

TEST(ModelConfig, Presets) {
  EXPECT_EQ(preset("llama2-7b").qkv_width(), 3 * 4096);
  EXPECT_EQ(preset("llama3-8b").qkv_width(), 6144);
  EXPECT_TRUE(preset("llama3.2-1b").tied_embeddings);
  EXPECT_TRUE(preset("llama3.2-3b").tied_embeddings);
  EXPECT_EQ(preset("llama3.2-3b").qkv_width(), 5 * 1024);
  EXPECT_EQ(preset("llama3.1-8b").qkv_width(), 6144);
  EXPECT_EQ(preset("llama3.3-70b").qkv_width(), 10240);
  EXPECT_EQ(preset("llama3.3-70b").rope.factor, 8);
  EXPECT_TRUE(preset("qwen2.5-7b").qkv_bias && !preset("qwen2.5-7b").o_bias);
  EXPECT_TRUE(preset("qwen3-8b").qk_norm && preset("qwen3-0.6b").tied_embeddings);
  EXPECT_EQ(preset("qwen3-0.6b").q_width(), 2048) << "twice the hidden size";
  EXPECT_EQ(preset_names().size(), 12u);
  EXPECT_THROW(preset("llama9"), InputError);
}

TEST(Rope, FrequenciesOfEachScaling) {
  const auto plain = rope_inv_freq(4, {.theta = 100});
  ASSERT_EQ(plain.size(), 2u);
  EXPECT_FLOAT_EQ(plain[0], 1.0f);
  EXPECT_FLOAT_EQ(plain[1], 0.1f);
  EXPECT_FLOAT_EQ(rope_inv_freq(4, {.kind = RopeKind::linear, .theta = 100, .factor = 2})[1], 0.05f);
  const RopeScaling llama3{.kind = RopeKind::llama3, .theta = 1e4, .factor = 8, .original_max_position = 64};
  const auto scaled = rope_inv_freq(8, llama3);
  EXPECT_FLOAT_EQ(scaled[0], 1.0f);        // wave 6.3 < 16: kept
  EXPECT_FLOAT_EQ(scaled[3], 0.001f / 8);  // wave 6283 > 64: slowed down
  const double wave = 2 * 3.14159265358979 * 10, blend = (64 / wave - 1) / 3;
  EXPECT_NEAR(scaled[1], (1 - blend) * 0.1 / 8 + blend * 0.1, 1e-7);
}

TEST(Rope, YarnKeepsShortWavesAndDividesLongOnes) {
  const RopeScaling yarn{.kind = RopeKind::yarn, .theta = 1e4, .factor = 4, .original_max_position = 2048};
  const auto plain = rope_inv_freq(128, {.theta = 1e4}), scaled = rope_inv_freq(128, yarn);
  EXPECT_EQ(scaled[0], plain[0]);
  EXPECT_FLOAT_EQ(scaled[63], plain[63] / 4);
  for (std::size_t i = 0; i < 64; ++i)
    EXPECT_TRUE(scaled[i] <= plain[i] && scaled[i] >= plain[i] / 4.001f) << i;
}

TEST(Rope, Llama3BlendsOnlyBetweenItsBounds) {
  // Index 1 has a wave of 62.83. The bounds are the original length, and a quarter of it.
  const double wave = 2 * 3.14159265358979 * 10;
  const auto scaled = [](int original) {
    return rope_inv_freq(
        8, {.kind = RopeKind::llama3, .theta = 1e4, .factor = 8, .original_max_position = original})[1];
  };
  const auto blended = [&](int original) {
    const double blend = (original / wave - 1) / 3;
    return (1 - blend) * 0.1 / 8 + blend * 0.1;
  };
  EXPECT_FLOAT_EQ(scaled(256), 0.1f) << "2 % below the short-wave bound";
  EXPECT_NEAR(scaled(246), blended(246), 1e-7) << "2 % above the short-wave bound";
  EXPECT_NEAR(scaled(64), blended(64), 1e-7) << "2 % below the long-wave bound";
  EXPECT_FLOAT_EQ(scaled(62), 0.0125f) << "1 % above the long-wave bound";
  const RopeScaling half{.kind = RopeKind::llama3,
                         .theta = 1e4,
                         .factor = 8,
                         .low_freq_factor = 2,
                         .original_max_position = 124};
  EXPECT_FLOAT_EQ(rope_inv_freq(8, half)[1], 0.0125f) << "the long-wave bound is half of the original length";
}

}  // namespace
}  // namespace warptune
