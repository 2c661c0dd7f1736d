#pragma once
// Small quantized checkpoints with known values, stored in each format.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "harness/core/dtype.h"
#include "harness/llama/quantization_config.h"

namespace warptune::testing {

struct RawTensor {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
};
using RawTensors = std::map<std::string, RawTensor>;

template <class T>
RawTensor raw(const std::string& dtype, std::vector<std::int64_t> shape, const std::vector<T>& values) {
  return {dtype, std::move(shape),
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T))};
}

/// Floats as F16, BF16 or F32.
inline RawTensor raw_floats(const std::string& dtype, std::vector<std::int64_t> shape,
                            const std::vector<float>& values) {
  if (dtype == "F32") return raw(dtype, std::move(shape), values);
  if (dtype == "F16") return raw(dtype, std::move(shape), std::vector<fp16>(values.begin(), values.end()));
  return raw(dtype, std::move(shape), std::vector<bf16>(values.begin(), values.end()));
}

inline void write_tensors(const std::filesystem::path& folder, const RawTensors& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  std::ofstream file(folder / "model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << text << data;
}

/// A module as its tensors should be read.
struct Module {
  std::string name;
  std::int64_t rows, columns, group;  // group: columns that share a scale
  int weights;                        // a value of dim `weights`
  std::vector<int> stored;            // [rows, columns]: unsigned integers, or the bits of fp8
  std::vector<int> zeros;             // [rows, groups]
  std::vector<float> scales;          // [rows, groups]
  std::vector<std::int32_t> g_idx;    // [columns]
  float global_scale = 1;             // of nvfp4

  std::int64_t groups() const { return columns / group; }
  std::size_t in_group(std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>(row * groups() + g_idx[static_cast<std::size_t>(column)]);
  }
  int at(std::int64_t row, std::int64_t column) const {
    return stored[static_cast<std::size_t>(row * columns + column)];
  }
  float value(std::int64_t row, std::int64_t column) const {
    const int bits = at(row, column);
    const float scale = scales[in_group(row, column)];
    if (is_fp4(weights)) return fp4_value(bits) * scale * global_scale;
    if (weights != kWeightsFp8) return static_cast<float>(bits - zeros[in_group(row, column)]) * scale;
    fp8 value;
    value.bits = static_cast<std::uint8_t>(bits);
    return value * scale;
  }
};

struct ModuleOptions {
  int weights = kWeightsInt4;
  std::int64_t group = 0;  // 0: the whole row
  bool zeros = false, act_order = false;
};

/// `seed` of the values; the order of the columns has one of its own, as modules of one matrix share it.
inline Module random_module(const std::string& name, std::int64_t rows, std::int64_t columns,
                            const ModuleOptions& options, unsigned seed) {
  std::mt19937 random(seed);
  const int middle = weight_bits(options.weights) == 4 ? 8 : 128;
  Module m{name, rows, columns, options.group == 0 ? columns : options.group, options.weights};
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const auto bits = static_cast<int>(random() % static_cast<unsigned>(2 * middle));
    m.stored.push_back(options.weights == kWeightsFp8 && bits % 128 == 127 ? bits - 1 : bits);  // no NaN
  }
  for (std::int64_t i = 0; i < rows * m.groups(); ++i) {
    m.zeros.push_back(options.zeros ? 1 + static_cast<int>(random() % 15) : middle);
    m.scales.push_back(static_cast<float>(1 + random() % 200) / 1024);  // exact in 16 bits
    if (options.weights == kWeightsNvfp4) m.scales.back() = ue4m3(m.scales.back());
    if (options.weights == kWeightsMxfp4) m.scales.back() = ue8m0(m.scales.back());
  }
  if (options.weights == kWeightsNvfp4) m.global_scale = std::exp2(static_cast<float>(seed) - 4);
  for (std::int64_t i = 0; i < columns; ++i) m.g_idx.push_back(static_cast<std::int32_t>(i / m.group));
  std::mt19937 order(7);
  if (options.act_order) std::shuffle(m.g_idx.begin(), m.g_idx.end(), order);
  return m;
}

/// Words of `bits` per value, lowest first: [down / per word, across] of value(down, across).
template <class Value>
RawTensor packed_down(std::int64_t down, std::int64_t across, int bits, const Value& value) {
  const int per_word = 32 / bits;
  const std::int64_t words = (down + per_word - 1) / per_word;
  std::vector<std::uint32_t> packed(static_cast<std::size_t>(words * across));
  for (std::int64_t i = 0; i < down; ++i)
    for (std::int64_t j = 0; j < across; ++j)
      packed[static_cast<std::size_t>(i / per_word * across + j)] |= static_cast<std::uint32_t>(value(i, j))
                                                                     << bits * (i % per_word);
  return raw("I32", {words, across}, packed);
}
/// The same of [down, across / per word]; `order`: which column is at a position of a word.
template <class Value>
RawTensor packed_across(std::int64_t down, std::int64_t across, int bits, const Value& value,
                        const std::vector<int>& order = {0, 1, 2, 3, 4, 5, 6, 7}) {
  const int per_word = 32 / bits;
  std::vector<std::uint32_t> packed;
  for (std::int64_t i = 0; i < down; ++i)
    for (std::int64_t j = 0; j < across; j += per_word) {
      packed.push_back(0);
      for (int p = 0; p < per_word; ++p)
        packed.back() |= static_cast<std::uint32_t>(value(i, j + order[static_cast<std::size_t>(p)]))
                         << bits * p;
    }
  return raw("I32", {down, across / per_word}, packed);
}

