// GGUF files: models of each type against their goldens, and files that are refused with one sentence.
#include "harness/llama/gguf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <string_view>

#include "harness/core/error.h"
#include "harness/llama/decode_report.h"
#include "harness/llama/golden.h"
#include "harness/llama/model.h"
#include "harness/llama/model_problems.h"
#include "tests/files.h"
#include "tests/llama/small_models.h"
#include "tests/llama/super_blocks.h"
#include "tests/program.h"
#include "variants/table.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;
using testing::GoldenRun, testing::golden_run_name;

/// Folders of tests/data/gguf (scripts/make_gguf_golden.py).
constexpr const char* kGgufGoldens[] = {"llama_q4_0", "llama_q4_k", "llama_q5_k",   "qwen2_q8_0",
                                        "qwen3_f16",  "phi3_q4_0",  "smollm3_q4_0", "granite_q8_0"};

fs::path file_of(const std::string& name) { return fs::path(TEST_DATA) / "gguf" / name / "model.gguf"; }

void expect_golden(const std::string& name, const std::string& where, DType dtype, bool naive) {
  SCOPED_TRACE(name + (naive ? " naive" : ""));
  const auto device = open_device(where);
  const ModelConfig config = read_model(file_of(name));
  const Golden all = read_golden(file_of(name).parent_path() / "golden.safetensors");
  Golden last = all;  // one sequence, whose steps have one token
  last.prompts = {all.prompts.back()};
  last.tokens = {all.tokens.back()};
  last.logits.assign(all.logits.end() - static_cast<std::ptrdiff_t>(all.logits.size() / all.prompts.size()),
                     all.logits.end());
  const Weights weights = load_weights(*device, config, dtype, file_of(name));
  PlanBook book(ops(), *device, {.naive = naive});
  for (const Golden& golden : {all, last}) {
    Model model(*device, config, weights, book,
                {.batch = static_cast<int>(golden.prompts.size()),
                 .capacity = 64,
                 .positions = 30 + golden.steps(),  // LongRoPE has its short factors
                 .max_steps = golden.steps(),
                 .graph = !naive});
    const Agreement agreement = check_golden(model, golden);
    EXPECT_TRUE(agreement.ok()) << agreement.summary();
  }
}

class GgufGolden : public ::testing::TestWithParam<GoldenRun> {};
TEST_P(GgufGolden, AgreesOnTheHost) {
  const auto& [name, dtype] = GetParam();
  expect_golden(name, "host", dtype, true);
  expect_golden(name, "host", dtype, false);
}
INSTANTIATE_TEST_SUITE_P(Files, GgufGolden,
                         ::testing::Combine(::testing::ValuesIn(kGgufGoldens),
                                            ::testing::Values(DType::fp32, DType::bf16)),
                         golden_run_name);

class GgufGoldenGpu : public ::testing::TestWithParam<GoldenRun> {};
TEST_P(GgufGoldenGpu, AgreesOnTheGpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto& [name, dtype] = GetParam();
  for (const bool naive : {true, false}) expect_golden(name, "cuda:0", dtype, naive);
}
INSTANTIATE_TEST_SUITE_P(Files, GgufGoldenGpu,
                         ::testing::Combine(::testing::ValuesIn(kGgufGoldens),
                                            ::testing::Values(DType::fp16, DType::bf16)),
                         golden_run_name);

