#pragma once
// The variant `cublaslt` of an attention op: two strided-batched GEMMs by cuBLASLt and our softmax between
// them. The workspace holds the fp32 scores, which the weights replace, the library's workspace, and what the
// op's own stages need.
#include "harness/core/variant_values.h"
#include "variants/plain.h"
#include "variants/vendor/batched_gemm.h"

namespace warptune {

/// A derived value of the workspace's layout.
inline std::int64_t layout_value(const std::vector<DerivedValue>& layout, const char* name,
                                 const Problem& problem) {
  const Variant variant{.name = {}, .idea = {}, .derived = layout};
  return VariantValues(variant, problem, {}).integer(name);
}
/// Alignment of the rows of a head in bytes.
inline std::int64_t row_alignment(const Problem& p) {
  return alignment_of(p["head_dim"] * static_cast<std::int64_t>(size_of(p.dtype)));
}

/// What the variant needs to know of an attention op.
struct UnfusedAttention {
  Op op;
  std::string constraint;            // beside that of plain_problem()
  std::vector<std::int64_t> blocks;  // threads per row of the softmax
  std::vector<DerivedValue> layout;  // of the workspace
  Expression workspace;
  std::function<VendorFunction(const Problem&, const Config&)> scores, values;
  Stage softmax;                        // its kernel takes {score_stride} and {block}
  std::vector<std::string> takes = {};  // optional dims that may have any value
  std::vector<Stage> before = {}, after = {};
};

inline Variant unfused_attention(const UnfusedAttention& attention) {
  std::vector<Stage> stages = attention.before;
  stages.insert(stages.end(),
                {Stage{.library = attention.scores}, attention.softmax, Stage{.library = attention.values}});
  stages.insert(stages.end(), attention.after.begin(), attention.after.end());
  return {
      .name = "cublaslt",
      .idea = "unfused: strided-batched GEMMs by cuBLASLt, our softmax between them, scores in global memory",
      .parameters = {{"scores_algo", {0, 1, 2}, "index into the results of cuBLASLt's heuristic for Q.K^T"},
                     {"values_algo", {0, 1, 2}, "the same for P.V"},
                     {"block", attention.blocks, "threads per row of the softmax"}},
      .derived = attention.layout,
      .constraints = {plain_problem(attention.op, attention.takes), attention.constraint},
      .stages = std::move(stages),
      .workspace = attention.workspace,
  };
}

}  // namespace warptune
