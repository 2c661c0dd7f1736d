// Quantized matrices of small checkpoints have the values that were stored; wrong checkpoints are one
// sentence.
#include "harness/llama/quantized_matrix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "harness/core/error.h"
#include "tests/llama/quantized_checkpoint.h"
#include "tests/program.h"

namespace warptune {
namespace {

using testing::Module;
using testing::raw;
using testing::raw_floats;
using testing::RawTensors;

QuantizationConfig config_of(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  return read_quantization_config(JsonReader(json, "config.json"));
}

/// The config of a format.
QuantizationConfig config_of(WeightStorage storage, const testing::ModuleOptions& o) {
  const std::string group = std::to_string(o.group == 0 ? -1 : o.group),
                    bits = std::to_string(weight_bits(o.weights));
  if (storage == WeightStorage::gptq || storage == WeightStorage::gptq_v2)
    return config_of(R"({"quant_method": "gptq", "bits": )" + bits + R"(, "group_size": )" + group +
                     R"(, "checkpoint_format": ")" + (storage == WeightStorage::gptq ? "gptq" : "gptq_v2") +
                     "\"}");
  if (storage == WeightStorage::awq)
    return config_of(R"({"quant_method": "awq", "bits": 4, "group_size": )" + group + "}");
  if (storage == WeightStorage::modelopt)
    return config_of(R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})");
  if (storage == WeightStorage::fp4)
    return config_of(R"({"quant_method": "compressed-tensors", "format": ")" +
                     std::string(o.weights == kWeightsNvfp4 ? "nvfp4" : "mxfp4") +
                     R"(-pack-quantized", "config_groups": {"group_0": {"targets": ["Linear"], "weights": {)"
                     R"("num_bits": 4, "type": "float", "group_size": )" +
                     group + "}}}}");
  const bool fp8 = o.weights == kWeightsFp8;
  const std::string format = storage == WeightStorage::packed ? "pack" : fp8 ? "float" : "int";
  return config_of(R"({"quant_method": "compressed-tensors", "format": ")" + format +
                   R"(-quantized", "config_groups": {"group_0": {"targets": ["Linear"], "weights": {)"
                   R"("num_bits": )" +
                   bits + R"(, "type": ")" + (fp8 ? "float" : "int") + R"(", "strategy": ")" +
                   (o.group == 0 ? "channel" : "group") + R"(", "group_size": )" + group +
                   R"(, "symmetric": )" + (o.zeros ? "false" : "true") + "}}}}");
}

std::optional<QuantizedMatrix> read(const std::string& test, const RawTensors& tensors,
                                    const QuantizationConfig& config, const Parts& parts,
                                    std::int64_t columns) {
  const auto folder = testing::fresh_folder(test);
  testing::write_tensors(folder, tensors);
  return read_quantized(Checkpoint(folder), config, parts, columns);
}

