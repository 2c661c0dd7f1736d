#include "harness/tune/sweep_models.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/core/brief.h"
#include "harness/core/lookup.h"
#include "harness/core/op.h"
#include "harness/llama/gguf.h"
#include "harness/llama/model_problems.h"
#include "harness/llama/tensor_parallel.h"
#include "harness/llama/weights.h"
#include "harness/tune/sweep_settings.h"

namespace warptune {
namespace {

constexpr std::int64_t kMaxStepBatch = 4096, kMaxStepContext = 1 << 24;

/// The integers of a key, or `otherwise` without it.
std::vector<std::int64_t> counts(const YamlReader& yaml, const YAML::Node& node, const char* key,
                                 std::vector<std::int64_t> otherwise = {}) {
  if (!node[key]) return otherwise;
  const std::string what = fmt::format("'{}'", key);
  std::vector<std::int64_t> values;
  for (const std::string& text : yaml.values(node[key], what)) {
    const std::int64_t value = yaml.at(node[key], [&] { return whole_number(text, what); });
    if (value < 1 || value > kLargestDim)
      yaml.fail(node[key], "{} is {}; it must be 1 to {}", what, value, kLargestDim);
    values.push_back(value);
  }
  return values;
}

bool is_preset(const std::string& name) {
  const auto presets = preset_names();
  return contains(presets, name);
}

/// A preset, or a checkpoint, a folder or a GGUF file, below `below`.
std::string full_name(const YamlReader& yaml, const YAML::Node& node, const std::string& name,
                      const std::filesystem::path& below) {
  if (is_preset(name)) return name;
  const std::filesystem::path folder = below / name;
  std::error_code no_such_name;
  if (std::filesystem::is_directory(folder, no_such_name) || is_gguf(folder)) return folder.string();
  const auto presets = preset_names();
  const std::string hint = near_miss(name, presets);
  yaml.fail(node, "unknown model '{}'{}", brief(name),
            hint.empty() ? fmt::format("; known are {}, or a folder beside this file "
                                       "with a config.json, or a GGUF file",
                                       listed(presets))
                         : hint);
}

KvFormat kv_format_of(const YamlReader& yaml, const YAML::Node& node, const ModelConfig& model) {
  KvFormat format;
  if (const YAML::Node kind = node["kv_dtype"]) {
    const std::size_t word = yaml.word(kind, "'kv_dtype'", {"same", "int8", "fp8"});
    if (word > 0) format.quantized = word == 1 ? DType::int8 : DType::fp8;
  }
  if (const YAML::Node layout = node["k_layout"]) {
    format.k_layout = static_cast<KLayout>(yaml.word(layout, "'k_layout'", {"sd", "dsx"}));
  }
  const auto one = [&](const char* key) {
    const auto values = counts(yaml, node, key, {0});
    if (values.size() != 1) yaml.fail(node[key], "'{}' of a model is one number", key);
    return static_cast<int>(values[0]);
  };
  format.page_size = one("page_size");
  format.window = one("window");
  return with_window(format, model.window);
}

/// The part of rank 0 of 'ranks'.
ModelConfig part_of(const YamlReader& yaml, const YAML::Node& node, const ModelConfig& model) {
  const auto ranks = counts(yaml, node, "ranks", {1});
  if (ranks.size() != 1) yaml.fail(node["ranks"], "'ranks' of a model is one number");
  return yaml.at(node["ranks"] ? node["ranks"] : node,
                 [&] { return split_over_ranks(model, 0, static_cast<int>(ranks[0])); });
}

/// The formats of 'weights', by default that of the model. Their groups divide its matrices.
std::vector<WeightFormat> weights_of(const YamlReader& yaml, const YAML::Node& node,
                                     const ModelConfig& model) {
  if (!node["weights"]) return {model.weights};
  std::vector<WeightFormat> formats;
  for (const std::string& text : yaml.values(node["weights"], "'weights'"))
    formats.push_back(yaml.at(node["weights"], [&] {
      const WeightFormat format = parse_weight_format(text);
      weight_bytes(in_format(model, format), DType::bf16);  // throws where they do not
      return format;
    }));
  return formats;
}

}  // namespace

double ModelItem::given_count() const {
  return static_cast<double>(weights.size() * batches.size()) *
         static_cast<double>(contexts.size() + prompt_lens.size());
}

double ModelItem::least_problems(DType dtype) const {
  double passes = static_cast<double>(distinct_buckets(contexts).size());
  for (const std::int64_t length : prompt_lens)
    passes += static_cast<double>(prompt_pieces(model, dtype, length));
  return static_cast<double>(weights.size() * batches.size()) * passes;
}

std::vector<ModelProblem> ModelItem::problems(const OpTable& ops, DType dtype, std::int64_t batch) const {
  std::vector<ModelProblem> all;
  const auto append = [&](const std::vector<Problem>& pass) {
    const auto first = static_cast<std::ptrdiff_t>(all.size());
    double sum = 0;
    for (const Problem& problem : pass) {
      const Cost cost = ops.find(problem.op).op.cost(problem);
      const double bytes = std::max(cost.bytes, cost.flops / DeviceFacts().flops_per_byte());
      sum += all.emplace_back(problem, launches_of(model, problem) * bytes).share;
    }
    std::for_each(all.begin() + first, all.end(), [&](ModelProblem& p) { p.share /= sum; });
  };
  for (const WeightFormat& format : weights) {
    const ModelConfig stored = in_format(model, format);
    if (!contexts.empty()) append(decode_problems(ops, stored, dtype, static_cast<int>(batch), contexts, kv));
    if (!prompt_lens.empty())
      append(prefill_problems(ops, stored, dtype, static_cast<int>(batch), prompt_lens, kv));
  }
  return all;
}

ModelConfig model_named(const std::string& name) { return is_preset(name) ? preset(name) : read_model(name); }

std::vector<StepItem> read_step_item(const YamlReader& yaml, const YAML::Node& node,
                                     const std::filesystem::path& folder,
                                     const std::vector<DType>& default_dtypes) {
  yaml.expect_keys(node, "an item of 'steps'",
                   {"model", "ranks", "batch", "context", "weights", "kv_dtype", "k_layout", "page_size",
                    "window", "dtypes", "candidates"});
  for (const char* key : {"model", "context"})
    if (!node[key]) yaml.fail(node, "an item of 'steps' needs '{}'", key);
  StepItem step{.model = full_name(yaml, node["model"], yaml.text(node["model"], "'model'"), folder)};
  step.where = yaml.where(node);
  step.spec.model = part_of(yaml, node, yaml.at(node["model"], [&] { return model_named(step.model); }));
  step.spec.kv = kv_format_of(yaml, node, step.spec.model);
  const auto batches = counts(yaml, node, "batch", {1}), contexts = counts(yaml, node, "context");
  const auto limit = [&](const char* key, const std::vector<std::int64_t>& values, std::int64_t most) {
    for (const std::int64_t value : values)
      if (value > most) yaml.fail(node[key], "'{}' of a step is {}; it must be at most {}", key, value, most);
  };
  limit("batch", batches, kMaxStepBatch);
  limit("context", contexts, kMaxStepContext);
  const auto dtypes = node["dtypes"] ? dtypes_of(yaml, node["dtypes"]) : default_dtypes;
  std::vector<StepItem> steps;
  const ModelConfig model = step.spec.model;
  for (const WeightFormat& format : weights_of(yaml, node, model))
    for (const DType dtype : dtypes)
      for (const std::int64_t batch : batches)
        for (const std::int64_t context : distinct_buckets(contexts)) {
          step.spec.model = in_format(model, format);
          step.spec.dtype = dtype;
          step.spec.batch = static_cast<int>(batch);
          step.spec.context = static_cast<int>(context);
          steps.push_back(step);
        }
  return steps;
}

ModelItem read_model_item(const YamlReader& yaml, const YAML::Node& node,
                          const std::filesystem::path& folder) {
  if (!node["model"]) yaml.fail(node, "an item of 'models' needs 'model'");
  const std::string name = yaml.text(node["model"], "'model'");
  const std::string full = full_name(yaml, node["model"], name, folder);
  const ModelConfig model = part_of(yaml, node, yaml.at(node["model"], [&] { return model_named(full); }));
  if (!node["context"] && !node["prompt_len"])
    yaml.fail(node, "model '{}' needs 'context' (decode), 'prompt_len' (prefill) or both", brief(name));
  return {.model = model,
          .batches = counts(yaml, node, "batch", {1}),
          .contexts = counts(yaml, node, "context"),
          .prompt_lens = counts(yaml, node, "prompt_len"),
          .weights = weights_of(yaml, node, model),
          .kv = kv_format_of(yaml, node, model)};
}

std::vector<Pattern> skip_patterns(const YamlReader& yaml, const YAML::Node& node) {
  std::vector<Pattern> patterns;
  for (const YAML::Node& item : yaml.items(node, "'skip'")) {
    const std::string text = yaml.text(item, "a pattern of 'skip'");
    patterns.push_back(yaml.at(item, [&] { return Pattern(text, "a pattern of 'skip'"); }));
  }
  return patterns;
}

}  // namespace warptune
