#include "harness/llama/assembly.h"

#include <algorithm>

#include "kernels/add_rms_norm/args.h"
#include "kernels/all_gather/args.h"
#include "kernels/all_reduce/args.h"
#include "kernels/all_reduce_add_rms_norm/args.h"
#include "kernels/attention_decode/args.h"
#include "kernels/attention_prefill/args.h"
#include "kernels/embedding/args.h"
#include "kernels/linear/args.h"
#include "kernels/linear/packed_weights.h"
#include "kernels/rms_norm/args.h"
#include "kernels/rope_append/args.h"
#include "kernels/swiglu/args.h"

namespace warptune {
namespace {

Buffer rows(Device& device, DType dtype, std::int64_t tokens, std::int64_t width) {
  return device.allocate(static_cast<std::size_t>(tokens * width) * size_of(dtype));
}

/// The struct that the kernels of a GEMM take.
Args args_of(const PrefetchLinearArgs& args, const Matrix& weight) {
  if (!weight.format.quantized()) return Args(args);
  return Args(QuantizedLinearArgs{args, weight.scales.data(), weight.zeros.as<signed char>(),
                                  weight.order.as<int>(), weight.row_scales.as<float>()});
}

/// The rows that a GEMM reads which follows a norm: normalized, or what its prologue takes.
const void* rows_of(const Activations& a, const Problem& linear) {
  if (linear["prologue"] == kPrologueRmsNorm) return a.residual.data();
  return (linear["prologue"] == kPrologueRmsScale ? a.rows_b : a.rows_a).data();
}

}  // namespace

Activations::Activations(Device& device, const ModelConfig& c, DType dtype, int tokens)
    : tokens(tokens),
      residual(rows(device, dtype, tokens, c.hidden)),
      rows_a(rows(device, dtype, tokens, std::max(c.hidden, c.q_width()))),
      rows_b(rows(device, dtype, tokens, c.hidden)),
      wide(rows(device, dtype, tokens, std::max(c.qkv_width(), 2 * c.intermediate))),
      inner(rows(device, dtype, tokens, std::max(c.q_width(), c.intermediate))),
      squares(rows(device, DType::fp32, tokens, ceil_div(c.hidden, kSquaresGroup))) {
  if (tokens == 1 || !c.has_v_apart()) return;
  qk_and_v = rows(device, dtype, tokens, c.qkv_width());
  bad_head = rows(device, DType::int32, 1, 1);
  std::vector<int> from;
  for (int token = 0; token < tokens; ++token) {
    for (int head = 0; head < c.q_heads + c.kv_heads; ++head)
      from.push_back(token * (c.q_heads + c.kv_heads) + head);
    for (int head = 0; head < c.kv_heads; ++head)
      from.push_back(tokens * (c.q_heads + c.kv_heads) + token * c.kv_heads + head);
  }
  heads = uploaded(device, std::as_bytes(std::span(from)));
}

Assembly::Assembly(const ModelConfig& config, const Weights& weights, const float* inv_freq, PlanBook& book,
                   const Activations& activations, int tokens, const Fusion& fusion)
    : config_(config),
      weights_(weights),
      inv_freq_(inv_freq),
      book_(book),
      activations_(activations),
      tokens_(tokens),
      fusion_(fusion),
      problems_(book.ops(), config, weights.dtype) {}

void Assembly::linear(const Problem& problem, const void* x, const Matrix& weight, const Buffer& bias,
                      void* y, std::vector<Output> outputs, const void* norm_weight, const void* residual,
                      const NextGemm& next) {
  auto entry = book_.get(with_weights(problem, weight.format));
  const LinearArgs args{.x = x,
                        .weight = weight.weight.data(),
                        .bias = bias.data(),
                        .y = y,
                        .workspace = entry->workspace.data(),
                        .tokens = tokens_};
  const Activations& a = activations_;
  PrefetchLinearArgs all{{{{args, norm_weight, residual, config_.rms_eps}, nullptr},
                          a.squares.as<float>(),
                          a.rows_b.data(),
                          a.squares.as<float>()}};
  if (next.weight) {  // rows, or slots of packed rows
    const WeightFormat& format = next.weight->format;
    all.next_weight = next.weight->weight.data();
    all.next_row_bytes =
        static_cast<int>(format.quantized() ? packed_blocks_of_row(format.weights, next.in) * kBlockBytes
                                            : next.in * static_cast<int>(size_of(weights_.dtype)));
    all.next_rows =
        static_cast<int>(next.weight->weight.bytes() / static_cast<std::size_t>(all.next_row_bytes));
  }
  calls_.push_back({std::move(entry), args_of(all, weight), std::move(outputs), layer_});
}

void Assembly::linear_to_residual(int layer, const char* name, const char* norm, const Problem& problem,
                                  const void* x, const Matrix& weight, const Buffer& bias,
                                  const Buffer& norm_weight, const NextGemm& next) {
  const Activations& a = activations_;
  if (fusion_.norm || fusion_.split_norm) {
    linear(problem, x, weight, bias, a.residual.data(),
           {output(layer, norm, a.residual, config_.hidden, "residual")}, norm_weight.data(),
           a.residual.data(), next);
  } else {
    linear(problem, x, weight, bias, a.rows_b.data(), {output(layer, name, a.rows_b, config_.hidden)},
           nullptr, nullptr, {});
    add_norm(layer, norm, norm_weight);
  }
}

void Assembly::add_norm(int layer, const char* name, const Buffer& weight) {
  const Activations& a = activations_;
  for (const Problem& problem : problems_.add_to_residual(tokens_)) {
    auto entry = book_.get(problem);
    const std::vector<Output> outputs = {output(layer, name, a.residual, config_.hidden, "residual"),
                                         output(layer, name, a.rows_a, config_.hidden)};
    const auto args = [&]<class T>(T) {
      return T{.x = a.rows_b.data(),
               .residual = a.residual.data(),
               .weight = weight.data(),
               .residual_out = a.residual.data(),
               .y = a.rows_a.data(),
               .tokens = tokens_,
               .eps = config_.rms_eps};
    };
    if (problem.op == "all_reduce")
      add(std::move(entry), AllReduceArgs{.x = a.rows_b.data(), .y = a.rows_b.data()},
          {output(layer, name, a.rows_b, config_.hidden, "reduced")});
    else if (problem.op == "all_reduce_add_rms_norm")
      add(std::move(entry), args(AllReduceAddRmsNormArgs{}), outputs);
    else
      add(std::move(entry), args(AddRmsNormArgs{}), outputs);
  }
}

void Assembly::add_appended(std::vector<Output>& outputs, int layer, const char* op, const KvCache& cache,
                            const KvCache::View& view, const RowPositions& rows) const {
  for (const KvSide side : {KvSide::keys, KvSide::values})
    outputs.push_back({.layer = layer,
                       .op = op,
                       .tensor = side == KvSide::keys ? "k" : "v",
                       .dtype = cache.read_dtype(),
                       .rows = tokens_,
                       .width = config_.kv_heads * config_.head_dim,
                       .read = [&cache, view, rows, side, tokens = tokens_](Device& device, void* to) {
                         std::vector<int> sequence(static_cast<std::size_t>(tokens)), position(sequence);
                         const std::size_t bytes = sequence.size() * sizeof(int);
                         device.download(sequence.data(), rows.sequence, bytes);
                         device.download(position.data(), rows.position, bytes);
                         cache.read(view, side, sequence, position, to);
                       }});
}

void Assembly::begin(const int* ids, int* bad_token) {
  add(book_.get(problems_.embedding(tokens_)),
      EmbeddingArgs{.ids = ids,
                    .table = weights_.embedding.data(),
                    .y = activations_.residual.data(),
                    .bad_token = bad_token,
                    .tokens = tokens_},
      {Output::dense(-1, "embedding", "ids", DType::int32, tokens_, 1, ids),
       output(-1, "embedding", activations_.residual, config_.hidden)});
  if (fusion_.norm && !fusion_.split_norm) return;
  add(book_.get(problems_.rms_norm(tokens_)),
      RmsNormArgs{.x = activations_.residual.data(),
                  .weight = weights_.layers[0].input_norm.data(),
                  .y = activations_.rows_a.data(),
                  .tokens = tokens_,
                  .eps = config_.rms_eps},
      {output(-1, "rms_norm", activations_.rows_a, config_.hidden)});
}

const float* Assembly::inv_freq(int layer) const {
  return config_.rotates(layer) ? inv_freq_ : inv_freq_ + config_.head_dim / 2;
}

void Assembly::qkv(int layer) {
  layer_ = layer;
  const LayerWeights& w = weights_.layers[layer];
  const Activations& a = activations_;
  const Fusion fusion = layer == 0 && fusion_.split_norm ? Fusion{} : fusion_;
  const Problem problem = problems_.qkv(tokens_, fusion, layer);
  const void* x = rows_of(a, problem);
  const std::vector<Output> outputs = {output(layer, "linear_qkv", a.wide, config_.qkv_width())};
  const NextGemm o{&w.o, config_.q_width()};
  const std::optional<Problem> v = problems_.v(tokens_, fusion, layer);
  if (!v) {
    linear(problem, x, w.qkv, {}, a.wide.data(), outputs, w.input_norm.data(), nullptr, o);
    return;
  }
  // The two matrices write q and k, and v, of all tokens. Of one token these are the row of qkv; of more, a
  // gather of heads makes the rows.
  const bool joins = tokens_ > 1;
  auto* qk = (joins ? a.qk_and_v : a.wide).as<std::byte>();
  const std::int64_t tokens = joins ? a.tokens : 1, heads = config_.q_heads + 2 * config_.kv_heads;
  linear(problem, x, w.qkv, {}, qk, {}, w.input_norm.data(), nullptr, {&w.v, config_.hidden});
  linear(*v, x, w.v, {}, qk + tokens * problem["out"] * static_cast<int>(size_of(weights_.dtype)),
         joins ? std::vector<Output>() : outputs, w.input_norm.data(), nullptr, o);
  if (!joins) return;
  add(book_.get(problems_.gather_heads(tokens_ * heads, tokens * heads), true),
      EmbeddingArgs{.ids = a.heads.as<int>(),
                    .table = a.qk_and_v.data(),
                    .y = a.wide.data(),
                    .bad_token = a.bad_head.as<int>(),
                    .tokens = static_cast<int>(tokens_ * heads)},
      outputs);
}

void Assembly::rope_append(int layer, const KvCache& cache, const KvCache::View& to, int batch,
                           const RowPositions& rows, const char* name) {
  const LayerWeights& w = weights_.layers[layer];
  std::vector<Output> outputs = {output(layer, name, activations_.inner, config_.q_width(), "q")};
  add_appended(outputs, layer, name, cache, to, rows);
  const RopeAppendArgs args{.qkv = activations_.wide.data(),
                            .bias = w.qkv_bias.data(),
                            .sequence = rows.sequence,
                            .position = rows.position,
                            .lengths = rows.lengths,
                            .inv_freq = inv_freq(layer),
                            .q = activations_.inner.data(),
                            .k_cache = to.k,
                            .v_cache = to.v,
                            .tokens = tokens_,
                            .capacity = to.capacity,
                            .theta = static_cast<float>(config_.rope.theta),
                            .factor = static_cast<float>(config_.rope.factor),
                            .max_position = config_.rope.original_max_position,
                            .k_scale = to.k_scale,
                            .v_scale = to.v_scale,
                            .block_table = to.block_table};
  auto entry = book_.get(of(cache).rope_append(tokens_, batch, to.capacity));
  if (config_.qk_norm)
    add(std::move(entry), NormRopeAppendArgs{args, w.qk_norm.data(), config_.rms_eps}, std::move(outputs));
  else
    add(std::move(entry), args, std::move(outputs));
}

void Assembly::attention_decode(int layer, const KvCache& cache, int batch, const RowPositions& rows,
                                std::int64_t context) {
  const bool append = fusion_.append;
  auto entry = book_.get(of(cache).attention_decode(batch, context, append, fusion_.o));
  const KvCache::View kv = cache.view(layer);
  const LayerWeights& w = weights_.layers[layer];
  void* workspace = entry->workspace.data();
  std::vector<Output> outputs;
  if (append) add_appended(outputs, layer, "rope_append", cache, kv, rows);
  if (fusion_.o)
    outputs.push_back(
        output(layer, "add_rms_norm_attention", activations_.residual, config_.hidden, "residual"));
  else
    outputs.push_back(output(layer, "attention_decode", activations_.rows_a, config_.q_width()));
  const AttentionDecodeArgs args{.q = append ? activations_.wide.data() : activations_.inner.data(),
                                 .k_cache = kv.k,
                                 .v_cache = kv.v,
                                 .lengths = rows.lengths,
                                 .bias = append ? w.qkv_bias.data() : nullptr,
                                 .inv_freq = inv_freq(layer),
                                 .out = fusion_.o ? workspace : activations_.rows_a.data(),
                                 .workspace = workspace,
                                 .batch = batch,
                                 .capacity = kv.capacity,
                                 .scale = config_.attention_scale(layer),
                                 .k_scale = kv.k_scale,
                                 .v_scale = kv.v_scale,
                                 .block_table = kv.block_table};
  const ProjectDecodeArgs project{args, w.o.weight.data(), activations_.residual.data(),
                                  activations_.residual.data()};
  const DynamicNtkDecodeArgs dynamic_ntk{project, config_.rope.theta, static_cast<float>(config_.rope.factor),
                                         config_.rope.original_max_position};
  if (append && config_.qk_norm)
    add(std::move(entry), NormDecodeArgs{dynamic_ntk, w.qk_norm.data(), config_.rms_eps}, std::move(outputs));
  else if (fusion_.o)
    add(std::move(entry), project, std::move(outputs));
  else if (append && config_.rope.kind == RopeKind::dynamic_ntk)
    add(std::move(entry), dynamic_ntk, std::move(outputs));
  else
    add(std::move(entry), args, std::move(outputs));
}

void Assembly::attention_prefill(int layer, const KvCache& cache, const KvCache::View& from,
                                 const PromptChunk& chunk, const int* cu_seqlens, const int* kv_lens) {
  const int batch = static_cast<int>(chunk.pieces.size());
  const Problem problem =
      of(cache).attention_prefill(batch, chunk.longest_query(), chunk.longest_context(), chunk.uneven());
  auto entry = book_.get(problem);
  void* workspace = entry->workspace.data();
  add(std::move(entry),
      AttentionPrefillArgs{.q = activations_.inner.data(),
                           .k_cache = from.k,
                           .v_cache = from.v,
                           .cu_seqlens = cu_seqlens,
                           .kv_lens = kv_lens,
                           .out = activations_.rows_a.data(),
                           .workspace = workspace,
                           .batch = batch,
                           .capacity = from.capacity,
                           .scale = config_.attention_scale(layer),
                           .tokens = tokens_,
                           .q_len = chunk.longest_query(),
                           .kv_len = chunk.longest_context(),
                           .q_stride = config_.q_width(),
                           .window = static_cast<int>(problem["window"]),
                           .block_table = from.block_table,
                           .max_pages = from.pages},
      {output(layer, "attention_prefill", activations_.rows_a, config_.q_width())});
}

void Assembly::finish_layer(int layer) {
  const auto index = static_cast<std::size_t>(layer);
  const LayerWeights& w = weights_.layers[index];
  const bool last = index + 1 == weights_.layers.size();
  const Activations& a = activations_;
  if (!fusion_.o)
    linear_to_residual(layer, "linear_o", "add_rms_norm_attention", problems_.o(tokens_, fusion_, layer),
                       a.rows_a.data(), w.o, w.o_bias, w.attention_norm, {&w.gate_up, config_.hidden});
  const Problem gate_up = problems_.gate_up(tokens_, fusion_, layer);
  const NextGemm down{&w.down, config_.intermediate};
  if (fusion_.swiglu) {
    linear(gate_up, rows_of(a, gate_up), w.gate_up, w.gate_up_bias, a.inner.data(),
           {output(layer, "swiglu", a.inner, config_.intermediate)}, w.attention_norm.data(), nullptr, down);
  } else {
    linear(gate_up, rows_of(a, gate_up), w.gate_up, w.gate_up_bias, a.wide.data(),
           {output(layer, "linear_gate_up", a.wide, 2LL * config_.intermediate)}, w.attention_norm.data(),
           nullptr, down);
    add(book_.get(problems_.swiglu(tokens_)),
        SwigluArgs{.gate_up = a.wide.data(), .y = a.inner.data(), .tokens = tokens_},
        {output(layer, "swiglu", a.inner, config_.intermediate)});
  }
  linear_to_residual(layer, "linear_down", "add_rms_norm_mlp", problems_.down(tokens_, fusion_, layer),
                     a.inner.data(), w.down, w.down_bias,
                     last ? weights_.final_norm : weights_.layers[index + 1].input_norm,
                     last ? NextGemm{} : NextGemm{&weights_.layers[index + 1].qkv, config_.hidden});
  layer_ = -1;
}

void Assembly::gather(const int* indices, int count, void* to, int* bad_token) {
  add(book_.get(problems_.gather(count, tokens_), true),
      EmbeddingArgs{.ids = indices,
                    .table = activations_.rows_a.data(),
                    .y = to,
                    .bad_token = bad_token,
                    .tokens = count},
      {Output::dense(-1, "gather", "out", weights_.dtype, count, config_.hidden, to)});
}

Call Assembly::lm_head(const ModelConfig& config, const Weights& weights, PlanBook& book,
                       const Activations& activations, int batch, void* logits, int* ids,
                       const Fusion& fusion) {
  const bool is_tied = !weights.lm_head.weight.data();
  const auto first = static_cast<std::size_t>(head_slice(config).rows[0].first * config.hidden);
  const Problem problem = with_weights(
      ModelProblems(book.ops(), config, weights.dtype).lm_head(batch, fusion), weights.lm_head.format);
  auto entry = book.get(problem);
  const LinearArgs args{.x = rows_of(activations, problem),
                        .weight = is_tied ? weights.embedding.as<std::byte>() + first * size_of(weights.dtype)
                                          : weights.lm_head.weight.data(),
                        .y = logits,
                        .workspace = entry->workspace.data(),
                        .tokens = batch};
  const PrefetchLinearArgs all{{{{args, weights.final_norm.data(), nullptr, config.rms_eps}, ids},
                                activations.squares.as<float>(),
                                nullptr,
                                nullptr}};
  return {std::move(entry),
          args_of(all, weights.lm_head),
          {Output::dense(-1, "lm_head", "out", weights.dtype, batch, head_rows(config), logits)}};
}

Call Assembly::all_gather(const ModelConfig& config, DType dtype, PlanBook& book, int batch, const void* part,
                          void* logits) {
  return {book.get(ModelProblems(book.ops(), config, dtype).all_gather(batch)),
          Args(AllGatherArgs{.x = part, .y = logits, .tokens = batch}),
          {Output::dense(-1, "all_gather", "out", dtype, batch, config.vocab, logits)}};
}

}  // namespace warptune
