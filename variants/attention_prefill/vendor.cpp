// The variant of attention_prefill by cuBLASLt: one strided-batched GEMM over the KV heads per sequence and
// per query head of a group, since a batch has one stride. Sequences of uneven lengths are padded to the
// longest (kernels/attention_prefill/padding.cu): the lengths are in device memory, where only kernels read
// them.
#include "kernels/attention_prefill/args.h"
#include "variants/attention_prefill/attention_prefill.h"
#include "variants/vendor/unfused_attention.h"

namespace warptune {
namespace {

/// The workspace after that of the library: padded queries, which the padded output replaces, and padded V.
const std::vector<DerivedValue> kLayout = {
    {"score_stride", "64 * ceil_div(kv_len, 64)", "elements from one row of scores to the next"},
    {"head_scores", "q_len * score_stride", "elements of the scores of a head"},
    {"score_bytes", "4 * batch * q_heads * head_scores", "bytes of the scores"},
    {"query_row", "q_heads * head_dim", "elements of the queries of a token"},
    {"padding", Expression("score_bytes") + BatchedGemm::kWorkspaceBytes, "where the padded queries begin"},
    {"values", "padding + 256 * ceil_div(batch * q_len * query_row * dtype_bytes, 256)",
     "where the padded V begins"}};

/// The layout of a problem's workspace.
struct Layout {
  explicit Layout(const Problem& p)
      : score_stride(layout_value(kLayout, "score_stride", p)),
        head_scores(layout_value(kLayout, "head_scores", p)),
        library(layout_value(kLayout, "score_bytes", p)),
        padding(layout_value(kLayout, "padding", p)),
        values(layout_value(kLayout, "values", p)) {}
  std::int64_t score_stride, head_scores, library, padding, values;
};

bool uneven(const Problem& p) { return p["uneven"] == 1; }
std::int64_t element_size(const Problem& p) { return static_cast<std::int64_t>(size_of(p.dtype)); }

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
void for_each_batch(const Problem& p, const Layout& layout, const AttentionPrefillArgs& a,
                    const std::function<void(const Operands&)>& run) {
  const std::int64_t d = p["head_dim"], q_heads = p["q_heads"], kv_heads = p["kv_heads"],
                     size = element_size(p);
  const void* const padding = at(a.workspace, layout.padding);
  const void* const q = uneven(p) ? padding : a.q;
  const void* const out = uneven(p) ? padding : a.out;
  const void* const v = uneven(p) ? at(a.workspace, layout.values) : a.v_cache;
  for (std::int64_t b = 0; b < p["batch"]; ++b)
    for (std::int64_t g = 0; g < q_heads / kv_heads; ++g) {
      const std::int64_t query = (b * p["q_len"] * q_heads + g) * d * size;
      run({.q = at(q, query),
           .k = at(a.k_cache, b * kv_heads * a.capacity * d * size),
           .v = at(v, b * kv_heads * value_stride(p, a) * size),
           .out = at(out, query),
           .scores = at(a.workspace, (b * q_heads + g) * layout.head_scores * 4)});
    }
}

VendorFunction scores(const Problem& p, const Config& c) {
  const Layout layout(p);
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
                               .c = {layout.score_stride, group * layout.head_scores},
                               .alignment = row_alignment(p)};
  return [p, layout, gemm = std::make_shared<BatchedGemm>(shape, c["scores_algo"])](const void* raw,
                                                                                    void* stream) {
    const auto& a = *static_cast<const AttentionPrefillArgs*>(raw);
    std::byte* const workspace = at(a.workspace, layout.library);
    for_each_batch(p, layout, a, [&](const Operands& o) {
      gemm->run(o.q, o.k, a.capacity * p["head_dim"], o.scores, workspace, stream);
    });
  };
}

VendorFunction values(const Problem& p, const Config& c) {
  const Layout layout(p);
  const std::int64_t d = p["head_dim"], group = p["q_heads"] / p["kv_heads"], per_score = 4 / element_size(p);
  const BatchedGemmShape shape{.inputs = p.dtype,
                               .output = p.dtype,
                               .rows = p["q_len"],
                               .columns = d,
                               .inner = p["kv_len"],
                               .batch = p["kv_heads"],
                               .a = {layout.score_stride * per_score, group * layout.head_scores * per_score},
                               .b = {d, p["kv_len"] * d},
                               .c = {p["q_heads"] * d, group * d},
                               .alignment = row_alignment(p)};
  return [p, layout, gemm = std::make_shared<BatchedGemm>(shape, c["values_algo"])](const void* raw,
                                                                                    void* stream) {
    const auto& a = *static_cast<const AttentionPrefillArgs*>(raw);
    std::byte* const workspace = at(a.workspace, layout.library);
    for_each_batch(p, layout, a, [&](const Operands& o) {
      gemm->run(o.scores, o.v, value_stride(p, a), o.out, workspace, stream);
    });
  };
}

/// One block of padding.cu per query of each padded sequence.
}  // namespace

std::vector<Variant> attention_prefill_vendor() {
  const std::string file = "attention_prefill/padding.cu",
                    queries = "<{dtype}, {query_row}, {q_len}, {padding}, 128>";
  const LaunchExpressions per_query{.grid = {"q_len", "batch"}, .block = {128}};
  return {unfused_attention(
      {.op = attention_prefill(),
       .constraint = "batch * q_heads * q_len * kv_len <= 4e9",
       .blocks = {128, 512},
       .layout = kLayout,
       .workspace = "uneven ? values + batch * kv_heads * kv_len * head_dim * dtype_bytes : padding",
       .scores = scores,
       .values = values,
       .softmax = {"attention_prefill/unfused.cu",
                   "attention_prefill_cublaslt_softmax<{dtype}, {q_heads}, {q_len}, {kv_len}, {causal}, "
                   "{uneven} == 1, {score_stride}, {block}>",
                   LaunchExpressions{.grid = {"q_len", "batch * q_heads"}, .block = {"block"}}},
       .takes = {"diagonal"},
       .before = {{file, "attention_prefill_pad_queries" + queries, per_query, "uneven"},
                  {file,
                   "attention_prefill_pad_values<{dtype}, {kv_heads}, {kv_len}, {head_dim}, {values}, 128>",
                   LaunchExpressions{
                       .grid = {"ceil_div(kv_len * (head_dim / gcd(16 / dtype_bytes, head_dim)), 128)",
                                "kv_heads", "batch"},
                       .block = {128}},
                   "uneven"}},
       .after = {{file, "attention_prefill_remove_padding" + queries, per_query, "uneven"}}})};
}

}  // namespace warptune
