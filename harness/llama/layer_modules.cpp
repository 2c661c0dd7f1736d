#include "harness/llama/layer_modules.h"

#include <fmt/format.h>

namespace warptune {

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

LayerModules layer_modules(const ModelConfig& c, int index) {
  const std::string layer = fmt::format("model.layers.{}.", index);
  const auto [qkv, o, gate_up, down] = layer_slices(c);
  const std::int64_t q = o.columns.stored, kv = (qkv.rows[0].stored - q) / 2, inner = down.columns.stored;
  return {.qkv = {parts_of(layer, c.modules.qkv, qkv.rows, {q, kv, kv}), qkv.columns},
          .o = {{{layer + "self_attn.o_proj", o.rows[0]}}, o.columns},
          .gate_up = {parts_of(layer, c.modules.gate_up, gate_up.rows, {inner, inner}), gate_up.columns},
          .down = {{{layer + "mlp.down_proj", down.rows[0]}}, down.columns}};
}

Modules head_module(const ModelConfig& c) {
  const MatrixSlice head = head_slice(c);
  return {{{"lm_head", head.rows[0]}}, head.columns};
}

}  // namespace warptune