/// [groups, rows] of a [rows, groups].
template <class T>
std::vector<T> transposed(const Module& m, const std::vector<T>& values) {
  std::vector<T> result;
  for (std::int64_t g = 0; g < m.groups(); ++g)
    for (std::int64_t r = 0; r < m.rows; ++r)
      result.push_back(values[static_cast<std::size_t>(r * m.groups() + g)]);
  return result;
}

/// Adds the tensors of a module as `storage` has them.
inline void add_module(RawTensors& tensors, const Module& m, WeightStorage storage,
                       const std::string& scale_dtype = "F16") {
  const int bits = weight_bits(m.weights), middle = 1 << (bits - 1);
  const auto weight = [&](std::int64_t row, std::int64_t column) { return m.at(row, column); };
  const auto down = [&](std::int64_t column, std::int64_t row) { return m.at(row, column); };
  const auto zero = [&](std::int64_t row, std::int64_t group) {
    return m.zeros[static_cast<std::size_t>(row * m.groups() + group)];
  };
  const std::string name = m.name + ".";
  if (storage == WeightStorage::packed) {
    tensors[name + "weight_packed"] = packed_across(m.rows, m.columns, bits, weight);
    tensors[name + "weight_zero_point"] = packed_down(m.rows, m.groups(), bits, zero);
    tensors[name + "weight_shape"] = raw("I64", {2}, std::vector<std::int64_t>{m.rows, m.columns});
    tensors[name + "weight_scale"] = raw_floats(scale_dtype, {m.rows, m.groups()}, m.scales);
    tensors[name + "weight_g_idx"] = raw("I32", {m.columns}, m.g_idx);
  } else if (storage == WeightStorage::fp4 || storage == WeightStorage::modelopt) {
    const bool nvfp4 = m.weights == kWeightsNvfp4, modelopt = storage == WeightStorage::modelopt;
    RawTensor values = packed_across(m.rows, m.columns, bits, weight);
    const std::vector<std::int64_t> shape = {m.rows, m.groups()};
    tensors[name + (modelopt ? "weight" : "weight_packed")] = {"U8", {m.rows, m.columns / 2}, values.bytes};
    tensors[name + "weight_scale"] =
        nvfp4 ? raw("F8_E4M3", shape, std::vector<ue4m3>(m.scales.begin(), m.scales.end()))
              : raw("U8", shape, std::vector<ue8m0>(m.scales.begin(), m.scales.end()));
    if (modelopt) tensors[name + "weight_scale_2"] = raw_floats("F32", {}, {m.global_scale});
    if (nvfp4 && !modelopt)
      tensors[name + "weight_global_scale"] = raw_floats("F32", {1}, {1 / m.global_scale});
  } else if (storage == WeightStorage::plain) {
    std::vector<std::uint8_t> bytes;
    for (const int value : m.stored)
      bytes.push_back(static_cast<std::uint8_t>(m.weights == kWeightsFp8 ? value : value - middle));
    tensors[name + "weight"] = raw(m.weights == kWeightsFp8 ? "F8_E4M3" : "I8", {m.rows, m.columns}, bytes);
    tensors[name + "weight_scale"] = raw_floats(scale_dtype, {m.rows, m.groups()}, m.scales);
  } else {
    const bool awq = storage == WeightStorage::awq;
    const std::vector<int> order =
        awq ? std::vector{0, 2, 4, 6, 1, 3, 5, 7} : std::vector{0, 1, 2, 3, 4, 5, 6, 7};
    const int less = storage == WeightStorage::gptq ? 1 : 0;
    tensors[name + "qweight"] = awq ? packed_across(m.columns, m.rows, bits, down, order)
                                    : packed_down(m.columns, m.rows, bits, down);
    tensors[name + "qzeros"] = packed_across(
        m.groups(), m.rows, bits,
        [&](std::int64_t group, std::int64_t row) { return zero(row, group) - less; }, order);
    tensors[name + "scales"] = raw_floats(scale_dtype, {m.groups(), m.rows}, transposed(m, m.scales));
    if (!awq) tensors[name + "g_idx"] = raw("I32", {m.columns}, m.g_idx);
  }
}

}  // namespace warptune::testing
