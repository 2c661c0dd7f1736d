#include "harness/llama/memory_need.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "harness/llama/model_problems.h"
#include "harness/llama/prefill.h"
#include "harness/llama/weights.h"

namespace warptune {
namespace {

constexpr double kCode = 60 << 20;  // workspaces of kernels, and their code

}  // namespace

MemoryNeed memory_need(const ModelConfig& c, DType dtype, const KvFormat& format, const RunShape& run) {
  const auto batch = static_cast<double>(run.prompt_lengths.size());
  double tokens = 0;
  for (const std::int64_t length : run.prompt_lengths) tokens += static_cast<double>(length);
  const double chunk = std::min(tokens, static_cast<double>(chunk_tokens(c, dtype)));
  const auto activations = static_cast<double>(activation_bytes(c, dtype));
  const int width = c.vocab + (splits_vocabulary(c) ? head_rows(c) : 0);
  const double logits = batch * width * static_cast<double>(size_of(dtype));
  constexpr double kIntegers = 4 * sizeof(int);  // bytes of a token: prompt, id, sequence, position
  const double state = batch * ((run.steps + 1.0) * sizeof(int) + c.vocab / 8.0);  // transcript, seen tokens
  return {.weights = weight_bytes(c, dtype),
          .kv_cache = run.models * KvCache::bytes(c, dtype, format, c.layers,
                                                  static_cast<int>(run.prompt_lengths.size()), run.capacity) +
                      Prefill::cache_bytes(c, dtype, format, run.prompt_lengths),
          .rest = kIntegers * tokens + run.models * (batch * activations + logits + state) +
                  chunk * activations + kCode};
}

double step_memory(const StepSpec& spec) {
  const std::vector<std::int64_t> one_token(static_cast<std::size_t>(spec.batch), 1);
  return memory_need(spec.model, spec.dtype, spec.kv,
                     {.prompt_lengths = one_token, .capacity = spec.context, .steps = 1, .models = 2})
      .total();
}

std::string lack_of_memory(const std::string& what, double bytes, const DeviceFacts& facts) {
  constexpr double kMiB = 1 << 20, kDriver = 1 << 30;
  const double has = static_cast<double>(facts.memory_bytes) - (facts.backend == Backend::cuda ? kDriver : 0);
  if (facts.memory_bytes == 0 || bytes <= has) return {};
  return fmt::format("{} needs {:.0f} MiB and {} has {:.0f} MiB", what, bytes / kMiB, facts.name, has / kMiB);
}

}  // namespace warptune
