#include "harness/llama/model_problems.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <string_view>
#include <unordered_set>

#include "harness/core/lookup.h"
#include "kernels/common/near_positions.h"
#include "kernels/linear/args.h"

namespace warptune {
namespace {

std::string str(std::int64_t value) { return std::to_string(value); }

const char* yes_no(bool value) { return value ? "yes" : "no"; }

const char* norm_before(const Fusion& fusion) {
  return fusion.split_norm ? "rms_scale" : fusion.norm ? "rms_norm" : "none";
}
const char* residual_after(const Fusion& fusion) {
  return fusion.split_norm ? "add_rms" : fusion.norm ? "add" : "none";
}

const char* label(RopeKind kind) {
  static constexpr const char* kLabels[] = {"none", "linear", "dynamic_ntk", "llama3", "none", "none"};
  return kLabels[static_cast<std::size_t>(kind)];
}

const char* label(KLayout layout) { return layout == KLayout::dsx ? "dsx" : "sd"; }

/// The label of dim kv_dtype.
std::string kv_label(const KvFormat& kv) {
  return kv.quantized ? std::string(name_of(*kv.quantized)) : "same";
}

/// The dim `window`: 0 unless it is smaller than `keys`.
std::string window_of(const KvFormat& kv, std::int64_t keys) { return str(kv.window < keys ? kv.window : 0); }

/// Problems in order, each once.
class ProblemList {
 public:
  void add(Problem problem) {
    if (keys_.insert(problem.key()).second) problems_.push_back(std::move(problem));
  }
  std::vector<Problem> take() { return std::move(problems_); }

