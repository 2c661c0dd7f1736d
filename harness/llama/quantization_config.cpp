#include "harness/llama/quantization_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/core/brief.h"
#include "harness/core/error.h"

namespace warptune {
namespace {

// Far above any model: each regular expression takes kilobytes.
constexpr std::size_t kMaxNames = 10'000;

/// The regular expression of a name with "*".
std::string of_wildcards(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (c == '*')
      pattern += '.';
    else if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_')
      pattern += '\\';
    pattern += c;
  }
  return pattern;
}

/// For methods that have one scheme.
std::vector<ModuleName> every_module() { return {ModuleName("Linear", "")}; }

std::vector<ModuleName> read_names(const JsonReader& in, const char* key) {
  std::vector<ModuleName> names;
  if (!in.has(key)) return names;
  const nlohmann::json& list = in.list(key);
  if (list.size() > kMaxNames) in.fail(key, fmt::format("a list of at most {} names", kMaxNames));
  for (const nlohmann::json& name : list) {
    if (!name.is_string() || name.get_ref<const std::string&>().empty()) in.fail(key, "a list of names");
    names.emplace_back(name.get<std::string>(), fmt::format("{}: '{}'", in.origin(), key));
  }
  return names;
}

int read_bits(const JsonReader& in, const char* key) {
  const int bits = in.whole(key);
  if (bits != 4 && bits != 8) in.fail(key, "4 or 8");
  return bits;
}

/// Columns that share a scale; 0 for -1, the whole row.
int read_group(const JsonReader& in, const char* key) {
  if (in.has(key) && in.json().at(key) == -1) return 0;
  const int group = in.whole(key);
  if (group != 32 && group != 64 && group != 128) in.fail(key, "32, 64, 128 or -1");
  return group;
}

void expect_blocks(const JsonReader& in, const char* key) {
  if (in.ids(key) != std::vector{kFp8ScaleRows, 128}) in.fail(key, "[128, 128]");
}

int int_weights(int bits) { return bits == 4 ? kWeightsInt4 : kWeightsInt8; }

QuantizationScheme read_gptq(const JsonReader& in) {
  const char* const key = in.has("checkpoint_format") ? "checkpoint_format" : "format";
  const std::string format = in.text_or(key, "gptq");
  if (format != "gptq" && format != "gptq_v2") in.fail(key, "gptq or gptq_v2");
  if (in.flag("is_marlin_format", false)) in.fail("is_marlin_format", "false");
  if (in.has("dynamic")) {  // of GPTQModel: "-:REGEX" leaves modules in 16 bits, others change their format
    const JsonReader dynamic = in.object("dynamic");
    for (const auto& [pattern, overrides] : dynamic.json().items())
      if (!pattern.starts_with("-:")) in.fail("dynamic", "without a module of another format");
  }
  return {.storage = format == "gptq" ? WeightStorage::gptq : WeightStorage::gptq_v2,
          .format = {.weights = int_weights(read_bits(in, "bits")),
                     .group = read_group(in, "group_size"),
                     .zeros = !in.flag("sym", true),
                     .act_order = in.flag("desc_act", false)},
          .targets = every_module()};
}

QuantizationScheme read_awq(const JsonReader& in) {
  if (in.has("version") && in.text("version") != "gemm" && in.text("version") != "GEMM")
    in.fail("version", "gemm");
  const char* const bits = in.has("w_bit") ? "w_bit" : "bits";
  if (in.whole(bits) != 4) in.fail(bits, "4");
  return {.storage = WeightStorage::awq,
          .format = {.weights = kWeightsInt4,
                     .group = read_group(in, in.has("q_group_size") ? "q_group_size" : "group_size"),
                     .zeros = true},
          .targets = every_module()};
}

QuantizationScheme read_fp8(const JsonReader& in) {
  if (in.has("fmt") && in.text("fmt") != "e4m3") in.fail("fmt", "e4m3");
  const bool blocks = in.has("weight_block_size");
  if (blocks) expect_blocks(in, "weight_block_size");
  return {.storage = WeightStorage::plain,
          .format = {.weights = kWeightsFp8, .group = blocks ? 128 : 0},
          .targets = every_module()};
}

/// Floats of 4 bits; the key `group_size` says which.
WeightFormat read_fp4(const JsonReader& in) {
  const int group = in.whole("group_size");
  const int weights = group == fixed_group(kWeightsNvfp4) ? kWeightsNvfp4 : kWeightsMxfp4;
  if (group != fixed_group(weights))
    in.fail("group_size", "16 (nvfp4) or 32 (mxfp4) where weights are floats of 4 bits");
  if (in.has("actorder") && !in.json().at("actorder").is_null()) in.fail("actorder", "null");
  return {.weights = weights, .group = group};
}

/// By its quant_algo: activations in 4 bits, or as they are.
QuantizationScheme read_modelopt(const JsonReader& in) {
  const std::string algorithm = in.text("quant_algo");
  if (algorithm != "NVFP4" && algorithm != "W4A16_NVFP4") in.fail("quant_algo", "NVFP4 or W4A16_NVFP4");
  if (in.has("group_size") && in.whole("group_size") != fixed_group(kWeightsNvfp4))
    in.fail("group_size", "16");
  return {.storage = WeightStorage::modelopt,
          .format = {.weights = kWeightsNvfp4, .group = fixed_group(kWeightsNvfp4)},
          .targets = every_module()};
}

/// `weights` of a config group of compressed-tensors.
WeightFormat read_weights(const JsonReader& in) {
  const std::string type = in.text_or("type", "int");
  if (type != "int" && type != "float") in.fail("type", "int or float");
  const int bits = in.has("num_bits") ? read_bits(in, "num_bits") : 8;
  if (in.has("dynamic") && in.json().at("dynamic") != false) in.fail("dynamic", "false");
  if (type == "float" && bits == 4) return read_fp4(in);

  WeightFormat format{.weights = type == "float" ? kWeightsFp8 : int_weights(bits),
                      .zeros = !in.flag("symmetric", true),
                      .act_order = in.has("actorder") && in.json().at("actorder") == "group"};
  if (format.zeros && bits != 4) in.fail("symmetric", "true where weights have 8 bits");
  const bool has_group = in.has("group_size") && in.json().at("group_size") != -1;
  const std::string strategy = in.text_or("strategy", has_group ? "group" : "channel");
  if (strategy == "group" && type == "int") {
    format.group = read_group(in, "group_size");
  } else if (strategy == "block" && type == "float") {
    expect_blocks(in, "block_structure");
    format.group = 128;
  } else if (strategy != "tensor" && strategy != "channel") {
    in.fail("strategy", type == "int" ? "tensor, channel or group" : "tensor, channel or block");
  }
  return format;
}

WeightStorage read_storage(const JsonReader& in, const WeightFormat& weights) {
  const std::string format = in.text("format");
  if (is_fp4(weights.weights)) {
    const char* const wanted =
        weights.weights == kWeightsNvfp4 ? "nvfp4-pack-quantized" : "mxfp4-pack-quantized";
    if (format != wanted) in.fail("format", wanted);
    return WeightStorage::fp4;
  }
  const bool is_int = weights.weights != kWeightsFp8;
  if (format == "pack-quantized" && is_int) return WeightStorage::packed;
  const bool plain = format == "naive-quantized" || format == (is_int ? "int-quantized" : "float-quantized");
  if (plain && weights.weights != kWeightsInt4) return WeightStorage::plain;
  in.fail("format", weights.weights == kWeightsInt4   ? "pack-quantized where weights have 4 bits"
                    : weights.weights == kWeightsInt8 ? "pack-quantized or int-quantized"
                                                      : "float-quantized where weights are floats");
}

std::vector<QuantizationScheme> read_config_groups(const JsonReader& in) {
  if (in.has("sparsity_config") && in.object("sparsity_config").text_or("format", "dense") != "dense")
    in.object("sparsity_config").fail("format", "dense");
  if (in.has("transform_config") && !in.object("transform_config").json().empty())
    in.fail("transform_config", "empty: activations are not rotated");
  const std::string format = in.text("format");
  const bool mixed = format == "mixed-precision";  // each group has its own
  const JsonReader groups = in.object("config_groups");
  std::vector<QuantizationScheme> schemes;
  std::size_t names = 0;
  for (const auto& [name, ignored] : groups.json().items()) {
    const JsonReader group = groups.object(name.c_str());
    QuantizationScheme scheme{.targets = read_names(group, "targets")};
    if (scheme.targets.empty()) group.fail("targets", "a list of names");
    names += scheme.targets.size();
    if (names > kMaxNames) in.fail("config_groups", fmt::format("of at most {} targets", kMaxNames));
    if (group.has("weights")) {
      scheme.format = read_weights(group.object("weights"));
      scheme.storage = read_storage(group.has("format") || mixed ? group : in, scheme.format);
    }
    schemes.push_back(std::move(scheme));
  }
  return schemes;
}

/// Whether a config asks for activations of fewer than 16 bits.
bool quantizes_activations(const JsonReader& in) {
  if (in.has("activation_scheme") || (in.has("quant_algo") && in.text("quant_algo") == "NVFP4")) return true;
  if (!in.has("config_groups")) return false;
  return std::ranges::any_of(in.object("config_groups").json(), [](const nlohmann::json& group) {
    return JsonReader(group, "").has("input_activations");
  });
}

QuantizationConfig read_config(const JsonReader& config, const std::string& method) {
  QuantizationConfig c{.method = method};
  if (c.method == "gptq") {
    c.schemes = {read_gptq(config)};
  } else if (c.method == "awq") {
    c.schemes = {read_awq(config)};
  } else if (c.method == "fp8") {
    c.schemes = {read_fp8(config)};
  } else if (c.method == "compressed-tensors") {
    c.schemes = read_config_groups(config);
  } else if (c.method == "modelopt") {
    c.schemes = {read_modelopt(config)};
  } else {
    config.fail("quant_method", c.method == "mxfp4"
                                    ? "compressed-tensors where weights are mxfp4: that method is for experts"
                                    : "gptq, awq, compressed-tensors, fp8 or modelopt");
  }
  for (const char* const key : {"ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules"})
    for (ModuleName& name : read_names(config, key)) c.ignored.push_back(std::move(name));
  if (quantizes_activations(config))
    c.notes.push_back(config.origin() +
                      ": activations are not quantized, they stay in 16 bits, "
                      "unless --weights is fp8:activations=fp8");
  for (const char* const key : {"kv_cache_scheme", "kv_cache_quant_algo"})
    if (config.has(key)) c.notes.push_back(fmt::format("{}: '{}' is not applied", config.origin(), key));
  return c;
}

}  // namespace

