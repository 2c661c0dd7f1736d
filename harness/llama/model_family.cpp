#include "harness/llama/model_family.h"

#include <algorithm>

namespace warptune {

const std::vector<ModelFamily>& model_families() {
  static const StoredModules fused = {.qkv = {"self_attn.qkv_proj"}, .gate_up = {"mlp.gate_up_proj"}};
  static const std::vector<ModelFamily> table = {
      {.type = "llama"},
      {.type = "mistral", .window = WindowRule::given, .sliding_window = 4096},
      {.type = "ministral", .window = WindowRule::given, .sliding_window = 4096},
      {.type = "qwen2", .qkv_bias = true, .window = WindowRule::on_request, .sliding_window = 4096},
      {.type = "qwen3",
       .qk_norm = true,
       .window = WindowRule::on_request,
       .sliding_window = 4096,
       .head_dim = 128},
      {.type = "phi3", .modules = fused, .window = WindowRule::given, .rms_eps = 1e-5},
      {.type = "smollm3",
       .no_rope = true,
       .window = WindowRule::on_request,
       .rope_theta = 2e6,
       .tied_embeddings = true},
      {.type = "granite", .multipliers = true},
  };
  return table;
}

const ModelFamily* find_family(std::string_view type) {
  const auto it = std::ranges::find(model_families(), type, &ModelFamily::type);
  return it == model_families().end() ? nullptr : &*it;
}

}  // namespace warptune
