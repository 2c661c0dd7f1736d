// `warptune quantize` as a user types it: the folders that it writes, and what decodes them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/llama/checkpoint.h"
#include "harness/llama/quantize_checkpoint.h"
#include "harness/llama/safetensors.h"
#include "tests/files.h"
#include "tests/program.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;
using testing::text_of;

class QuantizeCommand : public ::testing::Test {
 protected:
  int run(const std::string& arguments) {
    const auto ended = testing::run_shell("{} " + arguments);
    output_ = ended.text;
    return ended.code;
  }
  int quantize(const std::string& model, const std::string& weights, const fs::path& out) {
    return run("quantize --model " + model + " --weights " + weights + " --out " + out.string());
  }
  /// The activations and logits of a prefill and three steps on the host, as one text.
  std::string decoded(const std::string& arguments) {
    const fs::path dump = folder_ / "dump";
    fs::remove_all(dump);
    EXPECT_EQ(run("decode --device host --prompt-len 5 --steps 3 --out " + (folder_ / "results").string() +
                  " --dump-layers " + dump.string() + " " + arguments),
              0)
        << output_;
    std::string all;
    for (int step = 0; step <= 3; ++step)
      all += text_of(dump / ("step-000" + std::to_string(step) + ".safetensors"));
    return all;
  }
  /// A copy of a golden model.
  fs::path copy_of(const std::string& name) {
    fs::copy(golden(name), folder_ / name);
    return folder_ / name;
  }
  static std::string golden(const std::string& name) { return std::string(TEST_DATA) + "/golden/" + name; }
  static nlohmann::json config_of(const fs::path& folder) {
    return nlohmann::json::parse(text_of(folder / "config.json"));
  }
  bool says(const std::string& part) const { return output_.find(part) != std::string::npos; }

  fs::path folder_ = testing::fresh_folder(std::string("quantize_") +
                                           ::testing::UnitTest::GetInstance()->current_test_info()->name());
  std::string output_;
};

TEST_F(QuantizeCommand, TheFolderDecodesAsTheModelWithWeights) {
  for (const std::string model : {"gqa", "tied", "mha"})  // bf16, fp16, fp32
    for (const std::string weights :
         {"int4:group=32", "int4:group=64", "int4:group=0", "int8", "fp8", "nvfp4", "mxfp4"}) {
      const fs::path out = folder_ / (model + weights);
      ASSERT_EQ(quantize(golden(model), weights, out), 0) << output_;
      EXPECT_TRUE(says(" MB in 1 file, " + weights)) << output_;
      const std::string expected = decoded("--model " + golden(model) + " --weights " + weights);
      EXPECT_GT(expected.size(), 1000u);
      EXPECT_TRUE(decoded("--model " + out.string()) == expected) << model << " " << weights;
      EXPECT_EQ(run("decode --device host --prompt-len 5 --steps 3 --check-baseline 3 --weights " + weights +
                    " --out " + (folder_ / "results").string() + " --model " + out.string()),
                0)
          << output_;
    }
}

TEST_F(QuantizeCommand, ModulesThatAreStoredFusedStaySo) {
  const fs::path out = folder_ / "phi3";
  ASSERT_EQ(quantize(golden("phi3"), "int8", out), 0) << output_;
  EXPECT_EQ(Checkpoint(out).tensor("model.layers.1.self_attn.qkv_proj.weight", {128, 64}).dtype, "I8");
  EXPECT_EQ(decoded("--model " + out.string()), decoded("--model " + golden("phi3") + " --weights int8"));
}

