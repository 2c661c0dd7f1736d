#pragma once
// Tensor parallelism: each rank holds a part of every matrix. The rows of q, k, v, gate, up and lm_head are
// split, the columns of o and down, and with the heads the KV cache. Where there are fewer KV heads than
// ranks, ranks share one. Embedding and norms are on all ranks.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/llama/model_config.h"
#include "harness/llama/safetensors.h"

namespace warptune {

/// The part of a whole model that a rank holds. Throws InputError, one sentence, where a dim cannot be split.
ModelConfig split_over_ranks(ModelConfig config, int rank, int ranks);

/// Whether each rank computes the logits of a part of the vocabulary. A vocabulary that does not split into
/// packets of the exchange stays whole on all ranks.
bool splits_vocabulary(const ModelConfig& config);
/// Rows of lm_head.
int head_rows(const ModelConfig& config);

/// Elements [first, first + count) of `stored` ones.
struct Slice {
  std::int64_t count = 0, first = 0, stored = 0;
  Slice() = default;
  Slice(std::int64_t all) : count(all), stored(all) {}  // implicit: a number is the whole extent
  Slice(std::int64_t first, std::int64_t count, std::int64_t stored)
      : count(count), first(first), stored(stored) {}
  bool is_whole() const { return count == stored; }
  /// In units of `size` elements each, of which the last may have fewer.
  Slice in_units(std::int64_t size) const {
    return {first / size, (count + size - 1) / size, (stored + size - 1) / size};
  }
};

/// The tensor's rows, and of two axes its columns. Slices of rows view the tensor, which must outlive them;
/// those of columns are copied. Columns are those of the shape, and begin and end between blocks.
std::shared_ptr<const StoredTensor> sliced(const StoredTensor& tensor, const Slice& rows,
                                           const Slice& columns);

/// Rows and columns of a matrix of the whole model. Rows of qkv are those of q, of k and of v, of gate_up
/// those of gate and of up, as ranges of the one matrix; qk and v are the two parts of qkv.
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
  MatrixSlice qkv, qk, v, o, gate_up, down;
};
LayerSlices layer_slices(const ModelConfig& config);
MatrixSlice head_slice(const ModelConfig& config);

/// The modules of a checkpoint that hold the matrices of a model, by names and rows. A module may come more
/// than once, with several ranges of its rows.
using Parts = std::vector<std::pair<std::string, Slice>>;

/// Modules of a checkpoint that are one matrix, one below the other.
struct Modules {
  Parts parts;
  Slice columns;
};

/// Where one module holds q, k and v, it is in `qk`, and `v` has no parts.
struct LayerModules {
  Modules qk, v, o, gate_up, down;
  Modules qkv() const;
};

LayerModules layer_modules(const ModelConfig& config, int layer);
Modules head_module(const ModelConfig& config);

}  // namespace warptune