TEST(Gguf, MatricesThatKernelsTakeKeepTheirFormat) {
  const ModelConfig q4 = read_model(file_of("llama_q4_0"));
  EXPECT_EQ(q4.weights.str(), "int4:group=32");
  EXPECT_FALSE(q4.formats_of(0).has_v_apart());
  EXPECT_EQ(q4.formats_of(1).qk.str(), "int4:group=32");
  EXPECT_EQ(q4.formats_of(1).v.str(), "int8:group=32");
  EXPECT_FALSE(q4.formats_of(0).gate_up.quantized()) << "gate is Q4_0, up is F16";
  EXPECT_EQ(q4.formats_of(1).gate_up.str(), "int8:group=32") << "gate is Q4_0, up is Q8_0";
  EXPECT_EQ(q4.formats_of(1).down.str(), "int4:group=32");
  EXPECT_FALSE(q4.head_format.quantized());
  const ModelConfig q8 = read_model(file_of("qwen2_q8_0"));
  EXPECT_EQ(q8.weights.str(), "int8:group=32");
  EXPECT_EQ(q8.head_format.str(), "int8:group=32") << "the embedding, which is also the head";
  EXPECT_FALSE(read_model(file_of("qwen3_f16")).weights.quantized());
  const ModelConfig q4_k = read_model(file_of("llama_q4_k"));
  EXPECT_EQ(q4_k.formats_of(0).gate_up.str(), "q4_k");
  EXPECT_EQ(q4_k.formats_of(0).down.str(), "q6_k");
  EXPECT_EQ(q4_k.head_format.str(), "q6_k");
  EXPECT_EQ(q4_k.formats_of(0).qk.str(), "q4_k");
  EXPECT_EQ(q4_k.formats_of(0).v.str(), "q6_k");
  const ModelConfig q5_k = read_model(file_of("llama_q5_k"));
  EXPECT_EQ(q5_k.formats_of(0).qk.str(), "q4_k");
  EXPECT_EQ(q5_k.formats_of(0).v.str(), "q5_k") << "as in files of 70B in Q4_K_M";
  EXPECT_EQ(q5_k.formats_of(0).gate_up.str(), "q5_k") << "gate is Q4_K, up is Q5_K";
}

/// llama2-7b as a file of Q4_K_M: v and down of every second layer in Q6_K.
ModelConfig q4_k_m() {
  ModelConfig config = in_format(preset("llama2-7b"), parse_weight_format("q4_k"));
  for (int layer = 0; layer < config.layers; ++layer) {
    LayerFormats& formats = config.layer_formats.emplace_back(LayerFormats::all(config.weights));
    if (layer % 2 == 1) formats.v = formats.down = parse_weight_format("q6_k");
  }
  return config;
}

TEST(Gguf, AStepHasTheProblemsOfAllFormats) {
  const ModelConfig config = q4_k_m();
  EXPECT_EQ(config.layers_of_each_format(), (std::vector{0, 1}));
  std::map<std::string, int> launches;
  const std::vector<std::int64_t> contexts = {64};
  for (const Problem& p : decode_problems(ops(), config, DType::bf16, 1, contexts))
    if (p.op == "linear" && p["prologue"] == 0 && p["epilogue"] == 0)
      launches[std::to_string(p["in"]) + " to " + std::to_string(p["out"]) + " " +
               (p["weights"] == 0 ? "same" : p.dims.find("weights")->label)] = launches_of(config, p);
  const std::map<std::string, int> want = {{"4096 to 12288 q4_k", 32}, {"4096 to 8192 q4_k", 32},
                                           {"4096 to 4096 q6_k", 16},  {"4096 to 4096 q4_k", 32},
                                           {"4096 to 22016 q4_k", 32}, {"11008 to 4096 q4_k", 32},
                                           {"11008 to 4096 q6_k", 16}, {"4096 to 32000 same", 1}};
  EXPECT_EQ(launches, want) << "a layer counts where one of its matrices has the format";
}

TEST(Gguf, TheFormatOfTheFileLeavesMatricesAsTheyAre) {
  const ModelConfig config = q4_k_m();
  EXPECT_EQ(in_format(config, config.weights).layer_formats, config.layer_formats);
  EXPECT_TRUE(in_format(config, parse_weight_format("int4")).layer_formats.empty());
  EXPECT_LT(weight_bytes(in_format(preset("llama2-7b"), config.weights), DType::bf16),
            weight_bytes(config, DType::bf16));
}

