#include "harness/llama/quantization_config.h"

#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/llama/model_config.h"

namespace warptune {
namespace {

ModelConfig model_of(const std::string& quantization) {
  return parse_model_config(
      R"({"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,)"
      R"("vocab_size": 256, "quantization_config": )" +
          quantization + "}",
      "config.json");
}

QuantizationConfig quantization(const std::string& text) { return *model_of(text).quantization; }

/// A config of compressed-tensors with one group.
std::string group_of(const std::string& weights, const std::string& format = "pack-quantized",
                     const std::string& more = "") {
  return R"({"quant_method": "compressed-tensors", "format": ")" + format +
         R"(", "config_groups": {"group_0": {"targets": ["Linear"], "weights": )" + weights + "}}" + more +
         "}";
}

const std::string kGptqConfig = R"({"quant_method": "gptq", "bits": 4, "group_size": 128)";
const char* const kDown = "model.layers.1.mlp.down_proj";

void expect_scheme(const QuantizationConfig& config, WeightStorage storage, const WeightFormat& format) {
  const QuantizationScheme* scheme = config.scheme_of(kDown);
  ASSERT_NE(scheme, nullptr);
  EXPECT_EQ(scheme->storage, storage);
  EXPECT_EQ(scheme->format, format);
}

TEST(QuantizationConfig, ModelsWithoutOneAreIn16Bits) {
  EXPECT_FALSE(model_of("null").quantization);
  EXPECT_TRUE(model_of(kGptqConfig + "}").quantization);
}

TEST(QuantizationConfig, ReadsGptq) {
  expect_scheme(
      quantization(kGptqConfig + R"(, "desc_act": true, "sym": false, "dynamic": {"-:.*down": {}}})"),
      WeightStorage::gptq, {.weights = kWeightsInt4, .group = 128, .zeros = true, .act_order = true});
  expect_scheme(
      quantization(
          R"({"quant_method": "gptq", "bits": 8, "group_size": -1, "checkpoint_format": "gptq_v2"})"),
      WeightStorage::gptq_v2, {.weights = kWeightsInt8});
  expect_scheme(quantization(kGptqConfig + R"(, "format": "gptq_v2"})"), WeightStorage::gptq_v2,
                {.weights = kWeightsInt4, .group = 128});
}

TEST(QuantizationConfig, ReadsAwqByEitherNamesOfItsKeys) {
  const WeightFormat format = {.weights = kWeightsInt4, .group = 64, .zeros = true};
  for (const char* const text :
       {R"({"quant_method": "awq", "bits": 4, "group_size": 64, "version": "gemm", "zero_point": true})",
        R"({"quant_method": "awq", "w_bit": 4, "q_group_size": 64, "version": "GEMM"})"})
    expect_scheme(quantization(text), WeightStorage::awq, format);
}

TEST(QuantizationConfig, ReadsFp8) {
  const auto config =
      quantization(R"({"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3"})");
  expect_scheme(config, WeightStorage::plain, {.weights = kWeightsFp8});
  EXPECT_EQ(config.notes, std::vector<std::string>{
                              "config.json: quantization_config: activations are not quantized, they stay in "
                              "16 bits, unless --weights is fp8:activations=fp8"});
  expect_scheme(quantization(R"({"quant_method": "fp8", "weight_block_size": [128, 128]})"),
                WeightStorage::plain, {.weights = kWeightsFp8, .group = 128});
}

