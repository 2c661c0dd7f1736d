#include "harness/llama/step_problem.h"

#include "harness/llama/model_problems.h"
#include "harness/results/step_plans.h"

namespace warptune {

Problem step_problem(const ModelConfig& model, DType dtype, int batch, std::int64_t context,
                     const KvFormat& kv) {
  Problem step{.op = kStepOp, .dims = {}, .dtype = dtype};
  step.dims.set("model", 0, model.name);
  step.dims.set("batch", batch);
  step.dims.set("context", context_bucket(context));
  // As in a plan set: "+kv=int8+page=16".
  if (const std::string suffix = kv.suffix(); !suffix.empty()) step.dims.set("cache", 0, suffix.substr(1));
  return step;
}

}  // namespace warptune