TEST(Gguf, TheProblemOfTheHeadHasItsFormat) {
  const ModelConfig config = read_model(file_of("llama_q4_k"));
  for (const ModelConfig& c : {config, in_format(config, parse_weight_format("int8"))}) {
    const Problem head = ModelProblems(ops(), c, DType::bf16).lm_head(1, {.argmax = true});
    EXPECT_EQ(head.key(),
              "linear[tokens=1,in=256,out=64,bias=no,epilogue=argmax,weights=q6_k,group=16,dtype=bf16]");
  }
}

TEST(Gguf, GroupsHaveTheirSixBitScalesAndMinima) {
  std::byte block[kQ4KBytes] = {};
  // Groups 0 and 4; the high two bits of the latter are those of bytes 0 and 4.
  const int packed[12] = {0xc0 | 47, 0, 0, 0, 0x40 | 9, 0, 0, 0, 0x5a, 0, 0, 0};
  for (int i = 0; i < 12; ++i) block[4 + i] = static_cast<std::byte>(packed[i]);
  EXPECT_EQ(scale_and_minimum(block, 0).scale, 47);
  EXPECT_EQ(scale_and_minimum(block, 0).minimum, 9);
  EXPECT_EQ(scale_and_minimum(block, 4).scale, 0x3a);
  EXPECT_EQ(scale_and_minimum(block, 4).minimum, 0x15);
}

// Also a matrix of several parts, whose rows continue within eight.
TEST(Gguf, SuperBlocksArePackedExactly) {
  const auto layer_of = [](const char* name) { return layer_modules(read_model(file_of(name)), 0); };
  const std::tuple<const char*, Modules, const char*> matrices[] = {
      {"llama_q4_k", layer_of("llama_q4_k").gate_up, "q4_k"},
      {"llama_q4_k", layer_of("llama_q4_k").down, "q6_k"},
      {"llama_q4_k", head_module(read_model(file_of("llama_q4_k"))), "q6_k"},
      {"llama_q5_k", layer_of("llama_q5_k").gate_up, "q5_k"},
      {"llama_q5_k", layer_of("llama_q5_k").v, "q5_k"}};
  for (const auto& [file, matrix, format] : matrices) {
    const ModelConfig config = read_model(file_of(file));
    const Checkpoint checkpoint(file_of(file));
    const std::int64_t columns = matrix.columns.count;
    const auto packed = read_quantized(checkpoint, *config.quantization, matrix.parts, matrix.columns);
    ASSERT_TRUE(packed);
    EXPECT_EQ(packed->format.str(), format);
    std::int64_t first = 0;
    for (const auto& [name, rows] : matrix.parts) {
      const std::vector<float> want = expanded(checkpoint.tensor(name + ".weight", {rows.stored, columns}));
      for (std::int64_t row = 0; row < rows.count; ++row)
        for (std::int64_t i = 0; i < columns; ++i)
          ASSERT_EQ(testing::super_block_weight(*packed, columns, first + row, i).value,
                    want[static_cast<std::size_t>(row * columns + i)])
              << name << " " << row << " " << i;
      first += rows.count;
    }
  }
}

TEST(Gguf, BlocksOf32ValuesArePackedExactly) {
  for (const char* name : {"llama_q4_0", "qwen2_q8_0"}) {  // the latter has k and a down in Q5_0
    const ModelConfig config = read_model(file_of(name));
    const Checkpoint checkpoint(file_of(name));
    for (const auto& [parts, columns] :
         {layer_modules(config, 0).qk, layer_modules(config, 1).gate_up, layer_modules(config, 1).down}) {
      const auto packed = read_quantized(checkpoint, *config.quantization, parts, columns);
      ASSERT_TRUE(packed) << name;
      const int weights = packed->format.weights;
      std::int64_t row = 0;
      for (const auto& [module, rows] : parts) {
        const std::vector<float> want =
            expanded(checkpoint.tensor(module + ".weight", {rows.stored, columns.stored}));
        for (std::int64_t i = 0; i < rows.count * columns.count; ++i) {
          const std::int64_t r = row + i / columns.count, c = i % columns.count;
          const auto [at, shift] = packed_position(weights, columns.count, r, c);
          const auto byte = std::to_integer<std::uint8_t>(packed->weight[static_cast<std::size_t>(at)]);
          const int value = (weights == kWeightsInt4 ? byte >> shift & 15 : byte) - zero_point_of(weights);
          const double scale =
              load(DType::fp16, packed->scales.data(), scale_index(weights, 32, columns.count, r, c));
          ASSERT_EQ(static_cast<float>(value * scale), want[static_cast<std::size_t>(i)])
              << module << " " << i;
        }
        row += rows.count;
      }
    }
  }
}

