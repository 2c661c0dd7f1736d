#include "harness/llama/layer_modules.h"

#include <fmt/format.h>

namespace warptune {

LayerModules layer_modules(const ModelConfig& c, int layer) {
  const std::string attention = fmt::format("model.layers.{}.self_attn.", layer),
                    mlp = fmt::format("model.layers.{}.mlp.", layer);
  const std::int64_t q = c.q_width(), kv = static_cast<std::int64_t>(c.kv_heads) * c.head_dim;
  return {
      .qkv = {{{attention + "q_proj", q}, {attention + "k_proj", kv}, {attention + "v_proj", kv}}, c.hidden},
      .o = {{{attention + "o_proj", c.hidden}}, q},
      .gate_up = {{{mlp + "gate_proj", c.intermediate}, {mlp + "up_proj", c.intermediate}}, c.hidden},
      .down = {{{mlp + "down_proj", c.hidden}}, c.intermediate}};
}

Modules head_module(const ModelConfig& c) { return {{{"lm_head", c.vocab}}, c.hidden}; }

}  // namespace warptune