template <class T>
T element(const std::vector<std::byte>& bytes, std::int64_t i) {
  T value;
  std::memcpy(&value, bytes.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

/// The element in row `row` and packed column `i`.
float dequantized(const QuantizedMatrix& m, std::int64_t columns, std::int64_t row, std::int64_t i) {
  const auto [byte, shift] = packed_position(m.format.weights, columns, row, i);
  const auto bits = std::to_integer<std::uint8_t>(m.weight[static_cast<std::size_t>(byte)]);
  const int group = m.format.group;
  const std::int64_t in_scales = scale_index(m.format.weights, group, columns, row, i);
  if (m.format.weights == kWeightsFp8) {
    fp8 value;
    value.bits = bits;
    return value * element<float>(m.scales, in_scales);
  }
  if (is_fp4(m.format.weights)) {
    const float row_scale = m.row_scales.empty() ? 1 : m.row_scales[static_cast<std::size_t>(row)];
    return fp4_value(bits >> shift & 15) *
           static_cast<float>(load(scale_dtype(m.format), m.scales.data(), in_scales)) * row_scale;
  }
  const float scale = group == 0 ? element<float>(m.scales, in_scales)
                                 : static_cast<float>(element<fp16>(m.scales, in_scales));
  if (m.format.weights == kWeightsInt8) return static_cast<float>(bits - zero_point_of(kWeightsInt8)) * scale;
  const int zero = m.zeros.empty() ? 8 : 8 + m.zeros[static_cast<std::size_t>(in_scales)];
  return static_cast<float>((bits >> shift & 15) - zero) * scale;
}

/// All bits beyond the edges are 0, all others as stored.
void expect_values(const QuantizedMatrix& m, const std::vector<Module>& modules, std::int64_t columns) {
  const std::int64_t in_row =
      packed_blocks_of_row(m.format.weights, columns) * block_columns(m.format.weights);
  std::int64_t rows = 0;
  for (const Module& module : modules) rows += module.rows;
  ASSERT_EQ(m.weight.size(), static_cast<std::size_t>(packed_bytes(m.format.weights, rows, columns)));
  std::int64_t row = 0, wrong = 0;
  for (const Module& module : modules)
    for (std::int64_t r = 0; r < module.rows; ++r, ++row)
      for (std::int64_t i = 0; i < columns; ++i) {
        const auto column = m.order.empty() ? i : m.order[static_cast<std::size_t>(i)];
        if (dequantized(m, columns, row, i) != module.value(r, column) && ++wrong < 5)
          ADD_FAILURE() << module.name << " [" << r << ", " << column
                        << "] = " << dequantized(m, columns, row, i) << ", not " << module.value(r, column);
      }
  EXPECT_EQ(wrong, 0);
  std::int64_t not_zero = 0;
  for (row = 0; row < (rows + 7) / 8 * 8; ++row)
    for (std::int64_t i = row < rows ? columns : 0; i < in_row; ++i) {
      const auto [byte, shift] = packed_position(m.format.weights, columns, row, i);
      const int bits = std::to_integer<int>(m.weight[static_cast<std::size_t>(byte)]) >> shift;
      not_zero += (bits & ((1 << weight_bits(m.format.weights)) - 1)) != 0;
    }
  EXPECT_EQ(not_zero, 0) << "beyond the edges";
}

struct Format {
  const char* name;
  WeightStorage storage;
  testing::ModuleOptions options;
};
void PrintTo(const Format& format, std::ostream* out) { *out << format.name; }

class QuantizedFormat : public ::testing::TestWithParam<Format> {
 protected:
  /// Stores and reads q, k and v of 24, 8 and 8 rows, and checks the values.
  QuantizedMatrix expect_read(std::int64_t columns, const std::string& scale_dtype,
                              std::vector<std::int64_t> rows = {24, 8, 8}) {
    const auto& [name, storage, options] = GetParam();
    std::vector<Module> modules;
    RawTensors tensors;
    Parts parts;
    for (const std::int64_t n : rows) {
      const auto id = std::to_string(parts.size());
      modules.push_back(testing::random_module("model.layers.0." + id, n, columns, options,
                                               static_cast<unsigned>(parts.size() + 1)));
      testing::add_module(tensors, modules.back(), storage, scale_dtype);
      parts.emplace_back(modules.back().name, n);
    }
    auto matrix = read(name, tensors, config_of(storage, options), parts, columns);
    if (!matrix) throw std::runtime_error("in 16 bits");
    EXPECT_EQ(matrix->format, (WeightFormat{.weights = options.weights,
                                            .group = static_cast<int>(options.group),
                                            .zeros = options.zeros,
                                            .act_order = options.act_order}));
    EXPECT_EQ(matrix->zeros.empty(), !options.zeros);
    EXPECT_EQ(matrix->order.empty(), !options.act_order);
    EXPECT_TRUE(matrix->notes.empty());
    expect_values(*matrix, modules, columns);
    return std::move(*matrix);
  }
};

TEST_P(QuantizedFormat, FusedPartsHaveTheStoredValues) {
  for (const char* const scale_dtype : {"F16", "BF16", "F32"}) expect_read(384, scale_dtype);
}

TEST_P(QuantizedFormat, AMatrixMayEndInTheMiddleOfABlock) {
  if (GetParam().options.group == 16) expect_read(176, "F16", {40});
  if (GetParam().options.group <= 64) expect_read(320, "F16", {40});
  if (GetParam().options.group == 0) expect_read(72, "F16", {8, 72});
}

TEST_P(QuantizedFormat, RowsOfAPartNeedNotFillABlock) {
  const WeightStorage storage = GetParam().storage;
  if (storage == WeightStorage::gptq || storage == WeightStorage::gptq_v2 || storage == WeightStorage::awq)
    return;  // words of several rows
  expect_read(256, "F32", {3, 5, 37});
}

constexpr testing::ModuleOptions int4(std::int64_t group, bool zeros = false, bool act_order = false) {
  return {.weights = kWeightsInt4, .group = group, .zeros = zeros, .act_order = act_order};
}
constexpr testing::ModuleOptions int8(std::int64_t group, bool act_order = false) {
  return {.weights = kWeightsInt8, .group = group, .act_order = act_order};
}

constexpr testing::ModuleOptions kNvfp4{.weights = kWeightsNvfp4, .group = 16},
    kMxfp4{.weights = kWeightsMxfp4, .group = 32};

INSTANTIATE_TEST_SUITE_P(
    Formats, QuantizedFormat,
    ::testing::Values(Format{"gptq_row", WeightStorage::gptq, int4(0)},
                      Format{"gptq_row_zeros", WeightStorage::gptq, int4(0, true)},
                      Format{"gptq_32", WeightStorage::gptq, int4(32)},
                      Format{"gptq_64_zeros", WeightStorage::gptq, int4(64, true)},
                      Format{"gptq_128", WeightStorage::gptq, int4(128)},
                      Format{"gptq_act_order", WeightStorage::gptq, int4(32, false, true)},
                      Format{"gptq_act_order_zeros", WeightStorage::gptq, int4(64, true, true)},
                      Format{"gptq_v2_zeros", WeightStorage::gptq_v2, int4(64, true)},
                      Format{"gptq_8bit", WeightStorage::gptq, int8(64)},
                      Format{"gptq_8bit_row", WeightStorage::gptq_v2, int8(0)},
                      Format{"gptq_8bit_act_order", WeightStorage::gptq, int8(64, true)},
                      Format{"awq_32", WeightStorage::awq, int4(32, true)},
                      Format{"awq_128", WeightStorage::awq, int4(128, true)},
                      Format{"awq_row_symmetric", WeightStorage::awq, int4(0)},
                      Format{"packed_row", WeightStorage::packed, int4(0)},
                      Format{"packed_row_zeros", WeightStorage::packed, int4(0, true)},
                      Format{"packed_32", WeightStorage::packed, int4(32)},
                      Format{"packed_64_zeros", WeightStorage::packed, int4(64, true)},
                      Format{"packed_128_act_order", WeightStorage::packed, int4(128, false, true)},
                      Format{"packed_8bit", WeightStorage::packed, int8(128)},
                      Format{"packed_8bit_row", WeightStorage::packed, int8(0)},
                      Format{"packed_8bit_act_order", WeightStorage::packed, int8(32, true)},
                      Format{"int8_row", WeightStorage::plain, int8(0)},
                      Format{"int8_64", WeightStorage::plain, int8(64)},
                      Format{"fp8_row", WeightStorage::plain, {.weights = kWeightsFp8}},
                      Format{"nvfp4", WeightStorage::fp4, kNvfp4},
                      Format{"modelopt_nvfp4", WeightStorage::modelopt, kNvfp4},
                      Format{"mxfp4", WeightStorage::fp4, kMxfp4}),
    [](const auto& run) { return run.param.name; });

const std::string kQ = "model.layers.3.self_attn.q_proj", kK = "model.layers.3.self_attn.k_proj";

TEST(QuantizedMatrix, AScaleOfTheWholeMatrixIsThatOfEachRow) {
  const auto config = config_of(R"({"quant_method": "fp8", "activation_scheme": "static"})");
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{}, {1}, {1, 1}}) {
    RawTensors tensors;
    std::vector<Module> modules;
    for (const std::string& name : {kQ, kK}) {
      Module m = testing::random_module(name, 16, 64, {.weights = kWeightsFp8}, 1);
      std::ranges::fill(m.scales, name == kQ ? 0.3f : 0.7f);
      testing::add_module(tensors, m, WeightStorage::plain, "F32");
      tensors[name + ".weight_scale"] = raw_floats("F32", shape, {m.scales[0]});
      tensors[name + ".input_scale"] = raw_floats("F32", {}, {1});
      modules.push_back(m);
    }
    const auto matrix = read("scalar", tensors, config, {{kQ, 16}, {kK, 16}}, 64);
    ASSERT_TRUE(matrix);
    EXPECT_EQ(matrix->scales.size(), 32 * sizeof(float));
    expect_values(*matrix, modules, 64);
  }
}

