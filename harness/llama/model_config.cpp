#include "harness/llama/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/core/lookup.h"

namespace warptune {

namespace {

// Far above any model, and small enough that their products do not overflow.
constexpr int kMaxWidth = 1 << 24, kMaxHeads = 1 << 16, kMaxHeadDim = 1 << 12, kMaxLayers = 1 << 16;
constexpr int kQwenFullLayers = 28;  // max_window_layers where it is missing

/// The number of layers that attend to the last `sliding_window` keys only, where there is such a number.
int windowed_layers(const JsonReader& in, const ModelFamily& family, int layers) {
  if (in.has("layer_types")) {
    int windowed = 0;
    for (const nlohmann::json& type : in.list("layer_types")) {
      if (type != "full_attention" && type != "sliding_attention")
        in.fail("layer_types", "a list of full_attention and sliding_attention");
      windowed += type == "sliding_attention" ? 1 : 0;
    }
    return windowed;
  }
  if (family.window != WindowRule::on_request) return layers;
  const int full = in.has("max_window_layers") ? in.id("max_window_layers") : kQwenFullLayers;
  return std::max(layers - full, 0);
}

/// The window that all layers have; 0: every token attends to all before it.
int read_window(const JsonReader& in, const ModelFamily& family, const ModelConfig& c) {
  const char* const key = "sliding_window";
  const int windowed = windowed_layers(in, family, c.layers);
  const int size = in.has(key) ? in.id(key) : in.json().contains(key) ? 0 : family.sliding_window;
  if (!in.flag("use_sliding_window", family.window != WindowRule::on_request) || size == 0 || windowed == 0)
    return 0;
  if (family.window == WindowRule::none) in.fail(key, "null or 0: every token attends to all before it");
  if (size >= c.max_position) return 0;
  if (windowed < c.layers)
    in.fail(key,
            fmt::format("null, or at least max_position_embeddings, {}: {} of {} layers have the window, "
                        "and here all layers have the same",
                        c.max_position, windowed, c.layers));
  return size;
}

/// The layers that do not rotate q and k; empty: all do.
std::vector<bool> read_no_rope(const JsonReader& in, const ModelFamily& family, const ModelConfig& c) {
  if (!family.no_rope) return {};
  if (c.rope.kind == RopeKind::dynamic_ntk)
    in.fail("rope_scaling", "without a dynamic factor where layers have no RoPE");
  std::vector<bool> no_rope;
  if (const char* const key = "no_rope_layers"; in.has(key)) {
    for (const int rotates : in.ids(key, 1)) no_rope.push_back(rotates == 0);
    if (no_rope.size() != static_cast<std::size_t>(c.layers))
      in.fail(key, "a list of {} numbers, one per layer", c.layers);
  } else {
    const int interval = in.whole_or("no_rope_layer_interval", 4);
    for (int layer = 0; layer < c.layers; ++layer) no_rope.push_back((layer + 1) % interval == 0);
  }
  return no_rope;
}

void read_multipliers(const JsonReader& in, ModelConfig& c) {
  const double residual = in.number("residual_multiplier", 1);
  c.rms_eps = static_cast<float>(c.rms_eps / (residual * residual));
  c.embedding_multiplier = in.number("embedding_multiplier", 1) / residual;
  c.attention_multiplier = in.number("attention_multiplier", 1);
  c.logits_multiplier = 1 / in.number("logits_scaling", 1);
}

const ModelFamily& read_family(const JsonReader& in) {
  const ModelFamily* const family = find_family(in.text_or("model_type", "llama"));
  if (family) return *family;
  std::vector<std::string_view> types;
  for (const ModelFamily& known : model_families()) types.push_back(known.type);
  in.fail("model_type", "one of {}", fmt::join(types, ", "));
}

ModelConfig read_shape(const JsonReader& in, const ModelFamily& family) {
  ModelConfig c;
  c.hidden = in.whole("hidden_size", kMaxWidth);
  c.intermediate = in.whole("intermediate_size", kMaxWidth);
  c.layers = in.whole("num_hidden_layers", kMaxLayers);
  c.q_heads = in.whole("num_attention_heads", kMaxHeads);
  c.kv_heads = in.whole_or("num_key_value_heads", c.q_heads, kMaxHeads);
  if (c.q_heads % c.kv_heads != 0)
    in.fail("num_attention_heads", "a multiple of num_key_value_heads, {}", c.kv_heads);
  const bool is_quotient = !in.has("head_dim") && family.head_dim == 0;
  if (is_quotient && c.hidden % c.q_heads != 0)
    in.fail("hidden_size", "a multiple of num_attention_heads, {}", c.q_heads);
  const int fallback = is_quotient ? std::max(c.hidden / c.q_heads, 1) : family.head_dim;
  c.head_dim = in.whole_or("head_dim", fallback, kMaxHeadDim);
  if (c.head_dim % 2 != 0) throw InputError("{}: head_dim {} is odd", in.origin(), c.head_dim);
  c.vocab = in.whole("vocab_size", kMaxWidth);
  c.max_position = in.whole_or("max_position_embeddings", 2048);
  return c;
}

/// The end tokens of a generation_config.json, which may be absent.
std::vector<int> generation_eos(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return {};
  const nlohmann::json json =
      need_json_object(read_input(file, file.string(), kMaxConfigBytes), file.string());
  return JsonReader(json, file.string()).ids("eos_token_id");
}

}  // namespace

ModelConfig parse_model_config(std::string_view text, const std::string& origin) {
  const nlohmann::json json = need_json_object(text, origin);
  const JsonReader in(json, origin);
  const ModelFamily& family = read_family(in);
  if (in.has("hidden_act") && in.text("hidden_act") != "silu") in.fail("hidden_act", "silu");
  ModelConfig c = read_shape(in, family);
  c.rms_eps = static_cast<float>(in.number("rms_norm_eps", family.rms_eps));
  c.rope = read_rope(in, c.head_dim, c.max_position, family.rope_theta);
  c.tied_embeddings = in.flag("tie_word_embeddings", family.tied_embeddings);
  c.o_bias = in.flag("attention_bias", false);
  c.qkv_bias = c.o_bias || family.qkv_bias;
  c.mlp_bias = in.flag("mlp_bias", false);
  c.qk_norm = family.qk_norm;
  c.modules = family.modules;
  c.window = read_window(in, family, c);
  c.no_rope = read_no_rope(in, family, c);
  if (family.multipliers) read_multipliers(in, c);
  c.eos = in.ids("eos_token_id");
  if (in.has("quantization_config"))
    c.quantization = read_quantization_config(in.object("quantization_config"));
  return c;
}

bool ModelConfig::has_mixed_formats() const {
  const LayerFormats same = LayerFormats::all(weights);
  return std::ranges::any_of(layer_formats, [&](const LayerFormats& layer) { return layer != same; });
}

LayerFormats ModelConfig::formats_of(int layer) const {
  return layer_formats.empty() ? LayerFormats::all(weights) : layer_formats[layer];
}

std::vector<int> ModelConfig::layers_of_each_format() const {
  std::vector<int> layers = {0};
  for (int layer = 1; layer < static_cast<int>(layer_formats.size()); ++layer)
    if (std::ranges::none_of(layers, [&](int i) { return formats_of(i) == formats_of(layer); }))
      layers.push_back(layer);
  return layers;
}

float ModelConfig::attention_scale(int layer) const {
  const float scale = attention_multiplier > 0 ? static_cast<float>(attention_multiplier)
                                               : 1.0f / std::sqrt(static_cast<float>(head_dim));
  const double factor = rotates(layer) ? rope.attention_factor : 1;
  return static_cast<float>(scale * factor * factor);
}

ModelConfig in_format(ModelConfig config, const WeightFormat& format) {
  if (format == config.weights) return config;
  if (with_fp8_activations(config).weights == format) return with_fp8_activations(config);
  config.weights = format;
  config.layer_formats.clear();
  return config;
}

ModelConfig with_fp8_activations(ModelConfig config) {
  const auto set = [](WeightFormat& format) { format.fp8_activations = format.weights == kWeightsFp8; };
  set(config.weights);
  for (LayerFormats& layer : config.layer_formats)
    for (WeightFormat* format : {&layer.qk, &layer.v, &layer.o, &layer.gate_up, &layer.down}) set(*format);
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
    if (!contains(config.eos, id)) config.eos.push_back(id);
  std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  config.name = brief(folder.filename().string());
  return config;
}

DType default_dtype(Backend backend) { return backend == Backend::cuda ? DType::bf16 : DType::fp32; }

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
