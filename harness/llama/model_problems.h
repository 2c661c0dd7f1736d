#pragma once
// The problems that a model's decode step and prefill solve. The model looks up its plans by the same
// problems that sweeps tune.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/op_table.h"
#include "harness/llama/fusion.h"
#include "harness/llama/kv_format.h"
#include "harness/llama/tensor_parallel.h"

namespace warptune {

/// attention_decode with o is for at most so many sequences, and for an o that the shared memory of all SMs
/// holds.
inline constexpr std::int64_t kMaxFusedOTokens = 1, kMaxFusedOBytes = 20'000'000;
/// Kernels with a fused norm, SwiGLU or argmax are for at most so many tokens.
inline constexpr std::int64_t kMaxFusedTokens = 64;
/// With more tokens every block would normalize too many rows.
inline constexpr std::int64_t kMaxFusedNormTokens = 16;

/// One problem per op, for `tokens` rows or `batch` sequences. `kv`: the format of the cache.
class ModelProblems {
 public:
  /// The table and the model must outlive it.
  ModelProblems(const OpTable& ops, const ModelConfig& config, DType dtype, const KvFormat& kv = {})
      : ops_(ops), config_(config), dtype_(dtype), kv_(kv) {}

  Problem embedding(std::int64_t tokens) const;
  /// Row gathers by the embedding op: `tokens` of `rows` rows, which are hidden states or heads.
  Problem gather(std::int64_t tokens, std::int64_t rows) const;
  Problem gather_heads(std::int64_t tokens, std::int64_t rows) const;
  Problem rms_norm(std::int64_t tokens) const;
  Problem add_rms_norm(std::int64_t tokens) const;
  /// The sum over ranks of what goes to the residual stream.
  Problem all_reduce(std::int64_t tokens) const;
  Problem all_reduce_add_rms_norm(std::int64_t tokens) const;
  /// Collects the logits of a vocabulary that is split over ranks.
  Problem all_gather(std::int64_t tokens) const;
  /// From what o and down leave to the norm of the residual stream: one launch, or with ranks and many tokens
  /// two.
  std::vector<Problem> add_to_residual(std::int64_t tokens) const;
  /// On weights that are not quantized.
  Problem linear(std::int64_t tokens, std::int64_t in, std::int64_t out, bool bias = false,
                 const char* prologue = "none", const char* epilogue = "none") const;
  /// The GEMMs of a layer, on weights in its formats. The first layer's qkv follows no GEMM: with a split
  /// norm it is that of {}. Without v where that is apart.
  Problem qkv(std::int64_t tokens, const Fusion& fusion = {}, int layer = 0) const;
  /// None where v is a part of qkv.
  std::optional<Problem> v(std::int64_t tokens, const Fusion& fusion = {}, int layer = 0) const;
  Problem o(std::int64_t tokens, const Fusion& fusion = {}, int layer = 0) const;
  Problem gate_up(std::int64_t tokens, const Fusion& fusion = {}, int layer = 0) const;
  Problem down(std::int64_t tokens, const Fusion& fusion = {}, int layer = 0) const;
  Problem lm_head(std::int64_t tokens, const Fusion& fusion = {}) const;
  /// The norms, GEMMs and swiglu of a layer, in their order, for each combination of formats that layers
  /// have.
  std::vector<Problem> layer_gemms(std::int64_t tokens, const Fusion& fusion) const;
  /// `positions`: for which the cache has room; beyond kNearPositions kernels reduce angles in fp64.
  Problem rope_append(std::int64_t tokens, std::int64_t batch, std::int64_t positions) const;
  /// `append`: bias, RoPE and the append to the cache are fused in; of the scalings only dynamic_ntk changes
  /// the kernel, the others the table of frequencies. A window that is not smaller than the context is
  /// omitted.
  /// `with_o`: o and its residual add are fused in, too; needs can_fuse_o() and `append`.
  Problem attention_decode(std::int64_t batch, std::int64_t context, bool append, bool with_o = false) const;
  bool can_fuse_o(std::int64_t batch) const;
  /// The residual is added, and its norm taken, after the exchange of ranks.
  bool can_fuse_norm() const { return config_.shard.ranks == 1; }
  /// Each rank has the logits of the whole vocabulary.
  bool can_fuse_argmax() const { return !splits_vocabulary(config_); }
  /// The epilogue has no bias.
  bool can_fuse_swiglu() const { return !config_.mlp_bias; }
  /// Whether the residual stream has whole groups of squares, its dtype the range for x times a weight, and
  /// the weights kernels for it: those that are not quantized.
  bool can_split_norm() const;
  /// The fusions of norm and SwiGLU that are worth a trial for `tokens` tokens beside separate launches:
  /// kernels for half a norm are for two tokens and more.
  std::vector<Fusion> fusions(std::int64_t tokens) const;
  /// On an unquantized cache.
  Problem attention_prefill(std::int64_t batch, std::int64_t q_len, std::int64_t kv_len, bool uneven) const;
  Problem swiglu(std::int64_t tokens) const;
  Problem argmax(std::int64_t batch) const;
  /// `k` 0: all logits.
  Problem top_k(std::int64_t batch, std::int64_t k, bool repetition_penalty = false,
                bool min_p = false) const;
  Problem advance(std::int64_t batch) const;

 private:
  Problem make(const char* op, const std::vector<std::pair<std::string, std::string>>& dims) const;

  const OpTable& ops_;
  const ModelConfig& config_;
  DType dtype_;
  KvFormat kv_;
};

/// The bucket of a context of `length` keys: a power of two, at least 64.
std::int64_t context_bucket(std::int64_t length);

/// The buckets of these contexts, each once, in the order of their first contexts.
std::vector<std::int64_t> distinct_buckets(std::span<const std::int64_t> contexts);

/// The prompts of one prefill pass: tokens [begin, end) of consecutive sequences.
struct PromptChunk {
  struct Piece {
    int begin, end;
  };
  int first_sequence = 0;
  std::vector<Piece> pieces;
  int tokens() const;
  int longest_query() const;
  int longest_context() const;
  bool uneven() const;
};

/// Packs prompts into chunks with bounded activations (see the memory limit of decode). Splits a prompt that
/// is too long for one chunk.
std::vector<PromptChunk> chunk_prompts(const ModelConfig& config, DType dtype,
                                       std::span<const std::int64_t> lengths);
/// The most tokens of a chunk: a power of two whose activations fit the budget.
std::int64_t chunk_tokens(const ModelConfig& config, DType dtype);
/// How many chunks a prompt of this length takes by itself.
std::int64_t prompt_pieces(const ModelConfig& config, DType dtype, std::int64_t length);
/// Bytes of one token's activations.
std::int64_t activation_bytes(const ModelConfig& config, DType dtype);

/// How often a decode step or a prefill launches a problem of the model: once per layer, or once. With mixed
/// formats a GEMM counts for each layer that has a matrix in its format.
int launches_of(const ModelConfig& config, const Problem& problem);

/// Every distinct problem of a decode step at each context (to its bucket), greedy and top-k 50.
std::vector<Problem> decode_problems(const OpTable& ops, const ModelConfig& config, DType dtype, int batch,
                                     std::span<const std::int64_t> contexts, const KvFormat& kv = {});
/// Every distinct problem of a prefill of `batch` prompts of each length.
std::vector<Problem> prefill_problems(const OpTable& ops, const ModelConfig& config, DType dtype, int batch,
                                      std::span<const std::int64_t> prompt_lens, const KvFormat& kv = {});

}  // namespace warptune