/// A module of blocks of 128 x 128, whose tensors it adds.
Module add_blocks(RawTensors& tensors, const std::string& name, std::int64_t rows, std::int64_t columns,
                  const std::string& suffix, unsigned seed) {
  Module m = testing::random_module(name, rows, columns, {.weights = kWeightsFp8, .group = 128}, seed);
  std::vector<float> scales;
  for (std::int64_t i = 0; i < (rows + 127) / 128 * m.groups(); ++i)
    scales.push_back(static_cast<float>(seed) + static_cast<float>(i) / 3);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t g = 0; g < m.groups(); ++g)
      m.scales[static_cast<std::size_t>(r * m.groups() + g)] =
          scales[static_cast<std::size_t>(r / 128 * m.groups() + g)];
  testing::add_module(tensors, m, WeightStorage::plain);
  tensors.erase(name + ".weight_scale");
  tensors[name + "." + suffix] = raw_floats("F32", {(rows + 127) / 128, m.groups()}, scales);
  return m;
}

const char* const kBlockConfig = R"({"quant_method": "fp8", "weight_block_size": [128, 128]})";

TEST(QuantizedMatrix, BlocksOfFp8HaveTheirScales) {
  RawTensors tensors;
  const std::vector<Module> modules = {add_blocks(tensors, kQ, 256, 384, "weight_scale_inv", 1),
                                       add_blocks(tensors, kK, 40, 384, "weight_scale_inv", 2)};
  const Parts parts = {{kQ, 256}, {kK, 40}};
  const auto matrix = read("blocks", tensors, config_of(kBlockConfig), parts, 384);
  ASSERT_TRUE(matrix);
  EXPECT_EQ(matrix->format, (WeightFormat{.weights = kWeightsFp8, .group = 128}));
  EXPECT_EQ(matrix->scales.size(), 3 * 3 * sizeof(float));
  expect_values(*matrix, modules, 384);
}

