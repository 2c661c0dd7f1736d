#pragma once
// The decode step of a model as a problem: the key of its winner in the wisdom and of its rows.
#include <cstdint>

#include "harness/core/problem.h"
#include "harness/llama/kv_format.h"
#include "harness/llama/model_config.h"

namespace warptune {

/// A decode step to tune, with random weights and a KV cache of random values.
struct StepSpec {
  ModelConfig model;
  DType dtype = DType::bf16;
  int batch = 1;
  int context = 64;  // keys per sequence, the new token's included
  KvFormat kv = {};
  std::uint64_t seed = 1;
};

/// "step[model=llama3.2-1b,batch=1,context=512,dtype=bf16]", with "weights=int4:group=128" where the weights
/// are quantized (of a mixture of formats that of the first quantized matrix), "ranks=2" where the model is
/// split over ranks, and "cache=kv=int8+page=16" where the KV cache has another format than the default. The
/// context is that of its bucket, as in the problems of attention.
Problem step_problem(const ModelConfig& model, DType dtype, int batch, std::int64_t context,
                     const KvFormat& kv);
/// The step of such a problem, that of rank 0. `model`: whole. Throws InputError where it is not one of this
/// model.
StepSpec step_spec(const Problem& step, const ModelConfig& model);
inline Problem step_problem(const StepSpec& spec) {
  return step_problem(spec.model, spec.dtype, spec.batch, spec.context, spec.kv);
}

}  // namespace warptune