 private:
  std::vector<Problem> problems_;
  std::unordered_set<std::string> keys_;
};

void add_layer(ProblemList& problems, const ModelProblems& of, std::int64_t tokens, std::int64_t batch,
               std::int64_t positions) {
  for (Problem& p :
       std::vector{of.embedding(tokens), of.rms_norm(tokens), of.rope_append(tokens, batch, positions)})
    problems.add(std::move(p));
  for (Problem& p : of.layer_gemms(tokens, {})) problems.add(std::move(p));
}

/// What a decode step may take instead of the GEMMs of add_layer() and add_tail().
void add_fused(ProblemList& problems, const ModelProblems& of, std::int64_t batch) {
  for (const Fusion& fusion : of.fusions(batch)) {
    for (Problem& p : of.layer_gemms(batch, fusion)) problems.add(std::move(p));
    for (const bool argmax : {false, true})
      if (!argmax || of.can_fuse_argmax())
        problems.add(
            of.lm_head(batch, {.norm = fusion.norm, .argmax = argmax, .split_norm = fusion.split_norm}));
  }
}

void add_tail(ProblemList& problems, const ModelProblems& of, std::int64_t batch) {
  problems.add(of.lm_head(batch));
  if (!of.can_fuse_argmax()) problems.add(of.all_gather(batch));
  for (Problem& p : std::vector{of.argmax(batch), of.top_k(batch, 50), of.advance(batch)})
    problems.add(std::move(p));
}

}  // namespace

Problem ModelProblems::make(const char* op,
                            const std::vector<std::pair<std::string, std::string>>& dims) const {
  return ops_.find(op).op.problem(dims, dtype_);
}
Problem ModelProblems::embedding(std::int64_t tokens) const {
  return make("embedding",
              {{"tokens", str(tokens)}, {"vocab", str(config_.vocab)}, {"hidden", str(config_.hidden)}});
}
Problem ModelProblems::gather(std::int64_t tokens, std::int64_t rows) const {
  return make("embedding", {{"tokens", str(tokens)}, {"vocab", str(rows)}, {"hidden", str(config_.hidden)}});
}
Problem ModelProblems::gather_heads(std::int64_t tokens, std::int64_t rows) const {
  return make("embedding",
              {{"tokens", str(tokens)}, {"vocab", str(rows)}, {"hidden", str(config_.head_dim)}});
}
Problem ModelProblems::rms_norm(std::int64_t tokens) const {
  return make("rms_norm", {{"tokens", str(tokens)}, {"hidden", str(config_.hidden)}});
}
Problem ModelProblems::add_rms_norm(std::int64_t tokens) const {
  return make("add_rms_norm", {{"tokens", str(tokens)}, {"hidden", str(config_.hidden)}});
}
Problem ModelProblems::all_reduce(std::int64_t tokens) const {
  const std::int64_t bytes = tokens * config_.hidden * static_cast<std::int64_t>(size_of(dtype_));
  return make("all_reduce", {{"bytes", str(bytes)}, {"ranks", str(config_.shard.ranks)}});
}
Problem ModelProblems::all_reduce_add_rms_norm(std::int64_t tokens) const {
  return make(
      "all_reduce_add_rms_norm",
      {{"tokens", str(tokens)}, {"hidden", str(config_.hidden)}, {"ranks", str(config_.shard.ranks)}});
}
Problem ModelProblems::all_gather(std::int64_t tokens) const {
  return make(
      "all_gather",
      {{"tokens", str(tokens)}, {"columns", str(head_rows(config_))}, {"ranks", str(config_.shard.ranks)}});
}
std::vector<Problem> ModelProblems::add_to_residual(std::int64_t tokens) const {
  if (config_.shard.ranks == 1) return {add_rms_norm(tokens)};
  if (tokens <= kMaxFusedTokens) return {all_reduce_add_rms_norm(tokens)};
  return {all_reduce(tokens), add_rms_norm(tokens)};
}
Problem ModelProblems::linear(std::int64_t tokens, std::int64_t in, std::int64_t out, bool bias,
                              const char* prologue, const char* epilogue) const {
  return make("linear", {{"tokens", str(tokens)},
                         {"in", str(in)},
                         {"out", str(out)},
                         {"bias", yes_no(bias)},
                         {"prologue", prologue},
                         {"epilogue", epilogue}});
}
Problem ModelProblems::qkv(std::int64_t tokens, const Fusion& fusion, int layer) const {
  const LayerFormats formats = config_.formats_of(layer);
  const int rows = config_.qkv_width() - (formats.has_v_apart() ? config_.kv_width() : 0);
  return with_weights(linear(tokens, config_.hidden, rows, false, norm_before(fusion)), formats.qk);
}
std::optional<Problem> ModelProblems::v(std::int64_t tokens, const Fusion& fusion, int layer) const {
  const LayerFormats formats = config_.formats_of(layer);
  if (!formats.has_v_apart()) return std::nullopt;
  return with_weights(linear(tokens, config_.hidden, config_.kv_width(), false, norm_before(fusion)),
                      formats.v);
}
Problem ModelProblems::o(std::int64_t tokens, const Fusion& fusion, int layer) const {
  return with_weights(
      linear(tokens, config_.q_width(), config_.hidden, config_.o_bias, "none", residual_after(fusion)),
      config_.formats_of(layer).o);
}
Problem ModelProblems::gate_up(std::int64_t tokens, const Fusion& fusion, int layer) const {
  const std::int64_t rows = (fusion.swiglu ? 1LL : 2LL) * config_.intermediate;
  return with_weights(linear(tokens, config_.hidden, rows, !fusion.swiglu && config_.mlp_bias,
                             norm_before(fusion), fusion.swiglu ? "swiglu" : "none"),
                      config_.formats_of(layer).gate_up);
}
Problem ModelProblems::down(std::int64_t tokens, const Fusion& fusion, int layer) const {
  return with_weights(
      linear(tokens, config_.intermediate, config_.hidden, config_.mlp_bias, "none", residual_after(fusion)),
      config_.formats_of(layer).down);
}
Problem ModelProblems::lm_head(std::int64_t tokens, const Fusion& fusion) const {
  return with_weights(linear(tokens, config_.hidden, head_rows(config_), false, norm_before(fusion),
                             fusion.argmax ? "argmax" : "none"),
                      config_.head_format);
}
std::vector<Problem> ModelProblems::layer_gemms(std::int64_t tokens, const Fusion& fusion) const {
  const bool apart = !fusion.norm && !fusion.split_norm;
  std::vector<Problem> problems;
  const auto add_residual = [&] {
    if (apart) std::ranges::move(add_to_residual(tokens), std::back_inserter(problems));
  };
  for (const int layer : config_.layers_of_each_format()) {
    problems.push_back(qkv(tokens, fusion, layer));
    if (auto apart_v = v(tokens, fusion, layer)) problems.push_back(std::move(*apart_v));
    if (!fusion.o) problems.push_back(o(tokens, fusion, layer));
    add_residual();
    problems.push_back(gate_up(tokens, fusion, layer));
    if (!fusion.swiglu) problems.push_back(swiglu(tokens));
    problems.push_back(down(tokens, fusion, layer));
    add_residual();
  }
  return problems;
}
Problem ModelProblems::rope_append(std::int64_t tokens, std::int64_t batch, std::int64_t positions) const {
  return make("rope_append", {{"tokens", str(tokens)},
                              {"q_heads", str(config_.q_heads)},
                              {"kv_heads", str(config_.kv_heads)},
                              {"head_dim", str(config_.head_dim)},
                              {"batch", str(batch)},
                              {"style", "half_split"},
                              {"scaling", label(config_.rope.kind)},
                              {"bias", yes_no(config_.qkv_bias)},
                              {"k_layout", label(kv_.k_layout)},
                              {"start", str(positions > kNearPositions ? kNearPositions : 0)},
                              {"kv_dtype", kv_label(kv_)},
                              {"page_size", str(kv_.page_size)},
                              {"qk_norm", yes_no(config_.qk_norm)}});
}
Problem ModelProblems::attention_decode(std::int64_t batch, std::int64_t context, bool append,
                                        bool with_o) const {
  const bool theta_grows = config_.rope.kind == RopeKind::dynamic_ntk;
  return make("attention_decode", {{"batch", str(batch)},
                                   {"q_heads", str(config_.q_heads)},
                                   {"kv_heads", str(config_.kv_heads)},
                                   {"head_dim", str(config_.head_dim)},
                                   {"context", str(context)},
                                   {"uneven", "no"},
                                   {"k_layout", label(kv_.k_layout)},
                                   {"append", yes_no(append)},
                                   {"bias", yes_no(append && config_.qkv_bias)},
                                   {"kv_dtype", kv_label(kv_)},
                                   {"kv_scale", kv_.quantized ? "token" : "head"},
                                   {"page_size", str(kv_.page_size)},
                                   {"window", window_of(kv_, context)},
                                   {"scaling", append && theta_grows ? "dynamic_ntk" : "none"},
                                   {"qk_norm", yes_no(append && config_.qk_norm)},
                                   {"epilogue", with_o ? "project" : "none"},
                                   {"hidden", str(with_o ? config_.hidden : 0)}});
}
bool ModelProblems::can_split_norm() const {
  return can_fuse_norm() && config_.hidden % kSquaresGroup == 0 && dtype_ != DType::fp16;
}
std::vector<Fusion> ModelProblems::fusions(std::int64_t tokens) const {
  if (tokens > kMaxFusedTokens) return {};
  const bool norm = can_fuse_norm() && tokens <= kMaxFusedNormTokens, splits = tokens > 1 && can_split_norm();
  std::vector<Fusion> fusions;
  for (const bool swiglu : {true, false}) {
    if (swiglu && !can_fuse_swiglu()) continue;
    if (swiglu) fusions.push_back({.swiglu = true});
    if (norm) fusions.push_back({.norm = true, .swiglu = swiglu});
    if (splits) fusions.push_back({.swiglu = swiglu, .split_norm = true});
  }
  return fusions;
}
bool ModelProblems::can_fuse_o(std::int64_t batch) const {
  const std::int64_t bytes = static_cast<std::int64_t>(config_.hidden) * config_.q_width() *
                             static_cast<std::int64_t>(size_of(dtype_));
  return batch <= kMaxFusedOTokens && bytes <= kMaxFusedOBytes && !config_.qkv_bias && !config_.o_bias &&
         config_.rope.kind != RopeKind::dynamic_ntk && can_fuse_norm() && !config_.weights.quantized();
}
Problem ModelProblems::attention_prefill(std::int64_t batch, std::int64_t q_len, std::int64_t kv_len,
                                         bool uneven) const {
  return make("attention_prefill", {{"batch", str(batch)},
                                    {"q_len", str(q_len)},
                                    {"kv_len", str(kv_len)},
                                    {"q_heads", str(config_.q_heads)},
                                    {"kv_heads", str(config_.kv_heads)},
                                    {"head_dim", str(config_.head_dim)},
                                    {"causal", "yes"},
                                    {"uneven", yes_no(uneven)},
                                    {"window", window_of(kv_, kv_len)},
                                    {"page_size", str(kv_.page_size)},
                                    {"k_layout", label(kv_.k_layout)}});
}
Problem ModelProblems::swiglu(std::int64_t tokens) const {
  return make("swiglu", {{"tokens", str(tokens)}, {"intermediate", str(config_.intermediate)}});
}
Problem ModelProblems::argmax(std::int64_t batch) const {
  return make("argmax", {{"batch", str(batch)}, {"vocab", str(config_.vocab)}});
}
Problem ModelProblems::top_k(std::int64_t batch, std::int64_t k, bool repetition_penalty, bool min_p) const {
  return make("top_k", {{"batch", str(batch)},
                        {"vocab", str(config_.vocab)},
                        {"k", str(k == 0 ? config_.vocab : std::min<std::int64_t>(k, config_.vocab))},
                        {"repetition_penalty", yes_no(repetition_penalty)},
                        {"min_p", yes_no(min_p)}});
}
Problem ModelProblems::advance(std::int64_t batch) const {
  const OpEntry& entry = ops_.find("advance");
  const bool takes = contains(entry.op.dtypes, dtype_);
  return entry.op.problem(Assignment{{"batch", batch}}, takes ? dtype_ : entry.op.dtypes.front());
}

std::int64_t context_bucket(std::int64_t length) {
  return static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(length, 64))));
}