TEST(QuantizedMatrix, BlocksOfCompressedTensorsAreThoseOfFp8) {
  RawTensors tensors;
  const std::vector<Module> modules = {add_blocks(tensors, kQ, 136, 128, "weight_scale", 1)};
  const auto config = config_of(
      R"({"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"g": {)"
      R"("targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "block",)"
      R"("block_structure": [128, 128]}}}})");
  const auto matrix = read("ct_blocks", tensors, config, {{kQ, 136}}, 128);
  ASSERT_TRUE(matrix);
  expect_values(*matrix, modules, 128);
}

TEST(QuantizedMatrix, UnquantizedModulesAreNone) {
  RawTensors tensors;
  testing::add_module(tensors, testing::random_module(kQ, 8, 64, int4(64), 1), WeightStorage::gptq);
  tensors[kK + ".weight"] = raw_floats("BF16", {8, 64}, std::vector<float>(512));
  const std::string gptq = R"({"quant_method": "gptq", "bits": 4, "group_size": 64)";
  EXPECT_TRUE(read("none", tensors, config_of(gptq + "}"), {{kQ, 8}}, 64));
  EXPECT_FALSE(read("none", tensors, config_of(gptq + "}"), {{kK, 8}}, 64)) << "it has a float weight";
  EXPECT_FALSE(
      read("none", tensors, config_of(gptq + R"(, "modules_to_not_convert": ["q_proj"]})"), {{kQ, 8}}, 64));
}

