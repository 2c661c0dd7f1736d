#include "harness/llama/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/core/json.h"
#include "harness/core/json_reader.h"

namespace warptune {
namespace {

// Far above any model, and small enough that their products do not overflow.
constexpr int kMaxWidth = 1 << 24, kMaxHeads = 1 << 16, kMaxHeadDim = 1 << 12, kMaxLayers = 1 << 16;

void expect_whole_rotation(const JsonReader& in) {
  if (in.number("partial_rotary_factor", 1) != 1)
    in.fail("partial_rotary_factor", "1: whole heads are rotated");
}

/// Refuses a sliding window, unless the config switches it off.
void expect_no_window(const JsonReader& in) {
  const char* const key = "sliding_window";
  const bool every_layer_is_full =
      in.has("layer_types") && std::ranges::all_of(in.list("layer_types"), [](const nlohmann::json& type) {
        return type == "full_attention";
      });
  if (!in.flag("use_sliding_window", true) || every_layer_is_full) return;
  if (in.has(key) && in.id(key) > 0) in.fail(key, "null or 0: every token attends to all before it");
}

/// Reads the object that the keys rope_scaling and rope_parameters hold. `rope`: what applies without it.
RopeScaling read_scaling(const JsonReader& scaling, RopeScaling rope) {
  expect_whole_rotation(scaling);
  rope.theta = scaling.number("rope_theta", rope.theta);
  const char* type_key = scaling.has("rope_type") ? "rope_type" : "type";
  const std::string type = scaling.has(type_key) ? scaling.text(type_key) : "default";
  if (type == "default") return rope;
  if (type == "linear") {
    rope.kind = RopeKind::linear;
  } else if (type == "dynamic") {
    rope.kind = RopeKind::dynamic_ntk;
  } else if (type == "llama3") {
    rope.kind = RopeKind::llama3;
    rope.low_freq_factor = scaling.number("low_freq_factor");
    rope.high_freq_factor = scaling.number("high_freq_factor");
    rope.original_max_position = scaling.whole("original_max_position_embeddings");
    if (rope.high_freq_factor <= rope.low_freq_factor)
      scaling.fail("high_freq_factor", "larger than low_freq_factor");
  } else {
    scaling.fail(type_key, "default, linear, dynamic or llama3");
  }
  rope.factor = scaling.number("factor");
  return rope;
}

/// rope_theta and rope_scaling of transformers 4, the one object rope_parameters of transformers 5, or both
/// where they say the same. An empty object says nothing.
RopeScaling read_rope(const JsonReader& config, int max_position) {
  RopeScaling base;
  base.original_max_position = max_position;
  base.theta = config.number("rope_theta", 10000);
  const auto says_something = [&](const char* key) {
    return config.has(key) && !config.object(key).json().empty();
  };
  const bool has_parameters = says_something("rope_parameters");
  const RopeScaling rope = has_parameters ? read_scaling(config.object("rope_parameters"), base) : base;
  if (!says_something("rope_scaling")) return rope;
  base.theta = rope.theta;
  const RopeScaling scaling = read_scaling(config.object("rope_scaling"), base);
  if (has_parameters && scaling != rope)
    throw InputError(fmt::format(
        "{}: 'rope_scaling' and 'rope_parameters' differ; they must be equal, or one of them be left out",
        config.origin()));
  return scaling;
}

/// The end tokens of a generation_config.json, which may be absent.
std::vector<int> generation_eos(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return {};
  const nlohmann::json json =
      need_json_object(read_input(file, file.string(), kMaxConfigBytes), file.string());
  return JsonReader(json, file.string()).ids("eos_token_id");
}

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
  };
  return list;
}

}  // namespace

