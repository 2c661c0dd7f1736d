// The variant of attention_prefill by cuBLASLt: one strided-batched GEMM over the KV heads per sequence and
// per query head of a group, since a batch has one stride.
#include "kernels/attention_prefill/args.h"
#include "variants/attention_prefill/attention_prefill.h"
#include "variants/vendor/unfused_attention.h"

namespace warptune {
namespace {

std::int64_t score_stride(const Problem& p) { return score_row_stride(p["kv_len"]); }
/// Elements of the scores of a head.
std::int64_t head_scores(const Problem& p) { return p["q_len"] * score_stride(p); }
std::int64_t score_bytes(const Problem& p) { return p["batch"] * p["q_heads"] * head_scores(p) * 4; }

/// Operands of one strided-batched GEMM.
struct Operands {
  std::byte *q, *k, *v, *out, *scores;
};

/// Calls `run` for each strided-batched GEMM.
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
  const BatchedGemmShape shape{.inputs = p.dtype,
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
  return [p, gemm = std::make_shared<BatchedGemm>(shape, c["scores_algo"])](const void* raw, void* stream) {
    const auto& a = *static_cast<const AttentionPrefillArgs*>(raw);
    std::byte* const workspace = static_cast<std::byte*>(a.workspace) + score_bytes(p);
    for_each_batch(p, a, [&](const Operands& o) {
      gemm->run(o.q, o.k, a.capacity * p["head_dim"], o.scores, workspace, stream);
    });
  };
}

VendorFunction values(const Problem& p, const Config& c) {
  const std::int64_t d = p["head_dim"], group = p["q_heads"] / p["kv_heads"],
                     per_score = 4 / static_cast<std::int64_t>(size_of(p.dtype));
  const BatchedGemmShape shape{.inputs = p.dtype,
                               .output = p.dtype,
                               .rows = p["q_len"],
                               .columns = d,
                               .inner = p["kv_len"],
                               .batch = p["kv_heads"],
                               .a = {score_stride(p) * per_score, group * head_scores(p) * per_score},
                               .b = {d, p["kv_len"] * d},
                               .c = {p["q_heads"] * d, group * d},
                               .alignment = row_alignment(p)};
  return [p, gemm = std::make_shared<BatchedGemm>(shape, c["values_algo"])](const void* raw, void* stream) {
    const auto& a = *static_cast<const AttentionPrefillArgs*>(raw);
    std::byte* const workspace = static_cast<std::byte*>(a.workspace) + score_bytes(p);
    for_each_batch(p, a, [&](const Operands& o) {
      gemm->run(o.scores, o.v, a.capacity * p["head_dim"], o.out, workspace, stream);
    });
  };
}

}  // namespace

std::vector<Variant> attention_prefill_vendor() {
  return {unfused_attention({.op = attention_prefill(),
                             .constraint = "uneven == 0 && batch * q_heads * q_len * kv_len <= 4e9",
                             .keys = "kv_len",
                             .blocks = {128, 512},
                             .score_bytes = score_bytes,
                             .scores = scores,
                             .values = values,
                             .softmax = {"attention_prefill/unfused.cu",
                                         "attention_prefill_cublaslt_softmax<{dtype}, {q_len}, {kv_len}, "
                                         "{causal}, {score_stride}, {block}>",
                                         [](const Problem& p, const Config& c) {
                                           return Launch{
                                               .grid = {static_cast<unsigned>(p["q_len"]),
                                                        static_cast<unsigned>(p["batch"] * p["q_heads"])},
                                               .block = {static_cast<unsigned>(c["block"])}};
                                         }}})};
}

}  // namespace warptune
