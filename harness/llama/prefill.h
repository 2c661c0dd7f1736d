#pragma once
// Takes whole prompts of uneven lengths through the model, packed, in chunks that bound the memory.
#include <optional>
#include <span>
#include <vector>

#include "harness/llama/assembly.h"
#include "harness/llama/decode_state.h"

namespace warptune {

/// Holds its own activations, plans and workspaces; they are freed with it.
class Prefill {
 public:
  /// The final hidden state of each prompt's last token goes to row b of `last_rows` [batch, hidden].
  Prefill(Device& device, const ModelConfig& config, const Weights& weights, const KvCache& kv,
          const float* inv_freq, PlanBook& book, std::span<const std::vector<int>> prompts, void* last_rows,
          int* bad_token);
  std::span<const Call> calls() const { return calls_; }

  /// Bytes of the cache that prompts of these lengths attend to where decode's is quantized, else 0.
  static std::int64_t cache_bytes(const ModelConfig& config, DType dtype, const KvFormat& format,
                                  std::span<const std::int64_t> lengths);

 private:
  void add_chunk(Device& device, const PromptChunk& chunk, std::span<const std::vector<int>> prompts,
                 const KvCache& kv, Assembly& assembly, void* last_rows, int* bad_token);
  const ModelConfig& config_;
  DType dtype_;
  std::vector<PromptChunk> chunks_;
  Activations activations_;
  std::optional<KvCache> exact_;  // where decode's cache is quantized: what the prompts attend to
  std::vector<Buffer> integers_;  // of each chunk
  std::vector<Call> calls_;
};

}  // namespace warptune
