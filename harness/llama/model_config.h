#pragma once
// The shape of a LLaMA, or of a family that differs in a few facts: from a Hugging Face
// config.json, or one of the presets.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/dtype.h"
#include "harness/core/facts.h"
#include "harness/core/json.h"
#include "harness/core/rope.h"
#include "harness/llama/quantization_config.h"
#include "harness/llama/weight_format.h"

namespace warptune {

/// How the matrices of a layer are stored. Where v has another format than q and k, it is a matrix of its
/// own.
struct LayerFormats {
  WeightFormat qk = {}, v = {}, o = {}, gate_up = {}, down = {};
  bool has_v_apart() const { return v != qk; }
  /// All of the same format.
  static LayerFormats all(const WeightFormat& f) { return {f, f, f, f, f}; }
  bool operator==(const LayerFormats&) const = default;
};

/// The part of a model that a rank holds (tensor_parallel.h). The config then has the heads and the
/// intermediate size of the part.
struct ModelShard {
  int rank = 0, ranks = 1;
  int q_heads = 0, kv_heads = 0, intermediate = 0;  // of the whole model
};

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

/// A family of models that are LLaMA but for a few facts: a row of a table (docs/families.md).
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

struct ModelConfig {
  std::string name;
  int hidden = 0;
  int intermediate = 0;
  int layers = 0;
  int q_heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int vocab = 0;
  int max_position = 2048;
  float rms_eps = 1e-5f;
  RopeScaling rope = {};
  bool tied_embeddings = false;
  bool qkv_bias = false, o_bias = false, mlp_bias = false;
  bool qk_norm = false;            // RMSNorm of each head of q and k, before RoPE
  StoredModules modules = {};      // as a checkpoint stores the matrices of a layer
  int window = 0;                  // the last keys, its own included, that a token attends to; 0: all
  std::vector<bool> no_rope = {};  // [layers]: those without RoPE; empty: none
  // Multipliers. The residual stream here is that of the config divided by its residual_multiplier: rows are
  // then added as they are, and with rms_eps divided by the square every norm is the same.
  double embedding_multiplier = 1, logits_multiplier = 1;
  double attention_multiplier = 0;  // of scores; 0: 1 / sqrt(head_dim)
  std::vector<int> eos = {};
  WeightFormat weights = {};  // the layers' format; a mixed checkpoint has that of its first matrix
  std::vector<LayerFormats> layer_formats =
      {};                         // a quantized checkpoint has one per layer; empty: all are `weights`
  WeightFormat head_format = {};  // the format of lm_head
  std::optional<QuantizationConfig> quantization = {};  // none: weights are in 16 bits
  ModelShard shard = {};

  /// Whether matrices of the layers have another format than `weights`.
  bool has_mixed_formats() const;
  LayerFormats formats_of(int layer) const;
  /// The first layer of each combination of formats.
  std::vector<int> layers_of_each_format() const;
  bool has_v_apart() const { return std::ranges::any_of(layer_formats, &LayerFormats::has_v_apart); }
  bool rotates(int layer) const { return no_rope.empty() || !no_rope[layer]; }
  /// What multiplies q . k in a layer.
  float attention_scale(int layer) const;
  int qkv_width() const { return (q_heads + 2 * kv_heads) * head_dim; }
  int kv_width() const { return kv_heads * head_dim; }
  int q_width() const { return q_heads * head_dim; }
};

/// The model with all matrices of its layers in this format. That of `config` leaves them as they are stored.
ModelConfig in_format(ModelConfig config, const WeightFormat& format);
/// The same model, whose GEMMs on weights of fp8 round their activations (WeightFormat::fp8_activations).
ModelConfig with_fp8_activations(ModelConfig config);

/// Reads a config.json of one of model_families(), and the end tokens of a generation_config.json beside it.
/// Throws InputError: one sentence with the file and the key.
ModelConfig read_model_config(const std::filesystem::path& file);
/// A config.json from text; error messages begin with `origin`.
ModelConfig parse_model_config(std::string_view text, const std::string& origin);

/// A model by its name: llama2-7b. Throws InputError that lists preset_names().
const ModelConfig& preset(std::string_view name);
std::vector<std::string> preset_names();

/// The dtype that `decode` takes without --dtype: bf16, on the host fp32.
DType default_dtype(Backend backend);

/// The rotary embedding: rope_theta and rope_scaling of transformers 4, the one object rope_parameters of
/// transformers 5, or both where they say the same. An empty object says nothing. Without rope_theta it is
/// `theta`. Throws InputError: one sentence with the file and the key.
RopeScaling read_rope(const JsonReader& config, int head_dim, int max_position, double theta);

}  // namespace warptune