TEST_F(QuantizeCommand, WritesTheLayoutOfCompressedTensors) {
  struct Case {
    std::string weights, format, type, strategy, weight, stored, scale;
    int bits;
    std::vector<std::int64_t> weight_shape, scale_shape;
  };
  const Case cases[] = {
      {"int4:group=32",
       "pack-quantized",
       "int",
       "group",
       "weight_packed",
       "I32",
       "F16",
       4,
       {64, 16},
       {64, 4}},
      {"int4:group=0",
       "pack-quantized",
       "int",
       "channel",
       "weight_packed",
       "I32",
       "F32",
       4,
       {64, 16},
       {64, 1}},
      {"int8", "int-quantized", "int", "channel", "weight", "I8", "F32", 8, {64, 128}, {64, 1}},
      {"fp8", "float-quantized", "float", "channel", "weight", "F8_E4M3", "F32", 8, {64, 128}, {64, 1}},
      {"nvfp4",
       "nvfp4-pack-quantized",
       "float",
       "tensor_group",
       "weight_packed",
       "U8",
       "F8_E4M3",
       4,
       {64, 64},
       {64, 8}},
      {"mxfp4", "mxfp4-pack-quantized", "float", "group", "weight_packed", "U8", "U8", 4, {64, 64}, {64, 4}}};
  for (const Case& c : cases) {
    const fs::path out = folder_ / c.weights;
    ASSERT_EQ(quantize(golden("gqa"), c.weights, out), 0) << output_;
    nlohmann::json config = config_of(out);
    const nlohmann::json quantization = config.at("quantization_config");
    config.erase("quantization_config");
    EXPECT_EQ(config, config_of(golden("gqa")));
    EXPECT_EQ(quantization.at("format"), c.format);
    EXPECT_EQ(quantization.at("ignore"), nlohmann::json({"lm_head"}));
    const nlohmann::json& weights = quantization.at("config_groups").at("group_0").at("weights");
    EXPECT_EQ(weights.at("num_bits"), c.bits);
    EXPECT_EQ(weights.at("type"), c.type);
    EXPECT_EQ(weights.at("strategy"), c.strategy);
    EXPECT_EQ(weights.at("group_size"), c.weights == "nvfp4"    ? nlohmann::json(16)
                                        : c.strategy == "group" ? nlohmann::json(32)
                                                                : nlohmann::json());

    const Checkpoint from(golden("gqa")), to(out);
    const std::string down = "model.layers.1.mlp.down_proj.";
    EXPECT_EQ(to.tensor(down + c.weight, c.weight_shape).dtype, c.stored);
    EXPECT_EQ(to.tensor(down + "weight_scale", c.scale_shape).dtype, c.scale);
    EXPECT_EQ(to.has(down + "weight_shape"), c.format == "pack-quantized");
    EXPECT_EQ(to.has(down + "weight_global_scale"), c.weights == "nvfp4");
    for (const std::string name :
         {"lm_head.weight", "model.embed_tokens.weight", "model.layers.1.input_layernorm.weight"}) {
      EXPECT_EQ(to.find(name)->dtype, from.find(name)->dtype);
      EXPECT_TRUE(std::ranges::equal(to.find(name)->data, from.find(name)->data)) << name;
    }
    EXPECT_EQ(std::distance(fs::directory_iterator(out), fs::directory_iterator()), 2)
        << "the file of golden logits is not the model's";
  }
}

TEST_F(QuantizeCommand, CopiesFilesWithoutWeights) {
  const fs::path model = copy_of("tied");  // two shards and an index
  for (const char* name : {"tokenizer.json", "tokenizer.model", "generation_config.json"})
    std::ofstream(model / name) << "{}";
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) std::ofstream(model / name);
  fs::create_directory(model / "original");
  ASSERT_EQ(quantize(model.string(), "int8", folder_ / "out"), 0) << output_;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_ / "out"))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"config.json", "generation_config.json", "model.safetensors",
                                             "tokenizer.json", "tokenizer.model"}));
  EXPECT_FALSE(Checkpoint(folder_ / "out").has("lm_head.weight")) << "the model is tied";
}

TEST_F(QuantizeCommand, WritesShardsWithAnIndex) {
  const WeightFormat format = parse_weight_format("int4:group=32");
  const QuantizedCheckpoint written = quantize_checkpoint(golden("gqa"), format, folder_ / "out", 60'000);
  EXPECT_GT(written.files, 2);
  std::int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder_ / "out"))
    if (entry.path().extension() == ".safetensors") bytes += static_cast<std::int64_t>(entry.file_size());
  EXPECT_GT(bytes, written.bytes);
  EXPECT_LT(bytes, written.bytes + 10'000) << "headers";
  EXPECT_TRUE(decoded("--model " + (folder_ / "out").string()) ==
              decoded("--model " + golden("gqa") + " --weights int4:group=32"));
}

