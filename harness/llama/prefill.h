#pragma once
// Prefill: runs prompts of uneven lengths through the model, packed into chunks that bound the memory.
#include <optional>
#include <span>
#include <vector>

#include "harness/llama/assembly.h"
#include "harness/llama/decode_state.h"

namespace warptune {

/// Owns its activations, plans and workspaces.
class Prefill {
 public:
  /// Writes the final hidden state of each prompt's last token to row b of `last_rows` [batch, hidden].
  Prefill(Device& device, const ModelConfig& config, const Weights& weights, const KvCache& kv,
          const float* inv_freq, PlanBook& book, std::span<const std::vector<int>> prompts, void* last_rows,
          int* bad_token);
  std::span<const Call> calls() const { return calls_; }

  /// Bytes of the unquantized cache for prompts of these lengths if decode's is quantized, else 0.
  static double cache_bytes(const ModelConfig& config, DType dtype, const KvFormat& format,
                            std::span<const std::int64_t> lengths);

 private:
  void add_chunk(Device& device, const PromptChunk& chunk, std::span<const std::vector<int>> prompts,
                 const KvCache& kv, Assembly& assembly, void* last_rows, int* bad_token);
  const ModelConfig& config_;
  DType dtype_;
  std::vector<PromptChunk> chunks_;
  Activations activations_;
  std::optional<KvCache> exact_;  // the unquantized cache for the prompts if decode's is quantized
  std::vector<Buffer> integers_;  // one of each chunk
  std::vector<Call> calls_;
};

}  // namespace warptune
