#pragma once
// Builds the sequence of plan launches that takes rows of tokens through a LLaMA. Decode and prefill differ
// only in the attention.
#include <memory>
#include <vector>

#include "harness/llama/call.h"
#include "harness/llama/kv_cache.h"
#include "harness/llama/model_problems.h"
#include "harness/llama/weights.h"

namespace warptune {

/// The activations of `tokens` rows. `rows_a` holds what a layer's next matrix reads.
struct Activations {
  Activations(Device& device, const ModelConfig& config, DType dtype, int tokens);
  int tokens;
  Buffer residual;        // [tokens, hidden]: the residual stream
  Buffer rows_a, rows_b;  // [tokens, max(hidden, q_heads * head_dim)], [tokens, hidden]
  Buffer wide;            // [tokens, max(qkv, 2 * intermediate)]
  Buffer inner;           // [tokens, max(q, intermediate)]
  Buffer squares;  // [tokens, hidden / kSquaresGroup] fp32, of the residual stream, where a norm is split
  // For more than one token, where v is a matrix of its own in some layer:
  Buffer qk_and_v;  // [tokens, q + k], then [tokens, v]
  Buffer heads;     // [tokens, q_heads + 2 * kv_heads] int32: where qk_and_v has the heads of qkv
  Buffer bad_head;  // [1] int32, as op embedding has it
};

/// Device arrays with the sequence and position of each row.
struct RowPositions {
  const int* sequence;  // [tokens]
  const int* position;  // [tokens]
  const int* lengths;   // [batch]: keys of each sequence, its new tokens included
};

class Assembly {
 public:
  /// `fusion` is what it fuses: a prefill nothing. `inv_freq`: [2, head_dim / 2], the frequencies and zeros.
  Assembly(const ModelConfig& config, const Weights& weights, const float* inv_freq, PlanBook& book,
           const Activations& activations, int tokens, const Fusion& fusion = {});

  /// Embeds token ids into the residual stream and applies the first norm, unless it is fused into qkv.
  void begin(const int* ids, int* bad_token);
  void qkv(int layer);
  /// Splits qkv, adds the bias, normalizes heads, rotates, appends to `to`, a layer of `cache`. `name`: of
  /// the outputs.
  void rope_append(int layer, const KvCache& cache, const KvCache::View& to, int batch,
                   const RowPositions& rows, const char* name = "rope_append");
  /// One query per sequence, with rope_append unless it was called before, and with o where that is fused.
  void attention_decode(int layer, const KvCache& cache, int batch, const RowPositions& rows,
                        std::int64_t context);
  /// Attends to `from`, a layer of an unquantized `cache`.
  void attention_prefill(int layer, const KvCache& cache, const KvCache::View& from, const PromptChunk& chunk,
                         const int* cu_seqlens, const int* kv_lens);
  /// From the attention's output to the rows that the next layer (or the head) reads.
  void finish_layer(int layer);
  /// Gathers rows of `rows_a` by index into `to`.
  void gather(const int* indices, int count, void* to, int* bad_token);

  std::vector<Call> take() { return std::move(calls_); }

  /// The logits of the final hidden states, with a split vocabulary those of this rank; with a fused argmax
  /// also the ids.
  static Call lm_head(const ModelConfig& config, const Weights& weights, PlanBook& book,
                      const Activations& activations, int batch, void* logits, int* ids,
                      const Fusion& fusion = {});
  /// The logits of the whole vocabulary, of the parts that ranks have.
  static Call all_gather(const ModelConfig& config, DType dtype, PlanBook& book, int batch, const void* part,
                         void* logits);

 private:
  /// The GEMM that follows in the step; null: none, or one that nothing prefetches.
  struct NextGemm {
    const Matrix* weight = nullptr;
    std::int64_t in = 0;  // columns
  };

  template <class T>
  void add(std::shared_ptr<const PlanEntry> entry, const T& args, std::vector<Output> outputs) {
    calls_.push_back({std::move(entry), Args(args), std::move(outputs), layer_});
  }
  /// One row per token, in the dtype of the weights.
  Output output(int layer, const char* op, const Buffer& data, std::int64_t width,
                const char* tensor = "out") const {
    return Output::dense(layer, op, tensor, weights_.dtype, tokens_, width, data.data());
  }
  /// The keys and values of the tokens in a layer of the cache.
  void add_appended(std::vector<Output>& outputs, int layer, const char* op, const KvCache& cache,
                    const KvCache::View& view, const RowPositions& rows) const;
  ModelProblems of(const KvCache& cache) const {
    return {book_.ops(), config_, weights_.dtype, cache.format()};
  }
  /// `problem`: but for the format of `weight`. `norm_weight` and `residual`: null where the problem has no
  /// such prologue or epilogue. A kernel may prefetch the weights of `next`.
  void linear(const Problem& problem, const void* x, const Matrix& weight, const Buffer& bias, void* y,
              std::vector<Output> outputs, const void* norm_weight, const void* residual,
              const NextGemm& next);
  /// A GEMM that ends in the residual stream, and the norm that follows; `norm` names both.
  void linear_to_residual(int layer, const char* name, const char* norm, const Problem& problem,
                          const void* x, const Matrix& weight, const Buffer& bias, const Buffer& norm_weight,
                          const NextGemm& next);
  /// [head_dim / 2]; zeros where the layer does not rotate.
  const float* inv_freq(int layer) const;
  /// Adds rows_b to the residual stream, with ranks that of all, and applies the norm of `weight`.
  void add_norm(int layer, const char* name, const Buffer& weight);

  const ModelConfig& config_;
  const Weights& weights_;
  const float* inv_freq_;
  PlanBook& book_;
  const Activations& activations_;
  int tokens_;
  Fusion fusion_;
  int layer_ = -1;  // the layer of the calls that are added
  ModelProblems problems_;
  std::vector<Call> calls_;
};

}  // namespace warptune
