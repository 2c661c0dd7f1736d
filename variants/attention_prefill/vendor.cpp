// attention_prefill by cuBLASLt: one batch of products over the KV heads for each sequence and each place in
// a group of query heads, since the strides of a batch are one number.
#include "attention_prefill/args.h"
#include "attention_prefill/attention_prefill.h"
#include "vendor/batched_product.h"
#include "vendor/plain.h"

namespace warptune {
namespace {

/// Elements from one row of scores to the next: whole 256 bytes of fp32.
std::int64_t score_stride(const Problem& p) { return ceil_div(p["kv_len"], 64) * 64; }
/// Elements of the scores of a head.
std::int64_t head_scores(const Problem& p) { return p["q_len"] * score_stride(p); }
std::int64_t score_bytes(const Problem& p) { return p["batch"] * p["q_heads"] * head_scores(p) * 4; }
std::int64_t row_alignment(const Problem& p) {
  return alignment_of(p["head_dim"] * static_cast<std::int64_t>(size_of(p.dtype)));
}

/// Where the operands of one batch of products begin.
struct Operands {
  std::byte *q, *k, *v, *out, *scores;
};

/// Calls `run` for each batch of products.
void for_each_batch(const Problem& p, const AttentionPrefillArgs& a,
                    const std::function<void(const Operands&)>& run) {
  const std::int64_t d = p["head_dim"], q_heads = p["q_heads"], kv_heads = p["kv_heads"],
                     size = static_cast<std::int64_t>(size_of(p.dtype));
  const auto at = [](const void* base, std::int64_t bytes) {
    return static_cast<std::byte*>(const_cast<void*>(base)) + bytes;
  };
  for (std::int64_t b = 0; b < p["batch"]; ++b)
    for (std::int64_t g = 0; g < q_heads / kv_heads; ++g) {
      const std::int64_t query = (b * p["q_len"] * q_heads + g) * d * size,
                         cache = b * kv_heads * a.capacity * d * size;
      run({.q = at(a.q, query),
           .k = at(a.k_cache, cache),
           .v = at(a.v_cache, cache),
           .out = at(a.out, query),
           .scores = at(a.workspace, (b * q_heads + g) * head_scores(p) * 4)});
    }
}

VendorFunction scores(const Problem& p, const Config& c) {
  const std::int64_t d = p["head_dim"], group = p["q_heads"] / p["kv_heads"];
  const BatchedProductShape shape{.inputs = p.dtype,
                                  .output = DType::fp32,
                                  .rows = p["q_len"],
                                  .columns = p["kv_len"],
                                  .inner = d,
                                  .batch = p["kv_heads"],
                                  .b_transposed = true,
                                  .a = {p["q_heads"] * d, group * d},
                                  .b = {d, p["kv_len"] * d},
                                  .c = {score_stride(p), group * head_scores(p)},
                                  .alignment = row_alignment(p)};
  return [p, product = std::make_shared<BatchedProduct>(shape, c["scores_algo"])](const void* raw,
                                                                                  void* stream) {
    const auto& a = *static_cast<const AttentionPrefillArgs*>(raw);
    std::byte* const workspace = static_cast<std::byte*>(a.workspace) + score_bytes(p);
    for_each_batch(p, a, [&](const Operands& o) {
      product->run(o.q, o.k, a.capacity * p["head_dim"], o.scores, workspace, stream);
    });
  };
}

VendorFunction values(const Problem& p, const Config& c) {
  const std::int64_t d = p["head_dim"], group = p["q_heads"] / p["kv_heads"],
                     per_score = 4 / static_cast<std::int64_t>(size_of(p.dtype));
  const BatchedProductShape shape{.inputs = p.dtype,
                                  .output = p.dtype,
                                  .rows = p["q_len"],
                                  .columns = d,
                                  .inner = p["kv_len"],
                                  .batch = p["kv_heads"],
                                  .a = {score_stride(p) * per_score, group * head_scores(p) * per_score},
                                  .b = {d, p["kv_len"] * d},
                                  .c = {p["q_heads"] * d, group * d},
                                  .alignment = row_alignment(p)};
  return [p, product = std::make_shared<BatchedProduct>(shape, c["values_algo"])](const void* raw,
                                                                                  void* stream) {
    const auto& a = *static_cast<const AttentionPrefillArgs*>(raw);
    std::byte* const workspace = static_cast<std::byte*>(a.workspace) + score_bytes(p);
    for_each_batch(p, a, [&](const Operands& o) {
      product->run(o.scores, o.v, a.capacity * p["head_dim"], o.out, workspace, stream);
    });
  };
}

}  // namespace

std::vector<Variant> attention_prefill_vendor() {
  auto constraints = plain_problems(attention_prefill());
  constraints.push_back("uneven == 0");
  constraints.push_back("batch * q_heads * q_len * kv_len <= 4e9");
  return {{
      .name = "cublaslt",
      .idea = "batched products by cuBLASLt, our softmax between them, scores in memory",
      .parameters = {{"scores_algo", {0, 1, 2}, "index among the heuristic's results for q . K"},
                     {"values_algo", {0, 1, 2}, "the same for the weights . V"},
                     {"block", {128, 512}, "threads per row of the softmax"}},
      .constraints = std::move(constraints),
      .stages = {library_stage(scores),
                 {"attention_prefill/library_softmax.cu",
                  "attention_prefill_library_softmax<{dtype}, {q_len}, {kv_len}, {causal}, {score_stride}, "
                  "{block}>",
                  [](const Problem& p, const Config& c) {
                    return Launch{.grid = {static_cast<unsigned>(p["q_len"]),
                                           static_cast<unsigned>(p["batch"] * p["q_heads"])},
                                  .block = {static_cast<unsigned>(c["block"])}};
                  }},
                 library_stage(values)},
      .constants =
          [](const Problem& p, const Config&) {
            return Assignment{{"score_stride", score_stride(p)}};
          },
      .workspace_bytes = [](const Problem& p,
                            const Config&) { return score_bytes(p) + BatchedProduct::kWorkspaceBytes; },
  }};
}

}  // namespace warptune
