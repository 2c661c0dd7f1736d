#pragma once
// Quantizes matrices of 16 or 32 bits.
#include <span>

#include "harness/llama/quantized_matrix.h"

namespace warptune {

/// Rows of a matrix, in the dtype of a checkpoint.
struct FloatRows {
  DType dtype = DType::fp32;
  Slice rows;                       // that are quantized
  const std::byte* data = nullptr;  // [rows.stored, columns]; need not be aligned
};

/// The parts, one below the other, rounded to nearest in a symmetric format: the largest magnitude of a group
/// is the largest value, of a part of nvfp4 that with the largest scale; in mxfp4 it is 4 or more, with the
/// power of two below. Throws InputError where `format` has zero points or an order of columns, where its
/// group does not divide `columns`, and where a value is not finite or too large for a scale of fp16. Slices
/// have the values of the whole matrix; they must begin and end between its groups.
QuantizedMatrix quantize(const WeightFormat& format, std::span<const FloatRows> parts, const Slice& columns);

}  // namespace warptune