std::vector<std::int64_t> distinct_buckets(std::span<const std::int64_t> contexts) {
  std::vector<std::int64_t> buckets;  // at most 64
  for (const std::int64_t context : contexts)
    if (const std::int64_t bucket = context_bucket(context); !contains(buckets, bucket))
      buckets.push_back(bucket);
  return buckets;
}

int PromptChunk::tokens() const {
  int sum = 0;
  for (const Piece& piece : pieces) sum += piece.end - piece.begin;
  return sum;
}
int PromptChunk::longest_query() const {
  int longest = 0;
  for (const Piece& piece : pieces) longest = std::max(longest, piece.end - piece.begin);
  return longest;
}
int PromptChunk::longest_context() const {
  int longest = 0;
  for (const Piece& piece : pieces) longest = std::max(longest, piece.end);
  return longest;
}
bool PromptChunk::uneven() const {
  return std::ranges::any_of(pieces, [&](const Piece& piece) {
    return piece.begin != pieces[0].begin || piece.end != pieces[0].end;
  });
}

std::int64_t activation_bytes(const ModelConfig& c, DType dtype) {
  return (3LL * c.hidden + std::max(2 * c.intermediate, c.qkv_width()) +
          std::max(c.intermediate, c.q_width()) + (c.has_v_apart() ? c.qkv_width() : 0)) *
         static_cast<std::int64_t>(size_of(dtype));
}

