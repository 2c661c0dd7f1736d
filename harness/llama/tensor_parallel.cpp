#include "harness/llama/tensor_parallel.h"

#include <fmt/format.h>

#include <cstring>

#include "harness/core/error.h"
#include "harness/core/rank_group.h"
#include "harness/llama/gguf.h"
#include "kernels/linear/packed_weights.h"

namespace warptune {

namespace {

constexpr int kPacketElements = 8;  // 16 bytes of 16-bit numbers

/// Throws where ranks would cut groups of quantized weights. `part`: has the dims of a rank.
void expect_whole_groups(const ModelConfig& part) {
  const int ranks = part.shard.ranks;
  const auto expect = [&](const WeightFormat& format, int elements, const char* what) {
    if (elements % format.unit_columns() != 0)
      throw InputError("{} has {} {} in groups of {}, which {} ranks cannot split evenly", part.name,
                       elements * ranks, what, format.unit_columns(), ranks);
  };
  for (int layer = 0; layer < part.layers; ++layer) {
    const LayerFormats formats = part.formats_of(layer);
    expect(formats.o, part.q_width(), "columns of o");
    expect(formats.down, part.intermediate, "columns of down");
    if (formats.qk.weights != kWeightsFp8) continue;  // which has a scale for as many rows
    expect(formats.qk, part.q_width(), "rows of q");
    expect(formats.qk, part.kv_width(), "rows of k");
  }
}

}  // namespace

ModelConfig split_over_ranks(ModelConfig config, int rank, int ranks) {
  if (ranks == 1) return config;
  if (ranks < 1 || ranks > RankGroup::kMaxRanks)
    throw InputError("a model runs on 1 to {} ranks, not {}", RankGroup::kMaxRanks, ranks);
  const auto expect = [&](bool divides, int count, const char* what) {
    if (!divides)
      throw InputError("{} has {} {}, which {} ranks cannot split evenly", config.name, count, what, ranks);
  };
  expect(config.q_heads % ranks == 0, config.q_heads, "query heads");
  expect(config.kv_heads % ranks == 0 || ranks % config.kv_heads == 0, config.kv_heads, "KV heads");
  expect(config.intermediate % ranks == 0, config.intermediate, "columns of the MLP");
  if (config.hidden % kPacketElements != 0)
    throw InputError("{} has a hidden size of {}; ranks exchange multiples of {}", config.name, config.hidden,
                     kPacketElements);
  config.shard = {.rank = rank,
                  .ranks = ranks,
                  .q_heads = config.q_heads,
                  .kv_heads = config.kv_heads,
                  .intermediate = config.intermediate};
  config.q_heads /= ranks;
  config.kv_heads = config.kv_heads % ranks == 0 ? config.kv_heads / ranks : 1;
  config.intermediate /= ranks;
  expect_whole_groups(config);
  return config;
}

bool splits_vocabulary(const ModelConfig& c) {
  return c.shard.ranks > 1 && c.vocab % (c.shard.ranks * kPacketElements) == 0;
}

int head_rows(const ModelConfig& c) { return splits_vocabulary(c) ? c.vocab / c.shard.ranks : c.vocab; }

LayerSlices layer_slices(const ModelConfig& c) {
  const bool is_whole = c.shard.ranks == 1;
  const std::int64_t d = c.head_dim, rank = c.shard.rank, inner = c.intermediate;
  const std::int64_t q_heads = is_whole ? c.q_heads : c.shard.q_heads,
                     kv_heads = is_whole ? c.kv_heads : c.shard.kv_heads,
                     all_inner = is_whole ? inner : c.shard.intermediate;
  const std::int64_t kv_head = rank * kv_heads / c.shard.ranks,  // the first; ranks may share it
      qk = (q_heads + kv_heads) * d, qkv = qk + kv_heads * d;
  const Slice q_rows = {rank * c.q_width(), c.q_width(), qk},
              k_rows = {(q_heads + kv_head) * d, c.kv_width(), qk},
              v_rows = {kv_head * d, c.kv_width(), kv_heads * d};
  return {
      .qkv = {{{q_rows.first, q_rows.count, qkv},
               {k_rows.first, k_rows.count, qkv},
               {qk + v_rows.first, v_rows.count, qkv}},
              c.hidden},
      .qk = {{q_rows, k_rows}, c.hidden},
      .v = {{v_rows}, c.hidden},
      .o = {{c.hidden}, {rank * c.q_width(), c.q_width(), q_heads * d}},
      .gate_up = {{{rank * inner, inner, 2 * all_inner}, {all_inner + rank * inner, inner, 2 * all_inner}},
                  c.hidden},
      .down = {{c.hidden}, {rank * inner, inner, all_inner}}};
}

MatrixSlice head_slice(const ModelConfig& c) {
  const std::int64_t rows = head_rows(c);
  return {{{splits_vocabulary(c) ? c.shard.rank * rows : 0, rows, c.vocab}}, c.hidden};
}

namespace {

/// One module that holds all ranges. Adjacent ones are read as one.
Parts parts_of_one(const std::string& name, const std::vector<Slice>& ranges) {
  Parts parts;
  for (const Slice& range : ranges) {
    if (!parts.empty() && parts.back().second.first + parts.back().second.count == range.first)
      parts.back().second.count += range.count;
    else
      parts.emplace_back(name, range);
  }
  return parts;
}

/// The modules `names` of a layer: each holds one of the ranges, or one holds all. `stored`: rows of each.
Parts parts_of(const std::string& layer, const std::vector<std::string>& names,
               const std::vector<Slice>& ranges, const std::vector<std::int64_t>& stored) {
  if (names.size() == 1) return parts_of_one(layer + names[0], ranges);
  Parts parts;
  std::int64_t before = 0;
  for (std::size_t i = 0; i < names.size(); before += stored[i++])
    parts.emplace_back(layer + names[i], Slice(ranges[i].first - before, ranges[i].count, stored[i]));
  return parts;
}

}  // namespace

Modules LayerModules::qkv() const {
  Modules all = qk;
  all.parts.insert(all.parts.end(), v.parts.begin(), v.parts.end());
  return all;
}

LayerModules layer_modules(const ModelConfig& c, int index) {
  const std::string layer = fmt::format("model.layers.{}.", index);
  const auto [qkv, qk, v, o, gate_up, down] = layer_slices(c);
  const std::int64_t q = o.columns.stored, kv = v.rows[0].stored, inner = down.columns.stored;
  Parts parts = parts_of(layer, c.modules.qkv, qkv.rows, {q, kv, kv}), of_v;
  if (c.modules.qkv.size() > 1) {
    of_v = {std::move(parts.back())};
    parts.pop_back();
  }
  return {.qk = {std::move(parts), c.hidden},
          .v = {std::move(of_v), c.hidden},
          .o = {{{layer + "self_attn.o_proj", o.rows[0]}}, o.columns},
          .gate_up = {parts_of(layer, c.modules.gate_up, gate_up.rows, {inner, inner}), gate_up.columns},
          .down = {{{layer + "mlp.down_proj", down.rows[0]}}, down.columns}};
}

Modules head_module(const ModelConfig& c) {
  const MatrixSlice head = head_slice(c);
  return {{{"lm_head", head.rows[0]}}, head.columns};
}

namespace {

struct OwnedTensor : StoredTensor {
  std::vector<std::byte> bytes;
};

/// The bytes of `values` values of a row.
std::size_t bytes_of(const StoredTensor& tensor, std::int64_t values) {
  if (const BlockType* type = find_block_type(tensor.dtype))
    return static_cast<std::size_t>(values / type->values * type->bytes);
  return static_cast<std::size_t>(values * stored_bytes(tensor.dtype));
}

}  // namespace

std::shared_ptr<const StoredTensor> sliced(const StoredTensor& tensor, const Slice& rows,
                                           const Slice& columns) {
  const bool is_vector = tensor.shape.size() < 2;
  const std::size_t row = bytes_of(tensor, is_vector ? 1 : columns.stored);
  auto slice = std::make_shared<OwnedTensor>();
  static_cast<StoredTensor&>(*slice) = tensor;
  slice->data = tensor.data.subspan(static_cast<std::size_t>(rows.first) * row,
                                    static_cast<std::size_t>(rows.count) * row);
  slice->shape[0] = rows.count;
  if (is_vector || columns.is_whole()) return slice;
  slice->shape[1] = columns.count;
  const std::size_t begin = bytes_of(tensor, columns.first), width = bytes_of(tensor, columns.count);
  slice->bytes.resize(static_cast<std::size_t>(rows.count) * width);
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows.count); ++i)
    std::memcpy(slice->bytes.data() + i * width, slice->data.data() + i * row + begin, width);
  slice->data = slice->bytes;
  return slice;
}

}  // namespace warptune