ModelConfig parse_model_config(std::string_view text, const std::string& origin) {
  const nlohmann::json json = need_json_object(text, origin);
  const JsonReader in(json, origin);
  if (in.has("model_type") && in.text("model_type") != "llama") in.fail("model_type", "llama");
  if (in.has("hidden_act") && in.text("hidden_act") != "silu") in.fail("hidden_act", "silu");
  if (in.flag("mlp_bias", false)) in.fail("mlp_bias", "false");
  expect_no_window(in);
  expect_whole_rotation(in);

  ModelConfig c;
  c.hidden = in.whole("hidden_size", kMaxWidth);
  c.intermediate = in.whole("intermediate_size", kMaxWidth);
  c.layers = in.whole("num_hidden_layers", kMaxLayers);
  c.q_heads = in.whole("num_attention_heads", kMaxHeads);
  c.kv_heads = in.whole_or("num_key_value_heads", c.q_heads, kMaxHeads);
  if (c.q_heads % c.kv_heads != 0)
    in.fail("num_attention_heads", fmt::format("a multiple of num_key_value_heads, {}", c.kv_heads));
  if (!in.has("head_dim") && c.hidden % c.q_heads != 0)
    in.fail("hidden_size", fmt::format("a multiple of num_attention_heads, {}", c.q_heads));
  c.head_dim = in.whole_or("head_dim", std::max(c.hidden / c.q_heads, 1), kMaxHeadDim);
  if (c.head_dim % 2 != 0) throw InputError(fmt::format("{}: head_dim {} is odd", origin, c.head_dim));
  c.vocab = in.whole("vocab_size", kMaxWidth);
  c.max_position = in.whole_or("max_position_embeddings", 2048);
  c.rms_eps = static_cast<float>(in.number("rms_norm_eps", 1e-6));
  c.rope = read_rope(in, c.max_position);
  c.tied_embeddings = in.flag("tie_word_embeddings", false);
  c.attention_bias = in.flag("attention_bias", false);
  c.eos = in.ids("eos_token_id");
  if (in.has("quantization_config"))
    c.quantization = read_quantization_config(in.object("quantization_config"));
  return c;
}

bool ModelConfig::has_mixed_formats() const {
  const LayerFormats same{weights, weights, weights, weights};
  return std::ranges::any_of(layer_formats, [&](const LayerFormats& layer) { return layer != same; });
}

LayerFormats ModelConfig::formats_of(int layer) const {
  if (layer_formats.empty()) return {weights, weights, weights, weights};
  return layer_formats[static_cast<std::size_t>(layer)];
}

ModelConfig in_format(ModelConfig config, const WeightFormat& format) {
  config.weights = format;
  config.layer_formats.clear();
  config.head_format = {};
  return config;
}

ModelConfig with_fp8_activations(ModelConfig config) {
  const auto set = [](WeightFormat& format) { format.fp8_activations = format.weights == kWeightsFp8; };
  set(config.weights);
  for (LayerFormats& layer : config.layer_formats)
    for (WeightFormat* format : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down}) set(*format);
  return config;
}

ModelConfig read_model_config(const std::filesystem::path& file) {
  ModelConfig config = parse_model_config(read_input(file, file.string(), kMaxConfigBytes), file.string());
  const std::filesystem::path modelopt = file.parent_path() / "hf_quant_config.json";
  if (std::error_code error; !config.quantization && std::filesystem::exists(modelopt, error)) {
    const nlohmann::json json =
        need_json_object(read_input(modelopt, modelopt.string(), kMaxConfigBytes), modelopt.string());
    config.quantization = read_modelopt_config(JsonReader(json, modelopt.string()));
  }
  for (const int id : generation_eos(file.parent_path() / "generation_config.json"))
    if (std::ranges::find(config.eos, id) == config.eos.end()) config.eos.push_back(id);
  std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  config.name = brief(folder.filename().string());
  return config;
}

const ModelConfig& preset(std::string_view name) {
  const auto it = std::ranges::find(presets(), name, &ModelConfig::name);
  if (it != presets().end()) return *it;
  throw InputError(fmt::format("unknown model '{}'{}", brief(name),
                               did_you_mean(name, preset_names(), "the presets are")));
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const ModelConfig& config : presets()) names.push_back(config.name);
  return names;
}

DType default_dtype(Backend backend) { return backend == Backend::cuda ? DType::bf16 : DType::fp32; }

}  // namespace warptune
