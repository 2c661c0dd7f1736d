// The types of GGUF tensors.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "harness/core/brief.h"
#include "harness/core/lookup.h"
#include "harness/core/parallel.h"
#include "harness/llama/gguf.h"

namespace warptune {
namespace {

constexpr int kExpandThreads = 8;

template <class T>
float value_at(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return static_cast<float>(value);
}

template <class T>
void expand_one(const std::byte* block, float* to) {
  *to = value_at<T>(block);
}

/// d, 16 bytes: value i is in the low nibble of byte i, value i + 16 in the high one.
void expand_q4_0(const std::byte* block, float* to) {
  const float d = value_at<fp16>(block);
  for (int i = 0; i < 16; ++i) {
    const int pair = byte_at(block, 2 + i);
    to[i] = static_cast<float>((pair & 15) - 8) * d;
    to[i + 16] = static_cast<float>((pair >> 4) - 8) * d;
  }
}

/// d, 32 int8.
void expand_q8_0(const std::byte* block, float* to) {
  const float d = value_at<fp16>(block);
  for (int i = 0; i < 32; ++i) to[i] = value_at<std::int8_t>(block + 2 + i) * d;
}

void expand_q5_0(const std::byte* block, float* to) {
  const float d = value_at<fp16>(block);
  std::uint8_t values[32];
  unpack_q5_0(block, values);
  for (int i = 0; i < 32; ++i) to[i] = static_cast<std::int8_t>(values[i]) * d;
}

/// Q4_K and Q5_K.
template <int kWeights>
void expand_with_minima(const std::byte* block, float* to) {
  const float d = value_at<fp16>(block), dmin = value_at<fp16>(block + 2);
  std::uint8_t values[kSuperColumns];
  unpack_super_block(kWeights, block, 0, kSuperColumns, values);
  for (int group = 0; group < 8; ++group) {
    const auto [scale, minimum] = scale_and_minimum(block, group);
    const float step = d * static_cast<float>(scale), offset = dmin * static_cast<float>(minimum);
    for (int i = group * 32; i < group * 32 + 32; ++i) to[i] = step * static_cast<float>(values[i]) - offset;
  }
}

void expand_q6_k(const std::byte* block, float* to) {
  const float d = value_at<fp16>(block + kQ6KStep);
  std::uint8_t values[kSuperColumns];
  unpack_super_block(kWeightsQ6K, block, 0, kSuperColumns, values);
  for (int i = 0; i < kSuperColumns; ++i)
    to[i] = d * value_at<std::int8_t>(block + kQ6KScales + i / 16) *
            static_cast<float>(values[i] - zero_point_of(kWeightsQ6K));
}

/// The numbers are those of enum ggml_type.
constexpr BlockType kTypes[] = {
    {"F32", 0, 1, 4, expand_one<float>},
    {"F16", 1, 1, 2, expand_one<fp16>},
    {"BF16", 30, 1, 2, expand_one<bf16>},
    {"Q4_0", 2, 32, 18, expand_q4_0, kWeightsInt4, kWeightsInt8},
    {"Q5_0", 6, 32, 22, expand_q5_0, kWeightsInt8},
    {"Q8_0", 8, 32, 34, expand_q8_0, kWeightsInt8},
    {"Q4_K", 12, 256, kQ4KBytes, expand_with_minima<kWeightsQ4K>, kWeightsQ4K, kWeightsQ5K},
    {"Q5_K", 13, 256, kQ5KBytes, expand_with_minima<kWeightsQ5K>, kWeightsQ5K},
    {"Q6_K", 14, 256, kQ6KBytes, expand_q6_k, kWeightsQ6K},
};

}  // namespace

void unpack_q5_0(const std::byte* block, std::uint8_t* values) {
  std::uint32_t high;
  std::memcpy(&high, block + 2, sizeof high);
  for (int i = 0; i < 32; ++i) {
    const int low = byte_at(block, 6 + i % 16) >> i / 16 * 4 & 15;
    values[i] = static_cast<std::uint8_t>((low | (high >> i & 1) << 4) - 16);
  }
}

std::vector<std::string> block_types_of(int weights) {
  std::vector<std::string> names;
  for (const BlockType& type : kTypes)
    if (type.weights == weights || type.wider == weights) names.emplace_back(type.name);
  return names;
}

const BlockType* find_block_type(std::uint32_t id) {
  const auto it = std::ranges::find(kTypes, id, &BlockType::id);
  return it == std::end(kTypes) ? nullptr : it;
}

const BlockType* find_block_type(std::string_view name) { return find_named(kTypes, name); }

std::string block_type_names() { return listed(names_of(kTypes)); }

bool needs_expansion(const StoredTensor& tensor) {
  const BlockType* const type = find_block_type(tensor.dtype);
  return type && (type->values > 1 || tensor.paired_rows > 0);
}

std::vector<float> expanded(const StoredTensor& tensor) {
  const BlockType* const type = find_block_type(tensor.dtype);
  if (!type) throw std::logic_error("a tensor of this dtype is not expanded");
  const std::int64_t columns = tensor.shape.size() > 1 ? tensor.shape.back() : 1,
                     in_block = tensor.shape.size() > 1 ? type->values : 1;
  const std::int64_t rows =
      static_cast<std::int64_t>(tensor.data.size()) / type->bytes * type->values / columns;
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  parallel_for(rows, kExpandThreads, [&](std::int64_t row) {
    const std::byte* from = tensor.data.data() + tensor.stored_row(row) * (columns / in_block) * type->bytes;
    float* to = values.data() + row * columns;
    for (std::int64_t i = 0; i < columns; i += in_block, from += type->bytes) type->expand(from, to + i);
  });
  return values;
}

}  // namespace warptune
