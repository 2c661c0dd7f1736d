#pragma once
// The memory that a run of a model takes, estimated from its shapes before anything is allocated.
#include <cstdint>
#include <span>
#include <string>

#include "harness/llama/kv_format.h"
#include "harness/llama/model_config.h"
#include "harness/llama/step_problem.h"

namespace warptune {

/// Bytes. Doubles, because the sizes of a wrong config.json do not fit 64 bits.
struct MemoryNeed {
  double weights = 0;
  double kv_cache = 0;
  double rest = 0;  // prompts, activations, logits, workspaces and code
  double total() const { return weights + kv_cache + rest; }
};

/// The shape of a run.
struct RunShape {
  std::span<const std::int64_t> prompt_lengths;  // one of each sequence
  int capacity = 0;                              // keys of a sequence in the KV cache
  int steps = 0;                                 // decode steps
  int models = 1;                                // in memory at once; they share the weights
};

MemoryNeed memory_need(const ModelConfig& config, DType dtype, const KvFormat& format, const RunShape& run);

/// Bytes that tuning a decode step takes: the model, and beside it the one with naive plans.
double step_memory(const StepSpec& spec);

/// "what needs 13415 MiB and DEVICE has 8192 MiB", or empty where the device has the memory. The driver of a
/// GPU keeps a part of it.
std::string lack_of_memory(const std::string& what, double bytes, const DeviceFacts& facts);

}  // namespace warptune
