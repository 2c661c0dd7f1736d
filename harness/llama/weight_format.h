#pragma once
// How a matrix of weights is quantized: the dims of op linear that say so.
#include <cstdint>
#include <string>
#include <string_view>

#include "harness/core/dtype.h"
#include "harness/core/problem.h"
#include "kernels/linear/packed_weights.h"

namespace warptune {

/// Tokens up to which activations stay as they are.
inline constexpr std::int64_t kFewTokens = 64;

struct WeightFormat {
  int weights = kWeightsSame;  // a value of dim `weights`
  int group = 0;               // columns of a row that share a scale; 0: the whole row
  bool zeros = false;          // groups have zero points
  bool act_order = false;      // column i of the matrix multiplies x[order[i]]
  /// GEMMs of more than kFewTokens round their activations to fp8. Up to there weights bound the time.
  bool fp8_activations = false;

  bool quantized() const { return weights != kWeightsSame; }
  /// The number of columns of a row is a multiple of this: the columns of a group, with q4_k and q6_k of a
  /// super-block.
  int unit_columns() const { return has_super_blocks(weights) ? kSuperColumns : group == 0 ? 1 : group; }
  /// "int4:group=128:zeros", "fp8:activations=fp8"; "same" where it is not quantized.
  std::string str() const;
  bool operator==(const WeightFormat&) const = default;
};

/// The format of such a text. int4 without a group has groups of 128; those of nvfp4 and q6_k are 16, of
/// mxfp4 and q4_k 32. Throws InputError.
WeightFormat parse_weight_format(std::string_view text);

/// Groups of a row. Throws InputError where they do not divide it.
std::int64_t groups_of(const WeightFormat& format, std::int64_t columns);

/// The same GEMM on weights of that format. Throws as groups_of().
Problem with_weights(Problem linear, const WeightFormat& format);

/// The dtype of the scales of a quantized matrix.
DType scale_dtype(const WeightFormat& format);

/// Bytes of a matrix on the device, of `dtype` where it is not quantized, without padding of the weights.
/// Throws as groups_of().
double matrix_bytes(const WeightFormat& format, DType dtype, std::int64_t rows, std::int64_t columns);

}  // namespace warptune