TEST(QuantizedMatrix, UnsetGroupsOfColumnsHaveNoMeaning) {
  RawTensors tensors;
  const Module m = testing::random_module(kQ, 8, 64, int4(32), 1);
  testing::add_module(tensors, m, WeightStorage::packed);
  tensors[kQ + ".weight_g_idx"] = raw("I32", {64}, std::vector<std::int32_t>(64, -1));
  const auto matrix = read("unset", tensors, config_of(WeightStorage::packed, int4(32)), {{kQ, 8}}, 64);
  ASSERT_TRUE(matrix);
  expect_values(*matrix, {m}, 64);
}

TEST(QuantizedMatrix, ScalesThatFp16DoesNotHoldAreRoundedWithANote) {
  RawTensors tensors;
  const Module m = testing::random_module(kQ, 8, 64, int4(32), 1);
  testing::add_module(tensors, m, WeightStorage::packed);
  std::vector<float> scales = m.scales;
  scales[3] = 0.1f;  // row 1, group 1
  scales[4] = 0;     // row 2, group 0: all its weights are 0
  tensors[kQ + ".weight_scale"] = raw_floats("F32", {8, 2}, scales);
  const auto matrix = read("rounded", tensors, config_of(WeightStorage::packed, int4(32)), {{kQ, 8}}, 64);
  ASSERT_TRUE(matrix);
  EXPECT_EQ(matrix->notes,
            std::vector<std::string>{"tensor '" + kQ + ".weight_scale': 1 of 16 scales are rounded to fp16"});
  EXPECT_EQ(element<fp16>(matrix->scales, scale_index(kWeightsInt4, 32, 64, 1, 32)), static_cast<fp16>(0.1f));
  EXPECT_EQ(element<fp16>(matrix->scales, scale_index(kWeightsInt4, 32, 64, 2, 0)), static_cast<fp16>(0.0f));
}

/// q and k of 16 rows and 64 columns in one format, before something is made wrong.
struct Wrong {
  const char* name;
  WeightStorage storage;
  testing::ModuleOptions options;
  std::function<void(RawTensors&)> change;
  const char* part;  // of the message
};

std::function<void(RawTensors&)> without(const std::string& tensor) {
  return [=](RawTensors& tensors) { tensors.erase(kQ + tensor); };
}
std::function<void(RawTensors&)> with(const std::string& tensor, const testing::RawTensor& value) {
  return [=](RawTensors& tensors) { tensors[kQ + tensor] = value; };
}
std::function<void(RawTensors&)> with_scale(const std::string& tensor, const std::string& dtype,
                                            float value) {
  return [=](RawTensors& tensors) {
    testing::RawTensor& scales = tensors.at(kQ + tensor);
    const auto count = scales.shape[0] * scales.shape[1];
    std::vector<float> values(static_cast<std::size_t>(count), 0.5f);
    values[5] = value;
    scales = raw_floats(dtype, scales.shape, values);
  };
}
std::function<void(RawTensors&)> with_group(std::int32_t value) {
  return [=](RawTensors& tensors) {
    std::memcpy(tensors.at(kQ + ".g_idx").bytes.data() + 8, &value, sizeof value);
  };
}

/// q_proj of GPTQ in 16 bits.
void unquantized(RawTensors& tensors) {
  for (const char* const suffix : {".qweight", ".scales", ".qzeros", ".g_idx"}) tensors.erase(kQ + suffix);
  tensors[kQ + ".weight"] = raw_floats("F16", {16, 64}, std::vector<float>(1024));
}

class WrongCheckpoint : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongCheckpoint, IsOneSentence) {
  const Wrong& wrong = GetParam();
  RawTensors tensors;
  for (const std::string& name : {kQ, kK})
    testing::add_module(tensors, testing::random_module(name, 16, 64, wrong.options, 1), wrong.storage);
  const auto config = config_of(wrong.storage, wrong.options);
  const Parts parts = {{kQ, 16}, {kK, 16}};
  EXPECT_TRUE(read(wrong.name, tensors, config, parts, 64)) << "before the change";
  wrong.change(tensors);
  try {
    read(wrong.name, tensors, config, parts, 64);
    FAIL() << "no error that says '" << wrong.part << "'";
  } catch (const InputError& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find(wrong.part), std::string::npos) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    EXPECT_NE(what.find(kQ), std::string::npos) << what;
  }
}

