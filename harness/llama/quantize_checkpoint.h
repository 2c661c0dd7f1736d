#pragma once
// Writes a checkpoint with quantized layers, in the layout of compressed-tensors, from one of 16 or 32 bits.
#include <cstdint>
#include <filesystem>

#include "harness/llama/weight_format.h"

namespace warptune {

/// The most bytes of tensors in a file; with more, a checkpoint has several files and an index.
inline constexpr std::int64_t kShardBytes = 5'000'000'000;

struct QuantizedCheckpoint {
  std::int64_t bytes_before = 0, bytes = 0;  // sizes of all tensors together
  int files = 0;                             // with tensors
};

/// Quantizes the matrices of the layers as quantize() does, and copies all other tensors and the files that
/// hold none. `out`: a new or empty folder; its config.json is written last. Throws InputError before it
/// writes where the format is not int4, int8, fp8, nvfp4 or mxfp4 of compressed-tensors, a group does not
/// divide a matrix, or a folder cannot be used. An exception leaves nothing in `out`.
QuantizedCheckpoint quantize_checkpoint(const std::filesystem::path& model, const WeightFormat& format,
                                        const std::filesystem::path& out,
                                        std::int64_t shard_bytes = kShardBytes);

}  // namespace warptune
