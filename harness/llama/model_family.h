#pragma once
// The families of models that are LLaMA but for a few facts. A family is a row of a table (docs/families.md).
#include <string>
#include <string_view>
#include <vector>

namespace warptune {

/// The modules that a checkpoint stores of a fused matrix, in the order of their rows.
struct StoredModules {
  std::vector<std::string> qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
  std::vector<std::string> gate_up = {"mlp.gate_proj", "mlp.up_proj"};
};

/// Whether layers attend to the last `sliding_window` keys only.
enum class WindowRule {
  none,       // the family has no window
  given,      // where sliding_window is a number
  on_request  // where use_sliding_window is true
};

struct ModelFamily {
  std::string_view type;  // model_type of config.json
  StoredModules modules = {};
  bool qkv_bias = false;     // q, k and v have a bias without attention_bias, and o has none
  bool qk_norm = false;      // RMSNorm of each head of q and k before RoPE
  bool multipliers = false;  // of embedding, residual, attention and logits, as in Granite
  bool no_rope = false;      // layers without RoPE: no_rope_layers
  WindowRule window = WindowRule::none;
  // Values of missing keys, where they are not those of llama.
  int sliding_window = 0;
  int head_dim = 0;  // 0: hidden_size / num_attention_heads
  double rms_eps = 1e-6, rope_theta = 10000;
  bool tied_embeddings = false;
};

/// Source: the configuration and modeling files of Hugging Face transformers.
const std::vector<ModelFamily>& model_families();

/// Null where there is none of that model_type.
const ModelFamily* find_family(std::string_view type);

}  // namespace warptune
