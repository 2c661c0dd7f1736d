#include "harness/llama/step_problem.h"

#include "harness/core/error.h"
#include "harness/llama/model_problems.h"
#include "harness/results/wisdom.h"

namespace warptune {

Problem step_problem(const ModelConfig& model, DType dtype, int batch, std::int64_t context,
                     const KvFormat& kv) {
  Problem step{.op = kStepOp, .dtype = dtype};
  step.dims.set("model", 0, model.name);
  step.dims.set("batch", batch);
  step.dims.set("context", context_bucket(context));
  WeightFormat weights = model.weights;
  if (batch <= kFewTokens) weights.fp8_activations = false;  // its GEMMs are those of other activations
  if (weights.quantized()) step.dims.set("weights", 0, weights.str());
  if (model.shard.ranks > 1) step.dims.set("ranks", model.shard.ranks);
  // As in a plan set: "+kv=int8+page=16".
  if (const std::string suffix = kv.suffix(); !suffix.empty()) step.dims.set("cache", 0, suffix.substr(1));
  return step;
}

StepSpec step_spec(const Problem& step, const ModelConfig& model) {
  const Assignment::Entry *cache = step.dims.find("cache"), *weights = step.dims.find("weights");
  const int ranks = static_cast<int>(step.dims.get("ranks", 1));
  StepSpec spec{.model = in_format(split_over_ranks(model, 0, ranks),
                                   parse_weight_format(weights ? weights->label : "same")),
                .dtype = step.dtype,
                .batch = static_cast<int>(step.dims.get("batch", 0)),
                .context = static_cast<int>(step.dims.get("context", 0)),
                .kv = parse_kv_suffix(cache ? cache->label : "")};
  if (spec.batch < 1 || step_problem(spec).key() != step.key())
    throw InputError("{} is no step of {}", step.key(), model.name);
  return spec;
}

}  // namespace warptune