/// Kernels in fp16 multiply a scale by 2^6.
TEST(Gguf, ScalesThatKernelsCannotTakeAreRefused) {
  constexpr std::uint16_t kEight = 0x4800, kSixteen = 0x4c00, k1024 = 0x6400, kInfinity = 0x7c00,
                          kMinus = 0x8000;
  struct Case {
    const char* name;
    Modules LayerModules::*matrix;
    std::size_t at;  // of the scale in a block
    std::uint16_t bits;
    const char* part;
  };
  const Case cases[] = {
      {"llama_q4_0", &LayerModules::qk, 0, k1024, "must be below 1024"},
      {"llama_q4_0", &LayerModules::qk, 0, k1024 | kMinus, "must be below 1024"},
      {"llama_q4_0", &LayerModules::qk, 0, kInfinity, "must be finite"},
      {"llama_q4_k", &LayerModules::gate_up, 0, kSixteen, "must be below 16"},
      {"llama_q4_k", &LayerModules::gate_up, 2, kSixteen, "must be below 16"},  // dmin
      {"llama_q4_k", &LayerModules::gate_up, 2, kInfinity, "must be below 16"},
      {"llama_q4_k", &LayerModules::down, 208, kEight, "must be below 8"},
  };
  const fs::path path = testing::fresh_folder("gguf_scale") / "model.gguf";
  for (const auto& [name, member, at, bits, part] : cases) {
    const ModelConfig config = read_model(file_of(name));
    const Modules matrix = layer_modules(config, 0).*member;
    const auto& [module, rows] = matrix.parts[0];
    const Checkpoint original(file_of(name));
    const auto data = original.tensor(module + ".weight", {rows.stored, matrix.columns.stored}).data;
    const std::string_view block(reinterpret_cast<const char*>(data.data()), data.size());
    std::string text = testing::text_of(file_of(name));
    const std::size_t begin = text.find(block);
    ASSERT_NE(begin, std::string::npos) << module;
    const auto refusal_with = [&](std::uint16_t scale) -> std::string {
      std::memcpy(text.data() + begin + at, &scale, sizeof scale);
      std::ofstream(path, std::ios::binary) << text;
      try {
        read_quantized(Checkpoint(path), *config.quantization, matrix.parts, matrix.columns);
        return "accepted";
      } catch (const InputError& e) {
        return e.what();
      }
    };
    EXPECT_NE(refusal_with(bits).find(part), std::string::npos) << name << " " << refusal_with(bits);
    if (bits == kInfinity) continue;
    EXPECT_EQ(refusal_with(static_cast<std::uint16_t>(bits - 1)), "accepted") << name;
  }
}

TEST(Gguf, WhatIsDequantizedIsNoted) {
  const auto host = open_device("host");
  const auto notes = [&](const char* name) {
    return load_weights(*host, read_model(file_of(name)), DType::bf16, file_of(name)).notes;
  };
  EXPECT_TRUE(notes("qwen2_q8_0").empty());
  EXPECT_TRUE(notes("qwen3_f16").empty());
  EXPECT_TRUE(notes("llama_q4_k").empty());
  ASSERT_EQ(notes("llama_q4_0").size(), 1u);
  EXPECT_NE(notes("llama_q4_0")[0].find("(1 of Q4_0) are dequantized to bf16"), std::string::npos)
      << notes("llama_q4_0")[0];
}

