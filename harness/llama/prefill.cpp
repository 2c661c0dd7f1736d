#include "harness/llama/prefill.h"

#include <algorithm>

namespace warptune {
namespace {

std::vector<PromptChunk> chunks_of(const ModelConfig& config, DType dtype,
                                   std::span<const std::vector<int>> prompts) {
  std::vector<std::int64_t> lengths;
  for (const auto& prompt : prompts) lengths.push_back(static_cast<std::int64_t>(prompt.size()));
  return chunk_prompts(config, dtype, lengths);
}

int max_tokens(std::span<const PromptChunk> chunks) {
  int max = 0;
  for (const PromptChunk& chunk : chunks) max = std::max(max, chunk.tokens());
  return max;
}

/// The unquantized cache of the sequences of one chunk. All layers share its memory, unless a prompt is
/// split: later chunks then need the keys of all layers.
struct ExactCache {
  int layers = 1, batch = 1, capacity = 1;

  ExactCache(const ModelConfig& config, std::span<const PromptChunk> chunks) {
    for (const PromptChunk& chunk : chunks) {
      if (chunk.pieces[0].begin > 0) layers = config.layers;
      batch = std::max(batch, static_cast<int>(chunk.pieces.size()));
      capacity = std::max(capacity, chunk.longest_context());
    }
  }
};

/// The integer arrays of a chunk in one buffer; put() returns the address of each.
class IntegerPack {
 public:
  std::size_t put(const std::vector<int>& values) {
    const std::size_t at = all_.size();
    all_.insert(all_.end(), values.begin(), values.end());
    all_.resize((all_.size() + 63) / 64 * 64);  // keeps every array 256-byte aligned
    return at;
  }
  Buffer upload(Device& device) const { return uploaded(device, std::as_bytes(std::span(all_))); }

 private:
  std::vector<int> all_;
};

}  // namespace

Prefill::Prefill(Device& device, const ModelConfig& config, const Weights& weights, const KvCache& kv,
                 const float* inv_freq, PlanBook& book, std::span<const std::vector<int>> prompts,
                 void* last_rows, int* bad_token)
    : config_(config),
      dtype_(weights.dtype),
      chunks_(chunks_of(config, dtype_, prompts)),
      activations_(device, config, dtype_, max_tokens(chunks_)) {
  if (kv.format().quantized) {
    const ExactCache exact(config, chunks_);
    exact_.emplace(device, config, dtype_, attended_in_prefill(kv.format()), exact.layers, exact.batch,
                   exact.capacity);
  }
  for (const PromptChunk& chunk : chunks_) {
    Assembly assembly(config, weights, inv_freq, book, activations_, chunk.tokens());
    add_chunk(device, chunk, prompts, kv, assembly, last_rows, bad_token);
    std::ranges::move(assembly.take(), std::back_inserter(calls_));
  }
}

void Prefill::add_chunk(Device& device, const PromptChunk& chunk, std::span<const std::vector<int>> prompts,
                        const KvCache& kv, Assembly& assembly, void* last_rows, int* bad_token) {
  std::vector<int> ids, sequence, position, starts = {0}, kv_lens, whole_lens, ends;
  for (std::size_t i = 0; i < chunk.pieces.size(); ++i) {
    const auto [begin, end] = chunk.pieces[i];
    const auto& prompt = prompts[static_cast<std::size_t>(chunk.first_sequence) + i];
    for (int t = begin; t < end; ++t) {
      ids.push_back(prompt[t]);
      sequence.push_back(static_cast<int>(i));
      position.push_back(t);
    }
    starts.push_back(static_cast<int>(ids.size()));
    kv_lens.push_back(end);
    whole_lens.push_back(static_cast<int>(prompt.size()));
    if (end == static_cast<int>(prompt.size())) ends.push_back(starts.back() - 1);
  }
  IntegerPack pack;
  const std::size_t ids_at = pack.put(ids), sequence_at = pack.put(sequence),
                    position_at = pack.put(position), starts_at = pack.put(starts), kv_at = pack.put(kv_lens),
                    whole_at = pack.put(whole_lens), ends_at = pack.put(ends);
  integers_.push_back(pack.upload(device));
  const int* base = integers_.back().as<int>();

  const int batch = static_cast<int>(chunk.pieces.size());
  assembly.begin(base + ids_at, bad_token);
  for (int layer = 0; layer < config_.layers; ++layer) {
    assembly.qkv(layer);
    const RowPositions rows = {base + sequence_at, base + position_at, base + whole_at};
    const KvCache::View kept = kv.view(layer, chunk.first_sequence);
    assembly.rope_append(layer, kv, kept, batch, rows);
    if (exact_) {
      const KvCache::View exact = exact_->view(layer % exact_->layers());
      assembly.rope_append(layer, *exact_, exact, batch, rows, "rope_append_exact");
      assembly.attention_prefill(layer, *exact_, exact, chunk, base + starts_at, base + kv_at);
    } else {
      assembly.attention_prefill(layer, kv, kept, chunk, base + starts_at, base + kv_at);
    }
    assembly.finish_layer(layer);
  }
  // Only the last chunk of a split prompt has its last token; in other chunks every sequence ends.
  const std::size_t row_bytes = static_cast<std::size_t>(config_.hidden) * size_of(dtype_);
  if (!ends.empty())
    assembly.gather(
        base + ends_at, static_cast<int>(ends.size()),
        static_cast<std::byte*>(last_rows) + static_cast<std::size_t>(chunk.first_sequence) * row_bytes,
        bad_token);
}

double Prefill::cache_bytes(const ModelConfig& config, DType dtype, const KvFormat& format,
                            std::span<const std::int64_t> lengths) {
  if (!format.quantized) return 0;
  // Two chunks stand for all chunks of a long prompt, which may be many.
  std::vector<std::int64_t> clipped;
  int longest = 0;
  for (const std::int64_t length : lengths) {
    clipped.push_back(std::min(length, chunk_tokens(config, dtype) + 1));
    longest = std::max(longest, static_cast<int>(length));
  }
  ExactCache exact(config, chunk_prompts(config, dtype, clipped));
  exact.capacity = std::max(exact.capacity, longest);
  return KvCache::bytes(config, dtype, attended_in_prefill(format), exact.layers, exact.batch,
                        exact.capacity);
}

}  // namespace warptune
