// attention_decode by cuBLASLt. The query heads of a group are the rows of its GEMMs with K and V. V is
// copied, with zeros past the lengths, which only kernels read.
#include "kernels/attention_decode/args.h"
#include "variants/attention_decode/attention_decode.h"
#include "variants/vendor/unfused_attention.h"

namespace warptune {
namespace {

const std::vector<DerivedValue> kLayout = {
    {"score_stride", "64 * ceil_div(context, 64)", "elements from one row of scores to the next"},
    {"score_bytes", "4 * batch * q_heads * score_stride", "bytes of the scores"},
    {"values", Expression("score_bytes") + BatchedGemm::kWorkspaceBytes, "where the rows of V begin"}};

std::int64_t score_stride(const Problem& p) { return layout_value(kLayout, "score_stride", p); }

/// The workspace at a derived value.
std::byte* at(const AttentionDecodeArgs& args, std::int64_t bytes) {
  return static_cast<std::byte*>(args.workspace) + bytes;
}

VendorFunction scores(const Problem& p, const Config& c) {
  const std::int64_t d = p["head_dim"], group = p["q_heads"] / p["kv_heads"];
  const BatchedGemmShape shape{.inputs = p.dtype,
                               .output = DType::fp32,
                               .rows = group,
                               .columns = p["context"],
                               .inner = d,
                               .batch = p["batch"] * p["kv_heads"],
                               .b_transposed = true,
                               .a = {d, group * d},
                               .b = {d, p["context"] * d},
                               .c = {score_stride(p), group * score_stride(p)},
                               .alignment = row_alignment(p)};
  return [d, library = layout_value(kLayout, "score_bytes", p),
          gemm = std::make_shared<BatchedGemm>(shape, c["scores_algo"])](const void* raw, void* stream) {
    const auto& a = *static_cast<const AttentionDecodeArgs*>(raw);
    gemm->run(a.q, a.k_cache, a.capacity * d, a.workspace, at(a, library), stream);
  };
}

VendorFunction values(const Problem& p, const Config& c) {
  const std::int64_t d = p["head_dim"], group = p["q_heads"] / p["kv_heads"];
  const std::int64_t row = score_stride(p) * 4 / static_cast<std::int64_t>(size_of(p.dtype));
  const BatchedGemmShape shape{.inputs = p.dtype,
                               .output = p.dtype,
                               .rows = group,
                               .columns = d,
                               .inner = p["context"],
                               .batch = p["batch"] * p["kv_heads"],
                               .a = {row, group * row},
                               .b = {d, p["context"] * d},
                               .c = {d, group * d},
                               .alignment = row_alignment(p)};
  return [head = p["context"] * d, library = layout_value(kLayout, "score_bytes", p),
          values = layout_value(kLayout, "values", p),
          gemm = std::make_shared<BatchedGemm>(shape, c["values_algo"])](const void* raw, void* stream) {
    const auto& a = *static_cast<const AttentionDecodeArgs*>(raw);
    gemm->run(a.workspace, at(a, values), head, a.out, at(a, library), stream);
  };
}

}  // namespace

std::vector<Variant> attention_decode_vendor() {
  return {unfused_attention(
      {.op = attention_decode(),
       .constraint = "!append && k_layout == sd",
       .blocks = {256, 1024},
       .layout = kLayout,
       .workspace = "values + batch * kv_heads * context * head_dim * dtype_bytes",
       .scores = scores,
       .values = values,
       .softmax = {"attention_decode/library_softmax.cu",
                   "attention_decode_library_softmax<{dtype}, {q_heads}, {context}, {score_stride}, {block}>",
                   LaunchExpressions{.grid = {"q_heads", "batch"}, .block = {"block"}}},
       // One thread per vector of V.
       .before = {
           {"attention_decode/library_values.cu",
            "attention_decode_library_values<{dtype}, {kv_heads}, {context}, {head_dim}, {values}, 128>",
            LaunchExpressions{
                .grid = {"ceil_div(context * (head_dim / gcd(16 / dtype_bytes, head_dim)), 128)", "kv_heads",
                         "batch"},
                .block = {128}}}}})};
}

}  // namespace warptune
