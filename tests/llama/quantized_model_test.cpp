// Models on quantized weights: checkpoints of other libraries against their goldens, and random weights.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/core/error.h"
#include "harness/llama/checkpoint.h"
#include "harness/llama/decode_report.h"
#include "harness/llama/golden.h"
#include "harness/llama/memory_need.h"
#include "harness/llama/model.h"
#include "harness/llama/prompts.h"
#include "tests/files.h"
#include "tests/llama/quantized_checkpoint.h"
#include "tests/llama/small_models.h"
#include "tests/program.h"
#include "variants/table.h"

namespace warptune {
namespace {

using testing::all_weight_formats, testing::kQuantizedGoldens;

namespace fs = std::filesystem;

fs::path folder_of(const std::string& name) { return fs::path(TEST_DATA) / "quantized" / name; }

void expect_quantized_golden(const std::string& name, const std::string& where, DType dtype, bool naive,
                             bool fused) {
  SCOPED_TRACE(name + " " + std::string(name_of(dtype)) + (naive ? " naive" : "") + (fused ? " fused" : ""));
  const fs::path folder = folder_of(name);
  const auto device = open_device(where);
  const ModelConfig config = read_model(folder);
  EXPECT_TRUE(config.weights.quantized());
  const Golden golden = read_golden(folder / "golden.safetensors");
  const Weights weights = load_weights(*device, config, dtype, folder);
  PlanBook book(ops(), *device, {.naive = naive});
  Model model(*device, config, weights, book,
              {.batch = static_cast<int>(golden.prompts.size()),
               .capacity = 64,
               .max_steps = golden.steps(),
               .fuse = {.append = fused && !naive,  // the naive kernel of attention does not append
                        .norm = fused,
                        .swiglu = fused,
                        .argmax = fused,
                        .split_norm = false},
               .graph = !naive});
  const Agreement agreement = check_golden(model, golden);
  EXPECT_TRUE(agreement.ok()) << agreement.summary();
}

/// The dtype of what a folder stores in 16 bits.
DType stored_dtype(const std::string& name) {
  return name.starts_with("gptq") || name == "awq" ? DType::fp16 : DType::bf16;
}

class QuantizedGolden : public ::testing::TestWithParam<const char*> {};
TEST_P(QuantizedGolden, AgreesOnTheHost) {
  for (const bool naive : {false, true})
    for (const bool fused : {false, true})
      expect_quantized_golden(GetParam(), "host", DType::fp32, naive, fused);
  expect_quantized_golden(GetParam(), "host", stored_dtype(GetParam()), false, true);
}
INSTANTIATE_TEST_SUITE_P(Folders, QuantizedGolden, ::testing::ValuesIn(kQuantizedGoldens),
                         [](const auto& info) { return std::string(info.param); });

class GpuQuantizedGolden : public ::testing::TestWithParam<const char*> {};
TEST_P(GpuQuantizedGolden, Agrees) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  for (const bool naive : {false, true})
    for (const bool fused : {false, true})
      expect_quantized_golden(GetParam(), "cuda:0", stored_dtype(GetParam()), naive, fused);
  expect_quantized_golden(GetParam(), "cuda:0", DType::fp32, true, false);
}
INSTANTIATE_TEST_SUITE_P(Folders, GpuQuantizedGolden, ::testing::ValuesIn(kQuantizedGoldens),
                         [](const auto& info) { return std::string(info.param); });

TEST(QuantizedWeights, TheFormatOfAModelIsThatOfItsLayers) {
  const auto format = [](const char* name) { return read_model(folder_of(name)).weights.str(); };
  EXPECT_EQ(format("awq"), "int4:group=32:zeros");
  EXPECT_EQ(format("ct_fp8"), "fp8");
  EXPECT_EQ(format("ct_int4"), "int4:group=32");
  EXPECT_EQ(format("ct_int4_zero"), "int4:group=32:zeros");
  EXPECT_EQ(format("ct_int8"), "int8");
  EXPECT_EQ(format("fp8_block"), "fp8:group=128");
  EXPECT_EQ(format("fp8_tensor"), "fp8");
  EXPECT_EQ(format("gptq"), "int4:group=64");
  EXPECT_EQ(format("gptq_8bit"), "int8:group=64");
  EXPECT_EQ(format("gptq_act_order"), "int4:group=32:zeros:act_order");
  EXPECT_EQ(format("mixed"), "int4:group=32");
  EXPECT_EQ(format("modelopt_nvfp4"), "nvfp4");
  EXPECT_EQ(format("mxfp4"), "mxfp4");
  EXPECT_EQ(format("nvfp4"), "nvfp4");
  EXPECT_EQ(read_model(fs::path(TEST_DATA) / "golden" / "mha").weights.str(), "same");
}

TEST(QuantizedWeights, ABareConfigDeclaresTheFormatOfItsMatrices) {
  for (const std::string name : kQuantizedGoldens) {
    const fs::path folder = testing::fresh_folder("bare_" + name);
    fs::copy_file(folder_of(name.c_str()) / "config.json", folder / "config.json");
    const ModelConfig bare = read_model(folder), stored = read_model(folder_of(name.c_str()));
    EXPECT_EQ(bare.weights, stored.weights) << name << bare.weights.str();
    EXPECT_EQ(bare.layer_formats, stored.layer_formats) << name;
    EXPECT_FALSE(bare.head_format.quantized()) << name;
  }
}

TEST(QuantizedWeights, AMatrixThatTheConfigExceptsIsIn16Bits) {
  const auto device = open_device("host");
  const ModelConfig config = read_model(folder_of("mixed"));
  const Weights w = load_weights(*device, config, DType::bf16, folder_of("mixed"));
  EXPECT_TRUE(w.layers[0].down.format.quantized());
  EXPECT_FALSE(w.layers[1].down.format.quantized());
  EXPECT_FALSE(w.layers[1].down.scales.data());
  EXPECT_TRUE(w.layers[1].o.format.quantized());
  EXPECT_FALSE(w.lm_head.format.quantized());
}

TEST(QuantizedWeights, NotesNameWhatIsNotApplied) {
  const auto device = open_device("host");
  const auto notes = [&](const char* name) {
    return load_weights(*device, read_model(folder_of(name)), DType::fp32, folder_of(name)).notes;
  };
  ASSERT_EQ(notes("fp8_tensor").size(), 1u);
  EXPECT_NE(notes("fp8_tensor")[0].find("activations are not quantized, they stay in 16 bits"),
            std::string::npos);
  EXPECT_TRUE(notes("gptq").empty());
}

// Old checkpoints of ModelOpt have a config.json that names no quantization.
TEST(QuantizedWeights, HfQuantConfigIsReadWhereConfigJsonHasNone) {
  const auto folder = testing::fresh_folder("hf_quant_config");
  fs::copy(folder_of("modelopt_nvfp4"), folder);
  auto config = nlohmann::json::parse(testing::text_of(folder / "config.json"));
  config.erase("quantization_config");
  std::ofstream(folder / "config.json") << config;
  std::ofstream(folder / "hf_quant_config.json")
      << R"({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "group_size": 16,)"
         R"("kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head", "model.layers.*.down_proj"]}})";
  const ModelConfig read = read_model(folder);
  EXPECT_EQ(read.weights.str(), "nvfp4");
  ASSERT_TRUE(read.quantization);
  EXPECT_EQ(read.quantization->scheme_of("model.layers.0.mlp.down_proj"), nullptr);
  ASSERT_NE(read.quantization->scheme_of("model.layers.0.mlp.up_proj"), nullptr);
  EXPECT_EQ(read.quantization->notes.size(), 2u);
  std::ofstream(folder / "hf_quant_config.json") << R"({"quantization": {"quant_algo": "FP8"}})";
  EXPECT_THROW(read_model(folder), InputError);
}

/// Rows and columns are multiples of all groups, and of the blocks of scales.
ModelConfig wide() {
  return {.name = "wide",
          .hidden = 256,
          .intermediate = 256,
          .layers = 2,
          .q_heads = 4,
          .kv_heads = 1,
          .head_dim = 64,
          .vocab = 97,
          .max_position = 512};
}

ModelConfig wide(const WeightFormat& format) {
  ModelConfig config = wide();
  config.weights = format;
  return config;
}

double bytes_of(const Matrix& m) {
  return static_cast<double>(m.weight.bytes() + m.scales.bytes() + m.zeros.bytes() + m.order.bytes() +
                             m.row_scales.bytes());
}

TEST(QuantizedWeights, TheirBytesAreThoseOfTheirBuffers) {
  const auto device = open_device("host");
  for (const WeightFormat& format : all_weight_formats()) {
    SCOPED_TRACE(format.str());
    const ModelConfig c = wide(format);
    const Weights w = random_weights(*device, c, DType::bf16, 3);
    double all = static_cast<double>(w.embedding.bytes() + w.final_norm.bytes()) + bytes_of(w.lm_head);
    for (const LayerWeights& l : w.layers) {
      EXPECT_EQ(bytes_of(l.qkv), matrix_bytes(format, DType::bf16, c.qkv_width(), c.hidden));
      EXPECT_EQ(bytes_of(l.down), matrix_bytes(format, DType::bf16, c.hidden, c.intermediate));
      for (const Matrix* matrix : {&l.qkv, &l.o, &l.gate_up, &l.down}) {
        EXPECT_EQ(matrix->format, format);
        EXPECT_EQ(matrix->zeros.bytes() > 0, format.zeros);
        EXPECT_EQ(matrix->order.bytes() > 0, format.act_order);
        all += bytes_of(*matrix);
      }
      all += static_cast<double>(l.input_norm.bytes() + l.attention_norm.bytes());
    }
    EXPECT_EQ(weight_bytes(c, DType::bf16), all);
  }
  for (const char* name : {"ct_int4", "fp8_block", "gptq"}) {
    const ModelConfig c = read_model(folder_of(name));
    const Weights w = load_weights(*device, c, DType::fp32, folder_of(name));
    EXPECT_EQ(bytes_of(w.layers[0].gate_up),
              matrix_bytes(c.weights, DType::fp32, 2LL * c.intermediate, c.hidden))
        << name;
  }
}

/// Bytes of the weights that were loaded, without the padding of packed ones.
double bytes_by_format(const Weights& w, const ModelConfig& c) {
  const auto matrix = [&](const Matrix& m, std::int64_t rows, std::int64_t columns) {
    return matrix_bytes(m.format, w.dtype, rows, columns);
  };
  double bytes =
      static_cast<double>(w.embedding.bytes() + w.final_norm.bytes()) + matrix(w.lm_head, c.vocab, c.hidden);
  for (const LayerWeights& l : w.layers)
    bytes += matrix(l.qkv, c.qkv_width() - (l.v.weight.bytes() > 0 ? c.kv_width() : 0), c.hidden) +
             matrix(l.v, l.v.weight.bytes() > 0 ? c.kv_width() : 0, c.hidden) +
             matrix(l.o, c.hidden, c.q_width()) + matrix(l.gate_up, 2LL * c.intermediate, c.hidden) +
             matrix(l.down, c.hidden, c.intermediate) +
             static_cast<double>(l.input_norm.bytes() + l.attention_norm.bytes());
  return bytes;
}

/// The folder `mixed` with layer 1 in int8 and lm_head in fp8, a scale per row. `plain_v`: the v of layer 1
/// is in 16 bits.
fs::path three_formats(const std::string& test, bool plain_v = false) {
  const fs::path from = folder_of("mixed"), to = testing::fresh_folder(test);
  testing::RawTensors tensors;
  const Checkpoint checkpoint(from);
  for (const auto& [name, tensor] : checkpoint.tensors())
    if (!name.starts_with("model.layers.1.") || name.find("norm") != std::string::npos)
      tensors[name] = {tensor->dtype, tensor->shape,
                       std::string(reinterpret_cast<const char*>(tensor->data.data()), tensor->data.size())};
  const ModelConfig c = read_model(from);
  const std::int64_t kv = static_cast<std::int64_t>(c.kv_heads) * c.head_dim;
  const auto add = [&](const std::string& name, std::int64_t rows, std::int64_t columns, int weights) {
    const testing::Module module = testing::random_module(name, rows, columns, {.weights = weights}, 5);
    testing::add_module(tensors, module, WeightStorage::plain, "F32");
  };
  for (const auto& [name, rows, columns] :
       {std::tuple{"self_attn.q_proj", std::int64_t{c.q_width()}, c.hidden},
        {"self_attn.k_proj", kv, c.hidden},
        {"self_attn.v_proj", kv, c.hidden},
        {"self_attn.o_proj", c.hidden, c.q_width()},
        {"mlp.gate_proj", c.intermediate, c.hidden},
        {"mlp.up_proj", c.intermediate, c.hidden},
        {"mlp.down_proj", c.hidden, c.intermediate}})
    add(std::string("model.layers.1.") + name, rows, columns, kWeightsInt8);
  add("lm_head", c.vocab, c.hidden, kWeightsFp8);
  const std::string v = "model.layers.1.self_attn.v_proj";
  if (plain_v) {
    std::erase_if(tensors, [&](const auto& tensor) { return tensor.first.starts_with(v); });
    tensors[v + ".weight"] = {
        "BF16", {kv, c.hidden}, std::string(static_cast<std::size_t>(2 * kv * c.hidden), 0)};
  }
  testing::write_tensors(to, tensors);
  auto config = nlohmann::json::parse(std::ifstream(from / "config.json"));
  auto& quantization = config["quantization_config"];
  auto int4 = quantization["config_groups"]["group_0"];
  const auto by_row = [](const char* target, const char* format, const char* type) {
    return nlohmann::json{{"targets", {target}},
                          {"format", format},
                          {"weights", {{"num_bits", 8}, {"type", type}, {"strategy", "channel"}}}};
  };
  quantization["format"] = "mixed-precision";
  quantization["ignore"] = plain_v ? nlohmann::json{v} : nlohmann::json::array();
  quantization["config_groups"] = {{"group_0", int4},
                                   {"group_1", by_row("re:model.layers.1..*", "int-quantized", "int")},
                                   {"group_2", by_row("lm_head", "float-quantized", "float")}};
  std::ofstream(to / "config.json") << config;
  return to;
}

TEST(QuantizedWeights, EachMatrixCountsInItsOwnFormat) {
  const auto device = open_device("host");
  std::vector<fs::path> folders = {three_formats("three_formats"), three_formats("plain_v", true)};
  for (const char* name : kQuantizedGoldens) folders.push_back(folder_of(name));
  for (const fs::path& folder : folders) {
    SCOPED_TRACE(folder.string());
    const ModelConfig c = read_model(folder);
    const Weights w = load_weights(*device, c, DType::bf16, folder);
    EXPECT_EQ(weight_bytes(c, DType::bf16), bytes_by_format(w, c));
    const double embedding = static_cast<double>(w.embedding.bytes()), row = 2.0 * c.hidden;
    EXPECT_EQ(step_bytes(c, DType::bf16, 1, 1, {}),
              bytes_by_format(w, c) - embedding + row + KvCache::bytes(c, DType::bf16, {}, c.layers, 1, 1));
    EXPECT_EQ(memory_need(c, DType::bf16, {}, {.prompt_lengths = std::vector<std::int64_t>{1}}).weights,
              bytes_by_format(w, c));
  }
  const ModelConfig c = read_model(folders[0]);
  const Weights w = load_weights(*device, c, DType::bf16, folders[0]);
  EXPECT_EQ(w.layers[0].qkv.format.str(), "int4:group=32");
  EXPECT_EQ(w.layers[1].down.format.str(), "int8");
  EXPECT_EQ(w.lm_head.format.str(), "fp8");
  EXPECT_EQ(c.weights.str(), "int4:group=32") << "the first";
  const LayerFormats with_plain_v = read_model(folders[1]).formats_of(1);
  EXPECT_EQ(with_plain_v.qk.str(), "int8");
  EXPECT_EQ(with_plain_v.v.str(), "same") << "in 'ignore'";
  EXPECT_TRUE(c.has_mixed_formats());
  EXPECT_TRUE(read_model(folder_of("mixed")).has_mixed_formats()) << "a matrix in 16 bits";
  EXPECT_FALSE(read_model(folder_of("gptq")).has_mixed_formats());
}

TEST(QuantizedWeights, AModelInAnotherFormatForgetsTheMixture) {
  const ModelConfig mixed = read_model(folder_of("mixed"));
  EXPECT_EQ(in_format(mixed, mixed.weights).layer_formats, mixed.layer_formats);
  const ModelConfig one = in_format(mixed, parse_weight_format("int8"));
  EXPECT_FALSE(one.has_mixed_formats());
  EXPECT_EQ(one.weights.str(), "int8");
}

double rms(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

void expect_random_model(const std::string& where, const WeightFormat& format, DType dtype) {
  SCOPED_TRACE(format.str());
  const auto device = open_device(where);
  const ModelConfig config = wide(format);
  const Weights weights = random_weights(*device, config, dtype, 3);
  const auto prompts = random_prompts(2, std::vector{5, 20}, config.vocab, 7);
  PlanBook book(ops(), *device, {}), naive_book(ops(), *device, {.naive = true});
  ModelOptions options{.batch = 2, .capacity = 64, .max_steps = 4};
  Model naive(*device, config, weights, naive_book, options);
  for (const bool fused : {false, true}) {
    options.fuse = {fused, fused, fused, fused, false};
    Model model(*device, config, weights, book, options);
    const Agreement agreement = check_against(model, naive, prompts, 4);
    EXPECT_TRUE(agreement.ok()) << (fused ? "fused: " : "") << agreement.summary();
    EXPECT_FALSE(model.bad_logits());
    const double size = rms(model.logits());
    EXPECT_GT(size, 0.3);
    EXPECT_LT(size, 3);
  }
}

TEST(QuantizedWeights, RandomOnesKeepTheLogitsNearOne) {
  for (const WeightFormat& format : all_weight_formats()) expect_random_model("host", format, DType::fp32);
}
TEST(GpuQuantizedWeights, RandomOnesKeepTheLogitsNearOne) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  for (const WeightFormat& format : all_weight_formats())
    for (const DType dtype : {DType::bf16, DType::fp16}) expect_random_model("cuda:0", format, dtype);
}

TEST(QuantizedWeights, GroupsThatDoNotDivideAModelAreRefused) {
  const auto device = open_device("host");
  ModelConfig config = testing::tiny();
  config.weights = parse_weight_format("int4:group=32");
  EXPECT_THROW(random_weights(*device, config, DType::fp32, 3), InputError) << "48 columns";
  EXPECT_THROW(weight_bytes(config, DType::fp32), InputError);
}

TEST(QuantizedWeights, A16BitCheckpointIsQuantizedAsItIsLoaded) {
  const auto device = open_device("host");
  const fs::path folder = fs::path(TEST_DATA) / "golden" / "gqa";
  ModelConfig config = read_model(folder);
  const Golden golden = read_golden(folder / "golden.safetensors");
  double last = 0;
  for (const char* format : {"int8:group=32", "fp8", "nvfp4", "int4:group=32"}) {  // from the smallest error
    config.weights = parse_weight_format(format);
    const Weights weights = load_weights(*device, config, DType::fp32, folder);
    for (const LayerWeights& l : weights.layers)
      for (const Matrix* matrix : {&l.qkv, &l.o, &l.gate_up, &l.down})
        EXPECT_EQ(matrix->format, config.weights);
    EXPECT_FALSE(weights.lm_head.format.quantized());
    PlanBook book(ops(), *device, {});
    Model model(
        *device, config, weights, book,
        {.batch = static_cast<int>(golden.prompts.size()), .capacity = 80, .max_steps = golden.steps()});
    const double error = check_golden(model, golden).worst_row();
    EXPECT_GT(error, last) << format;
    EXPECT_LT(error, 0.5) << format;
    last = error;
  }
}

}  // namespace
}  // namespace warptune
