#pragma once
// The items of a sweep's 'models': the problems that a model solves; and of 'steps': its decode steps.
#include <filesystem>
#include <vector>

#include "harness/core/op_table.h"
#include "harness/core/pattern.h"
#include "harness/core/yaml_reader.h"
#include "harness/llama/kv_format.h"
#include "harness/llama/model_config.h"
#include "harness/tune/sweep_item.h"

namespace warptune {

/// A problem of a model, with its part of the roofline time of the decode step or prefill that it is in.
struct ModelProblem {
  Problem problem;
  double share = 0;
};

struct ModelItem {
  ModelConfig model;
  std::vector<std::int64_t> batches, contexts, prompt_lens;
  std::vector<WeightFormat> weights;
  KvFormat kv;

  /// The number of decode steps and prefills of one dtype.
  double given_count() const;
  /// A lower bound of the number of problems: contexts of one bucket share theirs.
  double least_problems(DType dtype) const;
  /// The problems of the decode step at each context and of the prefill of each length.
  std::vector<ModelProblem> problems(const OpTable& ops, DType dtype, std::int64_t batch) const;
};

/// A model that is no preset is a checkpoint below `folder`, the folder of the sweep's file. Throws
/// InputError with file and line.
ModelItem read_model_item(const YamlReader& yaml, const YAML::Node& node,
                          const std::filesystem::path& folder);

/// The steps of an item of 'steps', for each batch and bucket of contexts. Throws InputError with file and
/// line.
std::vector<StepItem> read_step_item(const YamlReader& yaml, const YAML::Node& node,
                                     const std::filesystem::path& folder,
                                     const std::vector<DType>& default_dtypes);

/// The configuration of a preset, or of the checkpoint in a folder.
ModelConfig model_named(const std::string& name);

/// The patterns of 'skip', over "op/variant". Throws InputError with file and line.
std::vector<Pattern> skip_patterns(const YamlReader& yaml, const YAML::Node& node);

}  // namespace warptune
