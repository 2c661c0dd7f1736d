// attention_decode by cuBLASLt. The query heads of a group are the rows of its GEMMs with K and V. V is
// copied, with zeros past the lengths, which only kernels read.
#include "kernels/attention_decode/args.h"
#include "kernels/common/vec_width.h"
#include "variants/attention_decode/attention_decode.h"
#include "variants/vendor/unfused_attention.h"

namespace warptune {
namespace {

std::int64_t score_stride(const Problem& p) { return score_row_stride(p["context"]); }
std::int64_t score_bytes(const Problem& p) { return p["batch"] * p["q_heads"] * score_stride(p) * 4; }
std::int64_t element_size(const Problem& p) { return static_cast<std::int64_t>(size_of(p.dtype)); }
/// The copy of V lies past the workspace of the library.
std::int64_t values_offset(const Problem& p) {
  return ceil_div(score_bytes(p) + BatchedGemm::kWorkspaceBytes, 256) * 256;
}
std::int64_t values_bytes(const Problem& p) {
  return 256 + p["batch"] * p["kv_heads"] * p["context"] * p["head_dim"] * element_size(p);
}
void* library_workspace(const Problem& p, const AttentionDecodeArgs& a) {
  return static_cast<std::byte*>(a.workspace) + score_bytes(p);
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
  return [p, gemm = std::make_shared<BatchedGemm>(shape, c["scores_algo"])](const void* raw, void* stream) {
    const auto& a = *static_cast<const AttentionDecodeArgs*>(raw);
    gemm->run(a.q, a.k_cache, a.capacity * p["head_dim"], a.workspace, library_workspace(p, a), stream);
  };
}

VendorFunction values(const Problem& p, const Config& c) {
  const std::int64_t d = p["head_dim"], group = p["q_heads"] / p["kv_heads"];
  const std::int64_t row = score_stride(p) * 4 / element_size(p);
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
  return [p, gemm = std::make_shared<BatchedGemm>(shape, c["values_algo"])](const void* raw, void* stream) {
    const auto& a = *static_cast<const AttentionDecodeArgs*>(raw);
    const std::byte* const v = static_cast<std::byte*>(a.workspace) + values_offset(p);
    gemm->run(a.workspace, v, p["context"] * p["head_dim"], a.out, library_workspace(p, a), stream);
  };
}

/// One thread of library_values.cu per vector of V.
constexpr std::int64_t kCopyBlock = 128;
Launch per_value_vector(const Problem& p, const Config&) {
  const std::int64_t d = p["head_dim"], vec = vec_width(static_cast<int>(16 / element_size(p)), d);
  return {.grid = {blocks_for(p["context"] * (d / vec), kCopyBlock), as_unsigned(p["kv_heads"]),
                   as_unsigned(p["batch"])},
          .block = {as_unsigned(kCopyBlock)}};
}

}  // namespace

std::vector<Variant> attention_decode_vendor() {
  return {unfused_attention(
      {.op = attention_decode(),
       .constraint = "!append && k_layout == sd",
       .keys = "context",
       .blocks = {256, 1024},
       .score_bytes = score_bytes,
       .scores = scores,
       .values = values,
       .softmax = {"attention_decode/library_softmax.cu",
                   "attention_decode_library_softmax<{dtype}, {q_heads}, {context}, {score_stride}, {block}>",
                   [](const Problem& p, const Config& c) {
                     return Launch{.grid = {as_unsigned(p["q_heads"]), as_unsigned(p["batch"])},
                                   .block = {as_unsigned(c["block"])}};
                   }},
       .before = {{"attention_decode/library_values.cu",
                   "attention_decode_library_values<{dtype}, {kv_heads}, {context}, {head_dim}, {values}, "
                   "{copy_block}>",
                   per_value_vector}},
       .constants =
           [](const Problem& p) {
             return Assignment{{"values", values_offset(p)}, {"copy_block", kCopyBlock}};
           },
       .more_bytes = values_bytes})};
}

}  // namespace warptune