const float kNan = std::numeric_limits<float>::quiet_NaN();
const auto kGptq = WeightStorage::gptq, kPacked = WeightStorage::packed, kPlain = WeightStorage::plain,
           kFp4 = WeightStorage::fp4, kModelopt = WeightStorage::modelopt;

INSTANTIATE_TEST_SUITE_P(
    Table, WrongCheckpoint,
    ::testing::Values(
        Wrong{"no_qweight", kGptq, int4(32), without(".qweight"), "q_proj.qweight' is missing"},
        Wrong{"no_qzeros", kGptq, int4(32), without(".qzeros"), "q_proj.qzeros' is missing"},
        Wrong{"no_scales", kGptq, int4(32), without(".scales"), "q_proj.scales' is missing"},
        Wrong{"float_beside_row_scales", kGptq, int4(0), unquantized,
              "q_proj' is 16-bit and 'model.layers.3.self_attn.k_proj' is int4 with a scale per row; the two"},
        Wrong{"float_beside_quantized", kGptq, int4(32), unquantized,
              "q_proj' is 16-bit and 'model.layers.3.self_attn.k_proj' is int4 with groups of 32; the two are "
              "one matrix here"},
        Wrong{"qweight_shape", kGptq, int4(32),
              with(".qweight", raw("I32", {16, 8}, std::vector<int>(128))),
              "has shape [16, 8]; the config wants [8, 16]"},
        Wrong{"qweight_dtype", kGptq, int4(32), with(".qweight", raw("F32", {8, 16}, std::vector<int>(128))),
              "is stored as F32; I32 can be read"},
        Wrong{"qzeros_shape", kGptq, int4(32), with(".qzeros", raw("I32", {2, 1}, std::vector<int>(2))),
              "has shape [2, 1]; the config wants [2, 2]"},
        Wrong{"scales_dtype", kGptq, int4(32), with(".scales", raw("I32", {2, 16}, std::vector<int>(32))),
              "is stored as I32; F16, BF16, F32 can be read"},
        Wrong{"scale_nan", kGptq, int4(32), with_scale(".scales", "F16", kNan), "has the scale nan"},
        Wrong{"scale_infinite", kGptq, int4(32),
              with_scale(".scales", "F16", std::numeric_limits<float>::infinity()), "has the scale inf"},
        Wrong{"row_scale_nan", kPlain, int8(0), with_scale(".weight_scale", "BF16", kNan),
              "has the scale nan"},
        Wrong{"scale_too_large", kPacked, int4(32), with_scale(".weight_scale", "BF16", 1e6f),
              "scales of groups must be below 1024"},
        Wrong{"scale_too_small", kPacked, int4(32), with_scale(".weight_scale", "F32", 1e-9f),
              "which is 0 in fp16"},
        Wrong{"group_negative", kGptq, int4(32), with_group(-1), "has the group -1; groups are 0 to 1"},
        Wrong{"group_beyond", kGptq, int4(32), with_group(2), "has the group 2; groups are 0 to 1"},
        Wrong{"group_of_another_size", kGptq, int4(32), with_group(1),
              "has more than 32 columns in group 1; each must have 32"},
        Wrong{"group_dtype", kGptq, int4(32), with(".g_idx", raw("F32", {64}, std::vector<int>(64))),
              "is stored as F32"},
        Wrong{"group_shape", kGptq, int4(32), with(".g_idx", raw("I32", {32}, std::vector<int>(32))),
              "has shape [32]"},
        Wrong{"other_order", kGptq, int4(32),
              [](RawTensors& tensors) {
                auto g_idx = testing::random_module(kQ, 16, 64, int4(32, false, true), 1).g_idx;
                tensors[kQ + ".g_idx"] = raw("I32", {64}, g_idx);
              },
              "have their columns in different orders"},
        Wrong{"eight_bits_with_zeros", kGptq, int8(32),
              with(".qzeros", raw("I32", {2, 4}, std::vector<int>(8, 0x7f7f7f70))),
              "has the zero point 113; weights of 8 bits are read where all are 128"},
        Wrong{"no_weight_shape", kPacked, int4(32), without(".weight_shape"), "weight_shape' is missing"},
        Wrong{"other_weight_shape", kPacked, int4(32),
              with(".weight_shape", raw("I64", {2}, std::vector<std::int64_t>{16, 1ll << 40})),
              "is [16, 1099511627776]; the config wants [16, 64]"},
        Wrong{"no_zero_point", kPacked, int4(32, true), without(".weight_zero_point"),
              "weight_zero_point' is missing"},
        Wrong{"zero_point_shape", kPacked, int4(32, true),
              with(".weight_zero_point", raw("I32", {16, 2}, std::vector<int>(32))), "has shape [16, 2]"},
        Wrong{"scale_shape", kPlain, int8(0), with(".weight_scale", raw_floats("F32", {8, 1}, {1, 2, 3, 4, 5, 6, 7, 8})),
              "has shape [8, 1]; the config wants [16, 1]"},
        Wrong{"scale_rank", kPlain, int8(0), with(".weight_scale", raw_floats("F32", {1, 1, 16}, std::vector<float>(16))),
              "has shape [1, 1, 16]"},
        Wrong{"no_scale", kPlain, int8(0), without(".weight_scale"), "q_proj.weight_scale' is missing"},
        Wrong{"no_scale_of_fp8", kPlain, {.weights = kWeightsFp8}, without(".weight_scale"),
              "tensor 'model.layers.3.self_attn.q_proj.weight_scale_inv' or "
              "'model.layers.3.self_attn.q_proj.weight_scale' is missing"},
        Wrong{"no_weight", kPlain, int8(0), without(".weight"), "q_proj.weight' is missing"},
        Wrong{"weight_dtype", kPlain, int8(0),
              with(".weight", raw("F8_E4M3", {16, 64}, std::vector<char>(1024))),
              "is stored as F8_E4M3; I8 can be read"},
        Wrong{"scaled_float", kPlain, int8(0), with(".weight", raw_floats("F16", {16, 64}, std::vector<float>(1024))),
              "is stored as F16; I8 can be read"},
        Wrong{"nan", kPlain, {.weights = kWeightsFp8},
              with(".weight", raw("F8_E4M3", {16, 64}, std::vector<std::uint8_t>(1024, 0xff))),
              "q_proj.weight' has a NaN"},
        Wrong{"no_nvfp4_weight", kFp4, kNvfp4, without(".weight_packed"), "q_proj.weight_packed' is missing"},
        Wrong{"nvfp4_weight_shape", kFp4, kNvfp4, with(".weight_packed", raw("U8", {16, 64}, std::vector<char>(1024))),
              "has shape [16, 64]; the config wants [16, 32]"},
        Wrong{"nvfp4_weight_dtype", kFp4, kNvfp4, with(".weight_packed", raw("I8", {16, 32}, std::vector<char>(512))),
              "is stored as I8; U8 can be read"},
        Wrong{"no_nvfp4_scale", kFp4, kNvfp4, without(".weight_scale"), "q_proj.weight_scale' is missing"},
        Wrong{"nvfp4_scale_shape", kFp4, kNvfp4, with(".weight_scale", raw("F8_E4M3", {16, 2}, std::vector<char>(32))),
              "has shape [16, 2]; the config wants [16, 4]"},
        Wrong{"nvfp4_scale_dtype", kFp4, kNvfp4, with(".weight_scale", raw("U8", {16, 4}, std::vector<char>(64))),
              "is stored as U8; F8_E4M3 can be read"},
        Wrong{"nvfp4_scale_nan", kFp4, kNvfp4,
              with(".weight_scale", raw("F8_E4M3", {16, 4}, std::vector<std::uint8_t>(64, 0x7f))),
              "has the scale nan; scales must be finite and not negative"},
        Wrong{"nvfp4_scale_negative", kModelopt, kNvfp4,
              with(".weight_scale", raw("F8_E4M3", {16, 4}, std::vector<std::uint8_t>(64, 0xb8))),
              "has the scale -1; scales must be finite and not negative"},
        Wrong{"no_global_scale", kFp4, kNvfp4, without(".weight_global_scale"), "weight_global_scale' is missing"},
        Wrong{"global_scale_zero", kFp4, kNvfp4, with(".weight_global_scale", raw_floats("F32", {1}, {0})),
              "weight_global_scale' is 0; it must be finite and more than 0"},
        Wrong{"global_scale_nan", kFp4, kNvfp4, with(".weight_global_scale", raw_floats("F32", {}, {kNan})),
              "weight_global_scale' is nan"},
        Wrong{"global_scale_negative", kModelopt, kNvfp4, with(".weight_scale_2", raw_floats("F32", {}, {-1})),
              "weight_scale_2' is -1"},
        Wrong{"global_scale_infinite", kModelopt, kNvfp4,
              with(".weight_scale_2", raw_floats("F32", {}, {std::numeric_limits<float>::infinity()})),
              "weight_scale_2' is inf"},
        Wrong{"global_scale_of_a_tiny_inverse", kFp4, kNvfp4,
              with(".weight_global_scale", raw_floats("F32", {1}, {3e38f})), "weight_global_scale' is 3e+38"},
        Wrong{"global_scale_dtype", kModelopt, kNvfp4, with(".weight_scale_2", raw_floats("F16", {}, {1})),
              "is stored as F16; F32 can be read"},
        Wrong{"global_scale_shape", kModelopt, kNvfp4, with(".weight_scale_2", raw_floats("F32", {2}, {1, 1})),
              "has shape [2]; the config wants [1]"},
        Wrong{"mxfp4_scale_nan", kFp4, kMxfp4,
              with(".weight_scale", raw("U8", {16, 2}, std::vector<std::uint8_t>(32, 0xff))), "has the scale nan"},
        Wrong{"mxfp4_scale_dtype", kFp4, kMxfp4, with(".weight_scale", raw_floats("F16", {16, 2}, std::vector<float>(32))),
              "is stored as F16; U8 can be read"}),
    [](const auto& run) { return run.param.name; });

