#pragma once
// Tensor parallelism: each rank holds a part of every matrix. The rows of q, k, v, gate, up and lm_head are
// split, the columns of o and down, and with the heads the KV cache. Where there are fewer KV heads than
// ranks, ranks share one. Embedding and norms are on all ranks.
#include <vector>

#include "harness/llama/model_config.h"
#include "harness/llama/tensor_slice.h"

namespace warptune {

/// The part of a whole model that a rank holds. Throws InputError, one sentence, where a dim cannot be split.
ModelConfig split_over_ranks(ModelConfig config, int rank, int ranks);

/// Whether each rank computes the logits of a part of the vocabulary. A vocabulary that does not split into
/// packets of the exchange stays whole on all ranks.
bool splits_vocabulary(const ModelConfig& config);
/// Rows of lm_head.
int head_rows(const ModelConfig& config);

/// Rows and columns of a matrix of the whole model. Rows of qkv are those of q, of k and of v, of gate_up
/// those of gate and of up, as ranges of the one matrix.
struct MatrixSlice {
  std::vector<Slice> rows;
  Slice columns;
  std::int64_t row_count() const {
    std::int64_t count = 0;
    for (const Slice& range : rows) count += range.count;
    return count;
  }
  bool has_all_rows() const { return row_count() == rows[0].stored; }
};
struct LayerSlices {
  MatrixSlice qkv, o, gate_up, down;
};
LayerSlices layer_slices(const ModelConfig& config);
MatrixSlice head_slice(const ModelConfig& config);

}  // namespace warptune