/// The bytes of a header, and of data after it.
struct Bytes {
  std::string text = "GGUF";
  template <class T>
  Bytes& number(T value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& name(const std::string& name) {
    number<std::uint64_t>(name.size()).text += name;
    return *this;
  }
  /// A tensor of one row.
  Bytes& tensor(std::uint64_t columns, std::uint32_t type, std::uint64_t offset, const char* called = "t") {
    return name(called)
        .number(std::uint32_t{2})
        .number(columns)
        .number(std::uint64_t{1})
        .number(type)
        .number(offset);
  }
};
Bytes header(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
  return Bytes().number(version).number(tensors).number(keys);
}

std::string refusal(const std::string& bytes) {
  const fs::path path = testing::fresh_folder("gguf_refusal") / "model.gguf";
  std::ofstream(path, std::ios::binary) << bytes;
  try {
    GgufFile file{path};
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Gguf, HostileFilesAreRefused) {
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
  const std::pair<std::string, const char*> cases[] = {
      {"", "no GGUF file"},
      {"PK\3\4 and so on", "no GGUF file"},
      {"GGUF", "truncated"},
      {header(0, 0, 1).text, "version 1"},
      {header(0, 0, 0x03000000).text, "little-endian"},
      {header(kHuge, 0).text, "truncated"},
      {header(0, kHuge).text, "truncated"},
      {header(0, 1).number(kHuge).text, "truncated"},
      {header(0, 1).name("k").number(std::uint32_t{77}).text, "type 77"},
      {header(0, 1).name("k").number(std::uint32_t{9}).number(std::uint32_t{9}).text, "type 9"},
      {header(0, 1).name("k").number(std::uint32_t{9}).number(std::uint32_t{8}).number(kHuge).text,
       "truncated"},
      {header(1, 0).tensor(32, 99, 0).text, "has the type 99; F32, F16, BF16, Q4_0"},
      {header(1, 0).tensor(33, 2, 0).text, "multiple of 32"},
      {header(1, 0).tensor(0, 0, 0).text, "impossible extent"},
      {header(1, 0).tensor(kHuge, 0, 0).text, "impossible extent"},
      {header(1, 0).tensor(32, 2, 7).text, "multiple of 32"},
      {header(1, 0).tensor(32, 2, 0).text, "ends beyond"},
      {header(2, 0).tensor(32, 0, 32, "b").tensor(32, 0, 0, "a").text + std::string(1000, '\0'),
       "tensors 'a' and 'b' overlap"},
      {header(1, 0).tensor(32, 2, kHuge - 31).text, "ends beyond"},
      {header(2, 0).tensor(8, 0, 0).tensor(8, 0, 0).text + std::string(128, '\0'), "twice"},
      {header(1, 0)
           .name("t")
           .number(std::uint32_t{1})
           .number(std::uint64_t{32})
           .number(std::uint32_t{2})
           .text,
       "vector of Q4_0"},
      {header(1, 1)
           .name("general.alignment")
           .number(std::uint32_t{4})
           .number(std::uint32_t{24})
           .tensor(8, 0, 0)
           .text,
       "power of two"},
  };
  for (const auto& [bytes, part] : cases)
    EXPECT_NE(refusal(bytes).find(part), std::string::npos) << part << ": " << refusal(bytes);
}

TEST(Gguf, OnlyTheTokenizerHasArrays) {
  Bytes bytes = header(0, 4);
  bytes.name("other").number(std::uint32_t{9}).number(std::uint32_t{0}).number(std::uint64_t{1}).text += 'x';
  bytes.name("tokenizer.ggml.tokens").number(std::uint32_t{9}).number(std::uint32_t{8});
  bytes.number(std::uint64_t{2}).name("a").name("b c");
  bytes.name("tokenizer.ggml.scores").number(std::uint32_t{9}).number(std::uint32_t{6});
  bytes.number(std::uint64_t{2}).number(0.0f).number(-1.5f);
  bytes.name("tokenizer.ggml.model").number(std::uint32_t{8}).name("llama");
  const fs::path path = testing::fresh_folder("gguf_tokenizer") / "model.gguf";
  std::ofstream(path, std::ios::binary) << bytes.text;
  const GgufFile file{path};
  EXPECT_TRUE(file.metadata().at("other").is_null());
  EXPECT_TRUE(file.metadata().at("tokenizer.ggml.tokens").is_null());
  const nlohmann::json expected = {{"tokenizer.ggml.tokens", {"a", "b c"}},
                                   {"tokenizer.ggml.scores", {0.0, -1.5}},
                                   {"tokenizer.ggml.model", "llama"}};
  EXPECT_EQ(file.tokenizer(), expected);
}

TEST(Gguf, EveryCutAndEveryFlippedHeaderByteIsReadOrRefused) {
  const std::string whole = testing::text_of(file_of("phi3_q4_0"));
  const fs::path path = testing::fresh_folder("gguf_cut") / "model.gguf";
  const auto read = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    try {
      read_model(path);
      return true;
    } catch (const InputError&) {
      return false;
    }
  };
  EXPECT_TRUE(read(whole));
  for (std::size_t size = 0; size < whole.size(); size += size < 4000 ? 41 : 1999)
    EXPECT_FALSE(read(whole.substr(0, size))) << size;
  for (std::size_t at = 0; at < 4000; at += 7) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x81);
    read(changed);
  }
}