void expect_error(const RawTensors& tensors, const QuantizationConfig& config, const Parts& parts,
                  std::int64_t columns, const std::string& part) {
  try {
    read("wrong", tensors, config, parts, columns);
    FAIL() << "no error that says '" << part << "'";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

TEST(QuantizedMatrix, ExtentsThatDoNotFitAreOneSentence) {
  const auto config = config_of(WeightStorage::gptq, int4(128));
  expect_error({}, config, {{kQ, 16}}, 192,
               "'model.layers.3.self_attn.q_proj' has 192 columns; it must be a multiple of its group, 128");
  expect_error({}, config, {{kQ, 12}}, 128, "has 12 rows; it must be a multiple of 8");
  expect_error({}, config_of(WeightStorage::packed, int4(0)), {{kQ, 16}}, 68,
               "has 68 columns; it must be a multiple of 8");
  expect_error({}, config_of(WeightStorage::packed, int4(0)), {{kQ, 16}}, 64, "is missing");
  expect_error({}, config_of(WeightStorage::modelopt, kNvfp4), {{kQ, 16}}, 72, "a multiple of its group, 16");
  RawTensors blocks;
  add_blocks(blocks, kQ, 16, 128, "weight_scale", 1024);
  expect_error(blocks, config_of(kBlockConfig), {{kQ, 16}}, 128,
               "has the scale 1024; scales of blocks must be below 1024");
  expect_error({}, config_of(WeightStorage::fp4, kMxfp4), {{kQ, 16}}, 80, "a multiple of its group, 32");
  RawTensors tensors;
  add_blocks(tensors, kQ, 136, 128, "weight_scale_inv", 1);
  add_blocks(tensors, kK, 128, 128, "weight_scale_inv", 2);
  expect_error(tensors, config_of(kBlockConfig), {{kQ, 136}, {kK, 128}}, 128,
               "so it must be a multiple of 128");
}

TEST(QuantizedMatrix, TruncatedFilesAreOneSentence) {
  const auto folder = testing::fresh_folder("truncated");
  RawTensors tensors;
  testing::add_module(tensors, testing::random_module(kQ, 16, 64, int4(32), 1), WeightStorage::gptq);
  testing::write_tensors(folder, tensors);
  std::filesystem::resize_file(folder / "model.safetensors",
                               std::filesystem::file_size(folder / "model.safetensors") - 1);
  EXPECT_THROW(Checkpoint{folder}, InputError);
}

}  // namespace
}  // namespace warptune
