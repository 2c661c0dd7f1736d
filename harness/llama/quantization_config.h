#pragma once
// How the weights of a checkpoint are quantized: `quantization_config` of a Hugging Face config.json, by
// GPTQ, AWQ, compressed-tensors (llm-compressor), ModelOpt or as FP8.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/json.h"
#include "harness/core/pattern.h"
#include "harness/llama/weight_format.h"

namespace warptune {

/// An entry of a list of modules: the name of a module or components of it ("lm_head", "self_attn"), "re:"
/// and a regular expression that matches from its beginning, a name with "*" for any characters, or the type
/// of all modules with quantized weights, "Linear".
class ModuleName {
 public:
  /// Throws InputError where the text is a wrong regular expression. `where`: the list, in that message.
  ModuleName(std::string text, const std::string& where);

  enum class Match { name, pattern, type };  // from the most specific
  std::optional<Match> match(std::string_view module) const;

 private:
  std::string text_;
  std::shared_ptr<const Pattern> pattern_;  // null where the text is a name
};

/// The tensors that store a quantized weight.
enum class WeightStorage {
  gptq,      // qweight, qzeros (the zero point minus 1), scales, g_idx
  gptq_v2,   // the same, with the zero point itself
  awq,       // qweight, qzeros, scales
  packed,    // weight_packed, weight_scale, weight_shape, weight_zero_point, weight_g_idx
  plain,     // weight (one byte per value), weight_scale or weight_scale_inv
  fp4,       // weight_packed (two values per byte), weight_scale; of nvfp4 weight_global_scale, a divisor
  modelopt,  // weight (two values per byte), weight_scale, weight_scale_2
  gguf       // weight: Q4_0, Q5_0 or Q8_0, blocks of 32 values with their scale, Q4_K, Q5_K or Q6_K
};

/// How the weights of some modules are quantized.
struct QuantizationScheme {
  WeightStorage storage = WeightStorage::plain;
  WeightFormat format = {};  // not quantized: 16 bits; zeros, act_order: whether the tensors may have them
  std::vector<ModuleName> targets = {};
};

struct QuantizationConfig {
  std::string method;  // quant_method: "gptq", "awq", "compressed-tensors", "fp8", "modelopt" or "gguf"
  std::vector<QuantizationScheme> schemes = {};
  std::vector<ModuleName> ignored = {};  // modules in 16 bits
  std::vector<std::string> notes = {};   // sentences for the user about what is not applied

  /// The scheme whose target is the most specific; null where the module is in 16 bits.
  const QuantizationScheme* scheme_of(std::string_view module) const;
};

/// `config`: the object `quantization_config`. Throws InputError: one sentence with the file and the key.
QuantizationConfig read_quantization_config(const JsonReader& config);
/// The same of hf_quant_config.json, which ModelOpt writes beside a config.json.
QuantizationConfig read_modelopt_config(const JsonReader& config);

}  // namespace warptune