TEST_F(QuantizeCommand, RefusalsWriteNothing) {
  fs::create_directory(folder_ / "full");
  std::ofstream(folder_ / "full" / "file");
  const std::string gqa = golden("gqa"), ct = std::string(TEST_DATA) + "/quantized/ct_int8";
  const fs::path out = folder_ / "out";
  struct Case {
    std::string model, weights;
    fs::path out;
    std::string sentence;
  };
  const Case cases[] = {
      {gqa, "int3", out, "'int3' is no format of weights"},
      {gqa, "same", out, "weights are not written as 'same'; it must be int8, fp8, nvfp4, mxfp4, or int4"},
      {gqa, "q4_k", out, "weights are not written as 'q4_k'"},
      {gqa, "q5_k", out, "weights are not written as 'q5_k'"},
      {gqa, "q6_k", out, "weights are not written as 'q6_k'"},
      {gqa, "int8:group=64", out, "weights are not written as 'int8:group=64'"},
      {gqa, "fp8:group=128", out, "weights are not written as 'fp8:group=128'"},
      {gqa, "int4:group=32:zeros", out, "weights are not written as 'int4:group=32:zeros'"},
      {gqa, "int4", out, "weights of 64 columns have no groups of 128; it must divide them"},
      {ct, "int8", out, "is quantized already (compressed-tensors)"},
      {gqa, "int8", folder_ / "full", "is not an empty folder; --out names a new or empty one"},
      {gqa, "int8", folder_ / "full" / "file", "is not an empty folder"},
      {gqa, "int8", folder_ / "none" / "out", "the folder of"},
      {gqa, "int8", gqa, "is not an empty folder"},
      {(folder_ / "none").string(), "int8", out, "cannot be read"},
      {std::string(TEST_DATA) + "/gguf/llama_q5_k/model.gguf", "int8", out,
       "is a file; quantize takes the folder"},
  };
  for (const auto& [model, weights, to, sentence] : cases) {
    EXPECT_EQ(quantize(model, weights, to), 2) << output_;
    EXPECT_TRUE(output_.starts_with("warptune: ") && says(sentence)) << output_;
    EXPECT_EQ(std::ranges::count(output_, '\n'), 1) << output_;
    EXPECT_FALSE(fs::exists(out)) << sentence;
  }
  EXPECT_TRUE(fs::is_empty(folder_ / "full" / "file"));
}

TEST_F(QuantizeCommand, AFailureLeavesNothing) {
  const fs::path model = copy_of("mha");
  {
    const SafetensorsFile from(golden("mha") + "/model.safetensors");
    std::vector<TensorLayout> layout;
    for (const auto& [name, stored] : from.tensors()) layout.push_back({name, stored.dtype, stored.shape});
    SafetensorsWriter to(model / "model.safetensors", layout);
    for (const auto& [name, stored] : from.tensors()) {
      std::vector<std::byte> bytes(stored.data.begin(), stored.data.end());
      if (name == "model.layers.1.mlp.up_proj.weight") store(DType::fp32, bytes.data(), 7, INFINITY);
      to.append(name, bytes);
    }
    to.finish();
  }
  const std::string sentence = "'model.layers.1.mlp.up_proj': the weights hold a value that is not finite";
  EXPECT_EQ(quantize(model.string(), "int8", folder_ / "out"), 2);
  EXPECT_TRUE(says(sentence)) << output_;
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  fs::create_directory(folder_ / "out");
  EXPECT_EQ(quantize(model.string(), "int8", folder_ / "out"), 2);
  EXPECT_TRUE(fs::is_empty(folder_ / "out")) << "an empty folder stays";
}

}  // namespace
}  // namespace warptune