std::int64_t chunk_tokens(const ModelConfig& config, DType dtype) {
  constexpr std::int64_t budget = 240 << 20;
  constexpr std::int64_t step = 256;  // splits at multiples of this do not cut tiles
  const auto fit = static_cast<std::uint64_t>(budget / activation_bytes(config, dtype));
  return std::max(static_cast<std::int64_t>(std::bit_floor(fit)), step);
}

std::vector<PromptChunk> chunk_prompts(const ModelConfig& config, DType dtype,
                                       std::span<const std::int64_t> lengths) {
  const std::int64_t max_tokens = chunk_tokens(config, dtype);
  std::vector<PromptChunk> chunks;
  PromptChunk open;
  const auto close = [&](int next) {
    if (!open.pieces.empty()) chunks.push_back(std::move(open));
    open = {.first_sequence = next};
  };
  for (int sequence = 0; sequence < static_cast<int>(lengths.size()); ++sequence) {
    const std::int64_t length = lengths[sequence];
    if (open.tokens() + length > max_tokens) close(sequence);
    if (length <= max_tokens) {
      open.pieces.push_back({0, static_cast<int>(length)});
      continue;
    }
    for (std::int64_t begin = 0; begin < length; begin += max_tokens) {
      const std::int64_t end = std::min(begin + max_tokens, length);
      open = {.first_sequence = sequence, .pieces = {{static_cast<int>(begin), static_cast<int>(end)}}};
      close(sequence + 1);
    }
  }
  close(0);
  return chunks;
}