TEST(QuantizationConfig, ReadsCompressedTensors) {
  const auto read = [](const std::string& weights, const char* format) {
    return quantization(group_of(weights, format));
  };
  expect_scheme(read(R"({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 64,)"
                     R"("symmetric": false, "dynamic": false, "actorder": "group"})",
                     "pack-quantized"),
                WeightStorage::packed,
                {.weights = kWeightsInt4, .group = 64, .zeros = true, .act_order = true});
  expect_scheme(read(R"({"num_bits": 4, "group_size": 64, "actorder": "weight"})", "pack-quantized"),
                WeightStorage::packed, {.weights = kWeightsInt4, .group = 64});
  expect_scheme(read(R"({"num_bits": 8, "strategy": "channel", "group_size": null})", "pack-quantized"),
                WeightStorage::packed, {.weights = kWeightsInt8});
  expect_scheme(read(R"({"num_bits": 8, "strategy": "tensor"})", "int-quantized"), WeightStorage::plain,
                {.weights = kWeightsInt8});
  expect_scheme(read(R"({"num_bits": 8, "type": "float", "strategy": "channel"})", "float-quantized"),
                WeightStorage::plain, {.weights = kWeightsFp8});
  expect_scheme(
      read(R"({"type": "float", "strategy": "block", "block_structure": [128, 128]})", "naive-quantized"),
      WeightStorage::plain, {.weights = kWeightsFp8, .group = 128});
}

TEST(QuantizationConfig, ReadsFloatsOf4Bits) {
  const auto fp4 = [](const char* group) {
    return R"({"num_bits": 4, "type": "float", "group_size": )" + std::string(group) + "}";
  };
  expect_scheme(quantization(group_of(fp4("16"), "nvfp4-pack-quantized")), WeightStorage::fp4,
                {.weights = kWeightsNvfp4, .group = 16});
  expect_scheme(quantization(group_of(fp4("32"), "mxfp4-pack-quantized")), WeightStorage::fp4,
                {.weights = kWeightsMxfp4, .group = 32});
  for (const bool activations : {true, false}) {
    const auto config = quantization(R"({"quant_method": "modelopt", "quant_algo": ")" +
                                     std::string(activations ? "NVFP4" : "W4A16_NVFP4") + R"("})");
    expect_scheme(config, WeightStorage::modelopt, {.weights = kWeightsNvfp4, .group = 16});
    EXPECT_EQ(config.notes.size(), activations ? 1u : 0u);
  }
}

TEST(QuantizationConfig, NotesWhatIsNotApplied) {
  EXPECT_TRUE(quantization(kGptqConfig + "}").notes.empty());
  const auto config = quantization(
      R"({"quant_method": "compressed-tensors", "format": "int-quantized", "kv_cache_scheme": {"num_bits": 8},)"
      R"("config_groups": {"g": {"targets": ["Linear"], "weights": {"num_bits": 8},)"
      R"("input_activations": {"num_bits": 8, "dynamic": true}}}})");
  ASSERT_EQ(config.notes.size(), 2u);
  EXPECT_NE(config.notes[0].find("activations are not quantized"), std::string::npos);
  EXPECT_NE(config.notes[1].find("'kv_cache_scheme' is not applied"), std::string::npos);
}

TEST(QuantizationConfig, IgnoredModulesAreIn16Bits) {
  const auto ignores = [](const std::string& list, const char* key = "modules_to_not_convert") {
    return quantization(kGptqConfig + R"(, ")" + key + "\": " + list + "}").scheme_of(kDown) == nullptr;
  };
  EXPECT_FALSE(ignores("null"));
  EXPECT_FALSE(ignores("[]"));
  for (const char* const name :
       {"model.layers.1.mlp.down_proj", "down_proj", "mlp", "model.layers.1", "re:.*down_proj", "re:model",
        "re:.*layers.(0|1)\\\\.mlp.*", "Linear", "model.layers.1*", "*down_proj"})
    for (const char* const key : {"modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules"})
      EXPECT_TRUE(ignores("[\"lm_head\", \"" + std::string(name) + "\"]", key)) << name;
  for (const char* const name : {"proj", "down", "model.layers", "layers.10", "layers.1.mlp.down_proj.weight",
                                 "re:layers", "re:.*up", "layers.1*", "model.layers.1*up_proj"})
    EXPECT_EQ(ignores("[\"" + std::string(name) + "\"]"), name == std::string("model.layers")) << name;
}

