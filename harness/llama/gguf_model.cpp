// A model in a GGUF file: its metadata as a config, its tensors by their names of Hugging Face.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/llama/gguf.h"
#include "harness/llama/tensor_parallel.h"

namespace warptune {
namespace {

using Json = nlohmann::json;
using Names = std::pair<std::string_view, std::string_view>;  // of GGUF, of Hugging Face

/// A value of general.architecture, which is also the model_type.
struct Architecture {
  std::string_view name;
  bool paired;               // q and k have the rows of a head in pairs (StoredTensor::paired_rows)
  bool multipliers = false;  // has those of kMultipliers
};
constexpr Architecture kArchitectures[] = {{"llama", true}, {"qwen2", false},  {"qwen3", false},
                                           {"phi3", false}, {"smollm3", true}, {"granite", true, true}};

/// Keys below the name of the architecture. The first six must be there.
constexpr Names kKeys[] = {{"embedding_length", "hidden_size"},
                           {"feed_forward_length", "intermediate_size"},
                           {"block_count", "num_hidden_layers"},
                           {"context_length", "max_position_embeddings"},
                           {"attention.head_count", "num_attention_heads"},
                           {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                           {"attention.head_count_kv", "num_key_value_heads"},
                           {"attention.key_length", "head_dim"},
                           {"attention.sliding_window", "sliding_window"},
                           {"rope.freq_base", "rope_theta"}};
constexpr int kNeededKeys = 6;

/// Factors that the other architectures do not have.
constexpr Names kMultipliers[] = {{"embedding_scale", "embedding_multiplier"},
                                  {"residual_scale", "residual_multiplier"},
                                  {"attention.scale", "attention_multiplier"},
                                  {"logit_scale", "logits_scaling"}};

/// Keys that change what is computed in ways that no kernel here has.
constexpr std::string_view kRefusedKeys[] = {"expert_count", "attn_logit_softcapping",
                                             "final_logit_softcapping"};

constexpr Names kModules[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
constexpr Names kLayerModules[] = {{"attn_norm", "input_layernorm"},
                                   {"attn_q", "self_attn.q_proj"},
                                   {"attn_k", "self_attn.k_proj"},
                                   {"attn_v", "self_attn.v_proj"},
                                   {"attn_qkv", "self_attn.qkv_proj"},
                                   {"attn_q_norm", "self_attn.q_norm"},
                                   {"attn_k_norm", "self_attn.k_norm"},
                                   {"attn_output", "self_attn.o_proj"},
                                   {"ffn_norm", "post_attention_layernorm"},
                                   {"ffn_gate", "mlp.gate_proj"},
                                   {"ffn_up", "mlp.up_proj"},
                                   {"ffn_down", "mlp.down_proj"}};

// Divisors of the frequencies of RoPE, of which phi3 has two sets.
constexpr const char *kFactors = "rope_freqs.weight", *kShortFactors = "rope_factors_short.weight",
                     *kLongFactors = "rope_factors_long.weight";

/// The name of a tensor in a checkpoint of Hugging Face; empty where it has none.
std::string checkpoint_name(std::string_view name, bool fused) {
  const auto dot = name.rfind('.');
  if (dot == name.npos) return {};
  const std::string_view suffix = name.substr(dot);
  std::string_view module = name.substr(0, dot);
  if (suffix != ".weight" && suffix != ".bias") return {};
  const auto find = [&](std::span<const Names> names) {
    const auto it = std::ranges::find(names, module, &Names::first);
    return it == names.end() ? std::string_view() : it->second;
  };
  if (!module.starts_with("blk.")) {
    const std::string_view found = find(kModules);
    return found.empty() ? std::string() : fmt::format("{}{}", found, suffix);
  }
  module.remove_prefix(4);
  const auto end = std::min(module.find('.'), module.size() - 1);
  const std::string_view layer = module.substr(0, end);
  module.remove_prefix(end + 1);
  const std::string_view found = fused && module == "ffn_up" ? "mlp.gate_up_proj" : find(kLayerModules);
  return found.empty() ? std::string() : fmt::format("model.layers.{}.{}{}", layer, found, suffix);
}

/// Reads the metadata of an architecture.
class Metadata {
 public:
  explicit Metadata(const GgufFile& file) : file_(file) {
    const Json& name = value("general.architecture");
    const Architecture* found =
        name.is_string() ? find_named(kArchitectures, name.get<std::string>()) : nullptr;
    if (!found) fail("general.architecture", "one of " + listed(names_of(kArchitectures)));
    architecture_ = *found;
    if (number("split.count", 1) > 1)
      fail("split.count", "1: llama-gguf-split --merge makes one file of the parts");
  }
  const Architecture& architecture() const { return architecture_; }
  /// Null where the key is missing.
  const Json& value(const std::string& key) const {
    static const Json none;
    const auto it = file_.metadata().find(key);
    return it == file_.metadata().end() ? none : *it;
  }
  std::string own(std::string_view key) const { return fmt::format("{}.{}", architecture_.name, key); }
  double number(const std::string& key, double fallback) const {
    if (!file_.metadata().contains(key)) return fallback;
    const Json& found = value(key);
    if (!found.is_number() || !std::isfinite(found.get<double>())) fail(key, "one finite number");
    return found.get<double>();
  }
  [[noreturn]] void fail(const std::string& key, const std::string& wanted) const {
    throw InputError("{}: '{}' is {}; it must be {}", file_.origin(), key,
                     file_.metadata().contains(key) ? brief(shown(value(key))) : "missing", wanted);
  }

 private:
  static std::string shown(const Json& value) {
    if (value.is_null()) return "an array";
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  const GgufFile& file_;
  Architecture architecture_;
};

/// The elements of a vector in F32.
Json factors(const GgufFile& file, const char* name) {
  const auto it = file.tensors().find(name);
  if (it == file.tensors().end() || it->second.dtype != "F32")
    throw InputError("{}: tensor '{}' must be there, as F32", file.origin(), name);
  return expanded(it->second);
}

/// The object rope_scaling; null where RoPE is not scaled.
Json rope_scaling(const Metadata& in, const GgufFile& file) {
  const auto number = [&](const char* key, double fallback) { return in.number(in.own(key), fallback); };
  const double factor = number("rope.scaling.factor", number("rope.scale_linear", 0));
  const std::string type_key = in.own("rope.scaling.type");
  const Json& type = in.value(type_key);
  const std::string length_key = in.own("rope.scaling.original_context_length");
  Json scaling;
  if (file.tensors().contains(kFactors)) {  // the rule of llama3, applied by the converter
    scaling = {{"rope_type", "longrope"}, {"attention_factor", 1}, {"factor", 1}};
    scaling["short_factor"] = scaling["long_factor"] = factors(file, kFactors);
  } else if (file.tensors().contains(kLongFactors)) {
    scaling = {{"rope_type", "longrope"},
               {"short_factor", factors(file, kShortFactors)},
               {"long_factor", factors(file, kLongFactors)}};
    if (const double attention = number("rope.scaling.attn_factor", 0); attention != 0)
      scaling["attention_factor"] = attention;
  } else if (type == "yarn") {
    scaling = {{"rope_type", "yarn"}, {"factor", factor}};
  } else if (factor > 0 && type != "none") {
    if (!type.is_null() && type != "linear")
      in.fail(type_key, "none, linear or yarn, or longrope with its factors");
    scaling = {{"rope_type", "linear"}, {"factor", factor}};
  }
  if (!scaling.is_null() && in.number(length_key, 0) > 0)
    scaling["original_max_position_embeddings"] = in.value(length_key);
  return scaling;
}

/// The metadata as a config.json, without what the names of tensors tell.
Json config_of(const Metadata& in, const GgufFile& file) {
  Json config = {{"model_type", in.architecture().name}, {"tie_word_embeddings", false}};
  const auto take = [&](const Names& names, bool is_needed) {
    const std::string key = in.own(names.first);
    if (!is_needed && !file.metadata().contains(key)) return;
    const Json& value = in.value(key);
    if (!value.is_number() || !std::isfinite(value.get<double>())) in.fail(key, "one number for all layers");
    config[std::string(names.second)] = value;
  };
  const auto refuse = [&](std::string_view key) {
    if (in.number(in.own(key), 0) != 0) in.fail(in.own(key), "missing or 0");
  };
  for (int i = 0; i < static_cast<int>(std::size(kKeys)); ++i) take(kKeys[i], i < kNeededKeys);
  for (const Names& names : kMultipliers)
    if (in.architecture().multipliers)
      take(names, true);
    else
      refuse(names.first);
  for (const std::string_view key : kRefusedKeys) refuse(key);
  // Only Mistral's files of this architecture have a window.
  if (in.architecture().name == "llama" && config.contains("sliding_window"))
    config["model_type"] = "mistral";
  if (!config.contains("head_dim")) {  // families have defaults of their own
    const double quotient =
        in.number(in.own("embedding_length"), 0) / in.number(in.own("attention.head_count"), 0);
    if (quotient >= 1 && quotient == std::floor(quotient) && quotient < 1e6)
      config["head_dim"] = static_cast<int>(quotient);
  }
  for (const char* key : {"attention.value_length", "rope.dimension_count"})
    if (config.contains("head_dim") &&
        in.number(in.own(key), config["head_dim"].get<double>()) != config["head_dim"])
      in.fail(in.own(key), fmt::format("{}, the elements of a head", config["head_dim"].dump()));
  if (const Json scaling = rope_scaling(in, file); !scaling.is_null()) config["rope_scaling"] = scaling;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"})
    if (in.number(key, -1) >= 0) config["eos_token_id"].push_back(in.value(key));
  return config;
}

bool is_factors(const std::string& name) {
  return name == kFactors || name == kShortFactors || name == kLongFactors;
}

std::map<std::string, StoredTensor> renamed(const GgufFile& file, bool fused) {
  std::map<std::string, StoredTensor> tensors;
  for (const auto& [name, tensor] : file.tensors()) {
    if (is_factors(name)) continue;
    const std::string known = checkpoint_name(name, fused);
    if (known.empty())
      throw InputError("{}: tensor '{}' has no place in a model of this architecture", file.origin(),
                       brief(name));
    tensors.emplace(known, tensor);
  }
  return tensors;
}

/// A tensor that is read where the config has it, and must be absent where not.
void expect_presence(const std::map<std::string, StoredTensor>& tensors, const std::string& name, bool wanted,
                     const std::string& origin) {
  if (tensors.contains(name) != wanted)
    throw InputError("{}: tensor '{}' is {}; a model of this architecture {}", origin, name,
                     wanted ? "missing" : "there", wanted ? "needs it" : "has none");
}

/// The matrices that kernels take as they are stored.
QuantizationConfig quantization_of(const ModelConfig& c, const std::map<std::string, StoredTensor>& tensors) {
  std::vector<QuantizationScheme> schemes;
  for (const int weights : {kWeightsInt4, kWeightsInt8, kWeightsQ4K, kWeightsQ5K, kWeightsQ6K})
    schemes.push_back({.storage = WeightStorage::gguf,
                       .format = {.weights = weights, .group = weights == kWeightsQ6K ? 16 : 32}});
  const auto add = [&](const Modules& matrix) {
    const auto scheme = std::ranges::find_if(schemes, [&](const QuantizationScheme& candidate) {
      return std::ranges::all_of(matrix.parts, [&](const auto& part) {
        const auto it = tensors.find(part.first + ".weight");
        return it != tensors.end() && contains(block_types_of(candidate.format.weights), it->second.dtype);
      });
    });
    if (scheme == schemes.end()) return;
    for (const auto& part : matrix.parts) scheme->targets.emplace_back(part.first, "GGUF");
  };
  for (int layer = 0; layer < c.layers; ++layer) {
    const LayerModules modules = layer_modules(c, layer);
    for (const Modules* matrix : {&modules.qk, &modules.v, &modules.o, &modules.gate_up, &modules.down})
      add(*matrix);
  }
  if (!c.tied_embeddings) add(head_module(c));
  QuantizationConfig quantization{.method = "gguf"};
  for (QuantizationScheme& scheme : schemes)
    if (!scheme.targets.empty()) quantization.schemes.push_back(std::move(scheme));
  return quantization;
}

}  // namespace

bool is_gguf(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) && !std::filesystem::is_directory(path, error);
}

GgufModel::GgufModel(const std::filesystem::path& path) : file_(path) {
  const std::string origin = file_.origin();
  const Metadata in(file_);
  tensors_ = renamed(file_, in.architecture().name == "phi3");
  Json config = config_of(in, file_);
  const auto embedding = tensors_.find("model.embed_tokens.weight");
  if (embedding == tensors_.end()) throw InputError("{}: tensor 'token_embd.weight' is missing", origin);
  const std::string layer = "model.layers.0.";
  config["vocab_size"] = embedding->second.shape[0];
  // A tied head that kernels take as it is stored is a matrix beside the embedding, which has 16 bits.
  if (const BlockType* type = find_block_type(embedding->second.dtype); type && type->weights != kWeightsSame)
    tensors_.emplace("lm_head.weight", embedding->second);
  config["tie_word_embeddings"] = !tensors_.contains("lm_head.weight");
  config["attention_bias"] = tensors_.contains(layer + "self_attn.o_proj.bias");
  config["mlp_bias"] = tensors_.contains(layer + "mlp.down_proj.bias");
  config_ = parse_model_config(config.dump(), origin + ", as a config.json");
  config_.name = brief(path.stem().string());
  if (config_.layers > static_cast<int>(tensors_.size()))
    throw InputError("{}: {} layers have only {} tensors", origin, config_.layers, tensors_.size());
  expect_presence(tensors_, "lm_head.bias", false, origin);
  for (int i = 0; i < config_.layers; ++i) {
    const LayerModules m = layer_modules(config_, i);
    const auto expect = [&](const Modules& matrix, bool bias) {
      for (const auto& part : matrix.parts) expect_presence(tensors_, part.first + ".bias", bias, origin);
    };
    expect(m.qkv(), config_.qkv_bias);
    expect(m.o, config_.o_bias);
    expect(m.gate_up, config_.mlp_bias);
    expect(m.down, config_.mlp_bias);
    const std::string attention = fmt::format("model.layers.{}.self_attn.", i);
    for (const char* norm : {"q_norm.weight", "k_norm.weight"})
      expect_presence(tensors_, attention + norm, config_.qk_norm, origin);
    if (!in.architecture().paired) continue;
    for (const char* name : {"q_proj.weight", "q_proj.bias", "k_proj.weight", "k_proj.bias"})
      if (const auto it = tensors_.find(attention + name);
          it != tensors_.end() && it->second.shape[0] % config_.head_dim == 0)
        it->second.paired_rows = config_.head_dim;
  }
  QuantizationConfig quantization = quantization_of(config_, tensors_);
  if (!quantization.schemes.empty()) config_.quantization = std::move(quantization);
}

}  // namespace warptune