std::int64_t prompt_pieces(const ModelConfig& config, DType dtype, std::int64_t length) {
  const std::int64_t tokens = chunk_tokens(config, dtype);
  return (length + tokens - 1) / tokens;
}

int launches_of(const ModelConfig& config, const Problem& problem) {
  constexpr std::array<std::string_view, 6> kOnce = {"embedding", "rms_norm", "all_gather",
                                                     "argmax",    "top_k",    "advance"};
  const bool is_lm_head = problem.op == "linear" && problem["out"] == head_rows(config);
  if (is_lm_head || contains(kOnce, problem.op)) return 1;
  if (problem.op != "linear" || !config.has_mixed_formats()) return config.layers;
  const auto has_its_format = [&](const LayerFormats& f) {
    return std::ranges::any_of(
        std::array{f.qk, f.v, f.o, f.gate_up, f.down}, [&](const WeightFormat& format) {
          return problem["in"] % format.unit_columns() == 0 && with_weights(problem, format) == problem;
        });
  };
  return static_cast<int>(std::ranges::count_if(config.layer_formats, has_its_format));
}

std::vector<Problem> decode_problems(const OpTable& ops, const ModelConfig& config, DType dtype, int batch,
                                     std::span<const std::int64_t> contexts, const KvFormat& kv) {
  const ModelProblems of(ops, config, dtype, kv);
  ProblemList problems;
  const std::vector<std::int64_t> buckets = distinct_buckets(contexts);
  add_layer(problems, of, batch, batch, buckets.empty() ? 0 : std::ranges::min(buckets));
  add_fused(problems, of, batch);
  for (const std::int64_t context : buckets) {
    problems.add(of.rope_append(batch, batch, context));
    problems.add(of.attention_decode(batch, context, false));
    problems.add(of.attention_decode(batch, context, true));
    if (of.can_fuse_o(batch)) problems.add(of.attention_decode(batch, context, true, true));
  }
  add_tail(problems, of, batch);
  return problems.take();
}

std::vector<Problem> prefill_problems(const OpTable& ops, const ModelConfig& config, DType dtype, int batch,
                                      std::span<const std::int64_t> prompt_lens, const KvFormat& kv) {
  const ModelProblems of(ops, config, dtype, kv);
  const ModelProblems attended(ops, config, dtype, attended_in_prefill(kv));
  ProblemList problems;
  for (const std::int64_t length : prompt_lens) {
    // Equal prompts fill equal chunks: one full chunk and the remainder stand for all.
    const std::int64_t full = std::max<std::int64_t>(chunk_tokens(config, dtype) / length, 1);
    const std::int64_t prompts = batch <= 2 * full ? batch : full + batch % full;
    const std::vector<std::int64_t> lengths(static_cast<std::size_t>(prompts), length);
    for (const PromptChunk& chunk : chunk_prompts(config, dtype, lengths)) {
      const auto sequences = static_cast<std::int64_t>(chunk.pieces.size());
      add_layer(problems, of, chunk.tokens(), sequences, length);
      problems.add(attended.rope_append(chunk.tokens(), sequences, length));
      problems.add(
          attended.attention_prefill(sequences, chunk.longest_query(), chunk.longest_context(), false));
    }
  }
  add_tail(problems, of, batch);
  return problems.take();
}

}  // namespace warptune