TEST(QuantizationConfig, TheMostSpecificTargetDecides) {
  const auto config = quantization(
      R"({"quant_method": "compressed-tensors", "format": "mixed-precision", "ignore": ["lm_head"],)"
      R"("config_groups": {)"
      R"("group_0": {"targets": ["Linear"], "format": "pack-quantized",)"
      R"("weights": {"num_bits": 4, "group_size": 128}},)"
      R"("group_1": {"targets": ["re:.*down_proj$"], "format": "float-quantized",)"
      R"("weights": {"num_bits": 8, "type": "float"}},)"
      R"("group_2": {"targets": ["model.layers.0.mlp.down_proj"], "weights": null}}})");
  EXPECT_EQ(config.scheme_of("lm_head"), nullptr);
  EXPECT_EQ(config.scheme_of("model.layers.0.mlp.down_proj"), nullptr) << "its group has no weights";
  EXPECT_EQ(config.scheme_of("model.layers.0.mlp.up_proj")->storage, WeightStorage::packed);
  expect_scheme(config, WeightStorage::plain, {.weights = kWeightsFp8});
}

TEST(QuantizationConfig, WrongConfigsAreOneSentence) {
  const auto expect_error = [](const std::string& text, const std::string& part) {
    try {
      quantization(text);
      FAIL() << "no error for " << text;
    } catch (const InputError& e) {
      const std::string what = e.what();
      EXPECT_NE(what.find(part), std::string::npos) << what;
      EXPECT_TRUE(what.starts_with("config.json: ")) << what;
      EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    }
  };
  expect_error("3", "'quantization_config' is 3; it must be an object");
  expect_error("[]", "'quantization_config' is []; it must be an object");
  expect_error("{}", "quantization_config: key 'quant_method' is missing");
  expect_error(R"({"quant_method": 4})", "'quant_method' is 4; it must be a string");
  expect_error(
      R"({"quant_method": "bitsandbytes"})",
      R"('quant_method' is "bitsandbytes"; it must be gptq, awq, compressed-tensors, fp8 or modelopt)");
  expect_error(R"({"quant_method": "modelopt"})", "key 'quant_algo' is missing");
  expect_error(R"({"quant_method": "modelopt", "quant_algo": "NVFP4_AWQ"})",
               "it must be NVFP4 or W4A16_NVFP4");
  expect_error(R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 32})", "it must be 16");
  expect_error(R"({"quant_method": "mxfp4"})", "compressed-tensors where weights are mxfp4");
  expect_error(R"({"quant_method": "gptq", "bits": 3, "group_size": 128})", "'bits' is 3; it must be 4 or 8");
  expect_error(R"({"quant_method": "gptq", "bits": "4", "group_size": 128})", "an integer");
  expect_error(R"({"quant_method": "gptq", "bits": 4})", "'group_size' is missing");
  for (const char* const group : {"0", "16", "-2", "256", "1.5", "\"128\"", "[128]"})
    expect_error(R"({"quant_method": "gptq", "bits": 4, "group_size": )" + std::string(group) + "}",
                 "'group_size' is");
  expect_error(kGptqConfig + R"(, "checkpoint_format": "marlin"})", "gptq or gptq_v2");
  expect_error(kGptqConfig + R"(, "is_marlin_format": true})",
               "'is_marlin_format' is true; it must be false");
  expect_error(kGptqConfig + R"(, "dynamic": {"+:.*down.*": {"bits": 8}}})", "a module of another format");
  expect_error(kGptqConfig + R"(, "sym": "yes"})", "true or false");
  expect_error(kGptqConfig + R"(, "modules_to_not_convert": "lm_head"})", "a list");
  expect_error(kGptqConfig + R"(, "modules_to_not_convert": [3]})", "a list of names");
  expect_error(kGptqConfig + R"(, "ignore": ["re:("]})", "is not a regular expression");
  std::string names = "\"a\"";
  for (int i = 0; i < 10'001; ++i) names += ", \"a\"";
  expect_error(kGptqConfig + ", \"ignore\": [" + names + "]}", "a list of at most 10000 names");
  expect_error(R"({"quant_method": "awq", "bits": 8, "group_size": 128})", "'bits' is 8; it must be 4");
  expect_error(R"({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemv"})",
               R"('version' is "gemv"; it must be gemm)");
  expect_error(R"({"quant_method": "fp8", "weight_block_size": [64, 128]})", "[128, 128]");
  expect_error(R"({"quant_method": "fp8", "fmt": "e5m2"})", "e4m3");

  expect_error(R"({"quant_method": "compressed-tensors", "format": "pack-quantized"})",
               "'config_groups' is missing");
  expect_error(R"({"quant_method": "compressed-tensors", "config_groups": {}})", "'format' is missing");
  expect_error(group_of("[]"), "config_groups: group_0: 'weights' is []; it must be an object");
  expect_error(group_of(R"({"num_bits": 3})"), "'num_bits' is 3; it must be 4 or 8");
  expect_error(group_of(R"({"num_bits": 4, "type": "complex"})"), "int or float");
  expect_error(group_of(R"({"num_bits": 4, "type": "float"})"), "'group_size' is missing");
  const auto fp4 = [](const std::string& more) {
    return R"({"num_bits": 4, "type": "float", )" + more + "}";
  };
  expect_error(group_of(fp4(R"("group_size": 64)"), "nvfp4-pack-quantized"), "16 (nvfp4) or 32 (mxfp4)");
  expect_error(group_of(fp4(R"("group_size": 16, "actorder": "group")"), "nvfp4-pack-quantized"),
               "'actorder' is \"group\"; it must be null");
  expect_error(group_of(fp4(R"("group_size": 16)"), "mxfp4-pack-quantized"),
               "it must be nvfp4-pack-quantized");
  expect_error(group_of(fp4(R"("group_size": 32)"), "pack-quantized"), "it must be mxfp4-pack-quantized");
  expect_error(group_of(R"({"num_bits": 4, "dynamic": true})"), "'dynamic' is true; it must be false");
  expect_error(group_of(R"({"num_bits": 8, "symmetric": false})"), "true where weights have 8 bits");
  expect_error(group_of(R"({"num_bits": 4, "strategy": "group", "group_size": 16})"), "32, 64, 128 or -1");
  expect_error(group_of(R"({"num_bits": 4, "strategy": "token"})"), "tensor, channel or group");
  expect_error(group_of(R"({"type": "float", "strategy": "group", "group_size": 128})", "float-quantized"),
               "tensor, channel or block");
  expect_error(group_of(R"({"type": "float", "group_size": 128})", "float-quantized"),
               "key 'strategy' is missing; it must be tensor, channel or block");
  expect_error(group_of(R"({"type": "float", "strategy": "block"})", "float-quantized"),
               "key 'block_structure' is missing; it must be [128, 128]");
  expect_error(group_of(R"({"num_bits": 4})", "int-quantized"), "pack-quantized where weights have 4 bits");
  expect_error(group_of(R"({"num_bits": 8})", "dense"), "pack-quantized or int-quantized");
  expect_error(group_of(R"({"num_bits": 4})", "pack-quantized",
                        R"(, "sparsity_config": {"format": "sparse-24-bitmask"})"),
               "it must be dense");
  expect_error(group_of(R"({"num_bits": 4})", "pack-quantized", R"(, "transform_config": {"R1": {}})"),
               "activations are not rotated");
  expect_error(
      R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"g": {}}})",
      "g: key 'targets' is missing; it must be a list of names");
  expect_error(kGptqConfig + R"(, "x": )" + std::string(100, '[') + std::string(100, ']') + "}",
               "nest deeper than 64 levels");
}

}  // namespace
}  // namespace warptune
