#pragma once
// The variant `cublaslt` of an attention op: two strided-batched GEMMs by cuBLASLt and our softmax between
// them. The workspace holds the fp32 scores, which the weights replace, the library's workspace, and what the
// op's own stages need.
#include "harness/core/variant.h"
#include "variants/plain.h"
#include "variants/vendor/batched_gemm.h"

namespace warptune {

/// Elements from one row of scores to the next: a multiple of 256 bytes of fp32.
inline std::int64_t score_row_stride(std::int64_t keys) { return ceil_div(keys, 64) * 64; }
/// Alignment of the rows of a head in bytes.
inline std::int64_t row_alignment(const Problem& p) {
  return alignment_of(p["head_dim"] * static_cast<std::int64_t>(size_of(p.dtype)));
}

/// What the variant needs to know of an attention op.
struct UnfusedAttention {
  Op op;
  std::string constraint;            // beside that of plain_problem()
  std::string keys;                  // the dim that counts keys
  std::vector<std::int64_t> blocks;  // threads per row of the softmax
  std::function<std::int64_t(const Problem&)> score_bytes;
  std::function<VendorFunction(const Problem&, const Config&)> scores, values;
  Stage softmax;                        // its kernel takes {score_stride} and {block}
  std::vector<std::string> takes = {};  // optional dims that may have any value
  std::vector<Stage> before = {}, after = {};
  std::function<Assignment(const Problem&)> constants = {};     // placeholders of these stages
  std::function<std::int64_t(const Problem&)> more_bytes = {};  // workspace of these stages
};

inline Variant unfused_attention(const UnfusedAttention& attention) {
  std::vector<Stage> stages = attention.before;
  stages.insert(stages.end(),
                {library_stage(attention.scores), attention.softmax, library_stage(attention.values)});
  stages.insert(stages.end(), attention.after.begin(), attention.after.end());
  return {
      .name = "cublaslt",
      .idea = "unfused: strided-batched GEMMs by cuBLASLt, our softmax between them, scores in global memory",
      .parameters = {{"scores_algo", {0, 1, 2}, "index into the results of cuBLASLt's heuristic for Q.K^T"},
                     {"values_algo", {0, 1, 2}, "the same for P.V"},
                     {"block", attention.blocks, "threads per row of the softmax"}},
      .constraints = {plain_problem(attention.op, attention.takes), attention.constraint},
      .stages = std::move(stages),
      .constants =
          [keys = attention.keys, more = attention.constants](const Problem& p, const Config&) {
            Assignment constants = more ? more(p) : Assignment{};
            constants.set("score_stride", score_row_stride(p[keys]));
            return constants;
          },
      .workspace_bytes =
          [bytes = attention.score_bytes, more = attention.more_bytes](const Problem& p, const Config&) {
            return bytes(p) + BatchedGemm::kWorkspaceBytes + (more ? more(p) : 0);
          },
  };
}

}  // namespace warptune
