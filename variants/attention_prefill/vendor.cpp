// The variant of attention_prefill by cuBLASLt: one strided-batched GEMM over the KV heads per sequence and
// per query head of a group, since a batch has one stride. Sequences of uneven lengths are padded to the
// longest (kernels/attention_prefill/padding.cu): the lengths are in device memory, where only kernels read
// them.
#include "kernels/attention_prefill/args.h"
#include "kernels/common/vec_width.h"
#include "variants/attention_prefill/attention_prefill.h"
#include "variants/vendor/unfused_attention.h"

namespace warptune {
namespace {

constexpr std::int64_t kCopyBlock = 128;  // threads of a block of padding.cu

std::int64_t score_stride(const Problem& p) { return score_row_stride(p["kv_len"]); }
/// Elements of the scores of a head.
std::int64_t head_scores(const Problem& p) { return p["q_len"] * score_stride(p); }
std::int64_t score_bytes(const Problem& p) { return p["batch"] * p["q_heads"] * head_scores(p) * 4; }

bool uneven(const Problem& p, const Config& = {}) { return p["uneven"] == 1; }
std::int64_t element_size(const Problem& p) { return static_cast<std::int64_t>(size_of(p.dtype)); }
std::int64_t query_row(const Problem& p) { return p["q_heads"] * p["head_dim"]; }

/// The workspace behind that of the library: padded queries, which the padded output replaces, and padded V.
std::int64_t padding_offset(const Problem& p) { return score_bytes(p) + BatchedGemm::kWorkspaceBytes; }
std::int64_t values_offset(const Problem& p) {
  return padding_offset(p) + ceil_div(p["batch"] * p["q_len"] * query_row(p) * element_size(p), 256) * 256;
}
std::int64_t padding_bytes(const Problem& p) {
  if (!uneven(p)) return 0;
  const std::int64_t values = p["batch"] * p["kv_heads"] * p["kv_len"] * p["head_dim"] * element_size(p);
  return values_offset(p) - padding_offset(p) + values;
}

std::byte* at(const void* base, std::int64_t bytes) {
  return static_cast<std::byte*>(const_cast<void*>(base)) + bytes;
}

/// Operands of one strided-batched GEMM.
struct Operands {
  std::byte *q, *k, *v, *out, *scores;
};

/// Elements from the V rows of a head to those of the next.
std::int64_t value_stride(const Problem& p, const AttentionPrefillArgs& a) {
  return (uneven(p) ? p["kv_len"] : a.capacity) * p["head_dim"];
}

/// Calls `run` for each strided-batched GEMM.
void for_each_batch(const Problem& p, const AttentionPrefillArgs& a,
                    const std::function<void(const Operands&)>& run) {
  const std::int64_t d = p["head_dim"], q_heads = p["q_heads"], kv_heads = p["kv_heads"],
                     size = element_size(p);
  const void* const padding = at(a.workspace, padding_offset(p));
  const void* const q = uneven(p) ? padding : a.q;
  const void* const out = uneven(p) ? padding : a.out;
  const void* const v = uneven(p) ? at(a.workspace, values_offset(p)) : a.v_cache;
  for (std::int64_t b = 0; b < p["batch"]; ++b)
    for (std::int64_t g = 0; g < q_heads / kv_heads; ++g) {
      const std::int64_t query = (b * p["q_len"] * q_heads + g) * d * size;
      run({.q = at(q, query),
           .k = at(a.k_cache, b * kv_heads * a.capacity * d * size),
           .v = at(v, b * kv_heads * value_stride(p, a) * size),
           .out = at(out, query),
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
  const std::int64_t d = p["head_dim"], group = p["q_heads"] / p["kv_heads"], per_score = 4 / element_size(p);
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
      gemm->run(o.scores, o.v, value_stride(p, a), o.out, workspace, stream);
    });
  };
}

/// One block of padding.cu per query of each padded sequence.
Launch per_query(const Problem& p, const Config&) {
  return {.grid = {as_unsigned(p["q_len"]), as_unsigned(p["batch"])}, .block = {as_unsigned(kCopyBlock)}};
}
Launch per_value_vectors(const Problem& p, const Config&) {
  const std::int64_t d = p["head_dim"], vec = vec_width(static_cast<int>(16 / element_size(p)), d);
  return {.grid = {blocks_for(p["kv_len"] * (d / vec), kCopyBlock), as_unsigned(p["kv_heads"]),
                   as_unsigned(p["batch"])},
          .block = {as_unsigned(kCopyBlock)}};
}
Launch per_score_row(const Problem& p, const Config& c) {
  return {.grid = {as_unsigned(p["q_len"]), as_unsigned(p["batch"] * p["q_heads"])},
          .block = {as_unsigned(c["block"])}};
}

}  // namespace

std::vector<Variant> attention_prefill_vendor() {
  const std::string file = "attention_prefill/padding.cu",
                    queries = "<{dtype}, {query_row}, {q_len}, {padding}, {copy_block}>";
  return {unfused_attention(
      {.op = attention_prefill(),
       .constraint = "batch * q_heads * q_len * kv_len <= 4e9",
       .keys = "kv_len",
       .blocks = {128, 512},
       .score_bytes = score_bytes,
       .scores = scores,
       .values = values,
       .softmax = {"attention_prefill/unfused.cu",
                   "attention_prefill_cublaslt_softmax<{dtype}, {q_heads}, {q_len}, {kv_len}, {causal}, "
                   "{uneven} == 1, {score_stride}, {block}>",
                   per_score_row},
       .takes = {"diagonal"},
       .before = {{file, "attention_prefill_pad_queries" + queries, per_query, uneven},
                  {file,
                   "attention_prefill_pad_values<{dtype}, {kv_heads}, {kv_len}, {head_dim}, {values}, "
                   "{copy_block}>",
                   per_value_vectors, uneven}},
       .after = {{file, "attention_prefill_remove_padding" + queries, per_query, uneven}},
       .constants =
           [](const Problem& p) {
             return Assignment{{"query_row", query_row(p)},
                               {"padding", padding_offset(p)},
                               {"values", values_offset(p)},
                               {"copy_block", kCopyBlock}};
           },
       .more_bytes = padding_bytes})};
}

}  // namespace warptune