ModuleName::ModuleName(std::string text, const std::string& where) : text_(std::move(text)) {
  if (text_.starts_with("re:"))
    pattern_ = std::make_shared<const Pattern>("(?:" + text_.substr(3) + ").*", where);
  else if (text_.find('*') != std::string::npos)
    pattern_ = std::make_shared<const Pattern>(of_wildcards(text_), where);
}

std::optional<ModuleName::Match> ModuleName::match(std::string_view module) const {
  if (pattern_) return pattern_->matches(module) ? std::optional(Match::pattern) : std::nullopt;
  if (text_ == "Linear") return Match::type;
  const bool is_named = fmt::format(".{}.", module).find(fmt::format(".{}.", text_)) != std::string::npos;
  return is_named ? std::optional(Match::name) : std::nullopt;
}

const QuantizationScheme* QuantizationConfig::scheme_of(std::string_view module) const {
  for (const ModuleName& name : ignored)
    if (name.match(module)) return nullptr;
  const QuantizationScheme* best = nullptr;
  std::optional<ModuleName::Match> best_match;
  for (const QuantizationScheme& scheme : schemes)
    for (const ModuleName& name : scheme.targets)
      if (const auto match = name.match(module); match && (!best_match || *match < *best_match)) {
        best = &scheme;
        best_match = match;
      }
  return best && best->format.quantized() ? best : nullptr;
}

QuantizationConfig read_modelopt_config(const JsonReader& config) {
  return read_config(config.object("quantization"), "modelopt");
}

QuantizationConfig read_quantization_config(const JsonReader& config) {
  return read_config(config, config.text("quant_method"));
}

}  // namespace warptune
