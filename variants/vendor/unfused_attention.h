#pragma once
// Attention as two batched products by cuBLASLt with our softmax between them. The scores are fp32 in the
// workspace, where the weights take their place; the library's own workspace follows them.
#include "harness/core/variant.h"
#include "variants/plain.h"
#include "variants/vendor/batched_product.h"

namespace warptune {

/// Elements from one row of scores to the next: whole 256 bytes of fp32.
inline std::int64_t score_row_stride(std::int64_t keys) { return ceil_div(keys, 64) * 64; }
/// What the addresses of a head's rows are multiples of.
inline std::int64_t row_alignment(const Problem& p) {
  return alignment_of(p["head_dim"] * static_cast<std::int64_t>(size_of(p.dtype)));
}

/// What an attention op says of itself.
struct UnfusedAttention {
  Op op;
  std::string constraint;            // on plain problems
  std::string keys;                  // the dim
  std::vector<std::int64_t> blocks;  // threads per row of the softmax
  std::function<std::int64_t(const Problem&)> score_bytes;
  std::function<VendorFunction(const Problem&, const Config&)> scores, values;
  Stage softmax;  // its kernel takes {score_stride} and {block}
};

inline Variant unfused_attention(const UnfusedAttention& attention) {
  return {
      .name = "cublaslt",
      .idea = "batched products by cuBLASLt, our softmax between them, scores in memory",
      .parameters = {{"scores_algo", {0, 1, 2}, "index among the heuristic's results for q . K"},
                     {"values_algo", {0, 1, 2}, "the same for the weights . V"},
                     {"block", attention.blocks, "threads per row of the softmax"}},
      .constraints = {plain_problem(attention.op), attention.constraint},
      .stages = {library_stage(attention.scores), attention.softmax, library_stage(attention.values)},
      .constants =
          [keys = attention.keys](const Problem& p, const Config&) {
            return Assignment{{"score_stride", score_row_stride(p[keys])}};
          },
      .workspace_bytes = [bytes = attention.score_bytes](
                             const Problem& p,
                             const Config&) { return bytes(p) + BatchedProduct::kWorkspaceBytes; },
  };
}

}  // namespace warptune
