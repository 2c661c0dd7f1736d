#include "harness/llama/layer_modules.h"

#include <fmt/format.h>

#include <numeric>

namespace warptune {

namespace {

/// The modules `names` of a layer: one for each of `rows`, or one for their sum.
Parts parts_of(const std::string& layer, const std::vector<std::string>& names,
               const std::vector<std::int64_t>& rows) {
  if (names.size() == 1) return {{layer + names[0], std::reduce(rows.begin(), rows.end())}};
  Parts parts;
  for (std::size_t i = 0; i < names.size(); ++i) parts.emplace_back(layer + names[i], rows[i]);
  return parts;
}

}  // namespace

LayerModules layer_modules(const ModelConfig& c, int index) {
  const std::string layer = fmt::format("model.layers.{}.", index);
  const std::int64_t q = c.q_width(), kv = static_cast<std::int64_t>(c.kv_heads) * c.head_dim;
  return {.qkv = {parts_of(layer, c.modules.qkv, {q, kv, kv}), c.hidden},
          .o = {{{layer + "self_attn.o_proj", c.hidden}}, q},
          .gate_up = {parts_of(layer, c.modules.gate_up, {c.intermediate, c.intermediate}), c.hidden},
          .down = {{{layer + "mlp.down_proj", c.hidden}}, c.intermediate}};
}

Modules head_module(const ModelConfig& c) { return {{{"lm_head", c.vocab}}, c.hidden}; }

}  // namespace warptune
