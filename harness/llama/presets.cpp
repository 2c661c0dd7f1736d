// The published config.json of known models.

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/llama/model_config.h"

namespace warptune {
namespace {

ModelConfig make(const char* name, int hidden, int intermediate, int layers, int q_heads, int kv_heads,
                 int head_dim, int vocab, int max_position, RopeScaling rope, bool tied = false) {
  return {.name = name,
          .hidden = hidden,
          .intermediate = intermediate,
          .layers = layers,
          .q_heads = q_heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .vocab = vocab,
          .max_position = max_position,
          .rope = rope,
          .tied_embeddings = tied};
}

/// With the facts of its family.
ModelConfig of_family(const char* type, ModelConfig config) {
  const ModelFamily& family = *find_family(type);
  config.rms_eps = static_cast<float>(family.rms_eps);
  config.qkv_bias = family.qkv_bias;
  config.qk_norm = family.qk_norm;
  config.modules = family.modules;
  return config;
}

/// The published config.json of each model.
const std::vector<ModelConfig>& presets() {
  static const std::vector<ModelConfig> list = {
      make("llama2-7b", 4096, 11008, 32, 32, 32, 128, 32000, 4096, {}),
      make("llama2-13b", 5120, 13824, 40, 40, 40, 128, 32000, 4096, {}),
      make("llama3-8b", 4096, 14336, 32, 32, 8, 128, 128256, 8192, {.theta = 500000}),
      make("llama3.1-8b", 4096, 14336, 32, 32, 8, 128, 128256, 131072,
           {.kind = RopeKind::llama3, .theta = 500000, .factor = 8}),
      make("llama3.3-70b", 8192, 28672, 80, 64, 8, 128, 128256, 131072,
           {.kind = RopeKind::llama3, .theta = 500000, .factor = 8}),
      make("llama3.2-1b", 2048, 8192, 16, 32, 8, 64, 128256, 131072,
           {.kind = RopeKind::llama3, .theta = 500000, .factor = 32}, true),
      make("llama3.2-3b", 3072, 8192, 28, 24, 8, 128, 128256, 131072,
           {.kind = RopeKind::llama3, .theta = 500000, .factor = 32}, true),
      make("tinyllama-1.1b", 2048, 5632, 22, 32, 4, 64, 32000, 2048, {}),
      make("mistral-7b", 4096, 14336, 32, 32, 8, 128, 32768, 32768, {.theta = 1e6}),  // v0.3
      of_family("qwen2", make("qwen2.5-7b", 3584, 18944, 28, 28, 4, 128, 152064, 32768, {.theta = 1e6})),
      of_family("qwen3", make("qwen3-8b", 4096, 12288, 36, 32, 8, 128, 151936, 40960, {.theta = 1e6})),
      of_family("qwen3", make("qwen3-0.6b", 1024, 3072, 28, 16, 8, 128, 151936, 40960, {.theta = 1e6}, true)),
  };
  return list;
}

}  // namespace

const ModelConfig& preset(std::string_view name) {
  if (const ModelConfig* found = find_named(presets(), name)) return *found;
  throw InputError("unknown model '{}'{}", brief(name),
                   did_you_mean(name, preset_names(), "the presets are"));
}

std::vector<std::string> preset_names() { return names_of(presets()); }

}  // namespace warptune