TEST(Gguf, DecodesFromTheCommandLine) {
  const fs::path out = testing::fresh_folder("gguf_decode");
  const std::string decode = "decode --device host --steps 2 --out " + out.string() + " --model ";
  const auto run = testing::run_shell("{} " + decode + file_of("llama_q4_0").string() + " --prompt-len 4");
  EXPECT_EQ(run.code, 0) << run.text;
  const auto other = testing::run_shell("{} " + decode + file_of("llama_q4_k").string() +
                                        " --prompt-len 4 --weights int8:group=32");
  EXPECT_EQ(other.code, 2) << other.text;
  EXPECT_NE(other.text.find("are q4_k"), std::string::npos) << other.text;
  const auto text = testing::run_shell("{} " + decode + file_of("llama_q4_0").string() + " --prompt hello");
  EXPECT_EQ(text.code, 2);
  EXPECT_NE(text.text.find("'tokenizer.ggml.model' is null; gpt2 and llama can be read"), std::string::npos)
      << text.text;
  std::ofstream(out / "cut.gguf", std::ios::binary) << testing::text_of(file_of("llama_q4_0")).substr(0, 999);
  const auto cut = testing::run_shell("{} " + decode + (out / "cut.gguf").string() + " --prompt-len 4");
  EXPECT_EQ(cut.code, 2);
  EXPECT_NE(cut.text.find("truncated"), std::string::npos) << cut.text;
}

TEST(Gguf, ASweepTakesAFile) {
  const fs::path out = testing::fresh_folder("gguf_tune");
  fs::copy_file(file_of("llama_q4_0"), out / "model.gguf");
  std::ofstream(out / "s.yaml")
      << "device: host\ndtypes: fp32\nmax_configs: 1\nsampling: {min_samples: 6, max_time: 0.002}\nmodels:\n"
         "  - {model: model.gguf, context: 64, ops: [linear]}\n"
         "steps:\n  - {model: model.gguf, context: 64, candidates: 1}\n";
  const auto tuned = testing::run_shell("{} tune " + (out / "s.yaml").string() + " --out " + out.string());
  EXPECT_EQ(tuned.code, 0) << tuned.text;
  const std::string v = "linear[tokens=1,in=64,out=64,weights=int8,group=32,dtype=fp32]";
  EXPECT_NE(tuned.text.find(v), std::string::npos) << tuned.text;
  const auto decoded =
      testing::run_shell("{} decode --device host --dtype fp32 --steps 2 --prompt-len 4 --explain --out " +
                         out.string() + " --model " + (out / "model.gguf").string());
  EXPECT_EQ(decoded.code, 0) << decoded.text;
  EXPECT_NE(decoded.text.find(" plans tuned in the step"), std::string::npos) << decoded.text;
  EXPECT_NE(decoded.text.find("int4:group=32+mixed"), std::string::npos) << decoded.text;
}

}  // namespace
}  // namespace warptune
