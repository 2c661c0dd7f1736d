#pragma once
// Operands of the GEMMs of linear: the scales of quantized weights, tensor maps, and the parameters of
// kernels that prefetch a part of the next GEMM's weights to the L2 (PrefetchLinearArgs): o and down, before
// or after the dependency; at their end all GEMMs without dependent launch and those on packed weights.
#include "harness/core/variant.h"

namespace warptune {

/// The dtype of the scales of quantized weights (kernels/linear/packed_weights.h).
DType weight_scale_dtype(int weights, std::int64_t group);

inline const DerivedValue kBlockColumns{"block_columns", "weights in [int8, fp8, q5_k, q6_k] ? 64 : 128",
                                        "columns of a block of packed weights"};
inline const DerivedValue kScaleBytes{"scale_bytes",
                                      "weights in [q4_k, q5_k] ? 20 : weights == q6_k ? 9 : weights in "
                                      "[nvfp4, mxfp4] ? 8 : weights == fp8 ? 4 : 16",
                                      "bytes of the scales of a group of 8 rows"};
inline const DerivedValue kScaleColumns{"scale_columns",
                                        "weights in [q4_k, q5_k, q6_k] ? 256 : max(group, 1)",
                                        "columns whose scales lie together"};

/// Variants of packed weights that call cuBLASLt.
#if WARPTUNE_HAS_CUBLASLT
std::vector<Variant> linear_vendor_fp8();
#else
inline std::vector<Variant> linear_vendor_fp8() { return {}; }
#endif

/// The streaming tensor-core GEMM on packed weights (variants/linear/streaming_mma.cpp).
Variant mma_packed_cp_async();

/// The kernel that rounds rows of x to e4m3 in the workspace (kernels/linear/packed/quantize_rows.cu).
Stage quantize_rows(const Expression& pdl);
/// Bytes of these rows and their scales.
inline const Expression kQuantizedRows = "tokens * (in + 4)";

/// A row-major matrix of 16-bit elements, by TMA boxes of 64 columns.
inline TensorMapExpressions matrix_map(const char* base, const Expression& rows, const Expression& box_rows) {
  return {.base = base,
          .dims = {"in", rows},
          .strides = {"2 * in"},
          .box = {64, box_rows},
          .swizzle = Swizzle::bytes_128};
}

/// A persistent GEMM on Hopper: a block per SM, of a producer and two consumer warpgroups.
inline LaunchExpressions persistent_gemm() {
  return {.grid = {1},
          .block = {384},
          .shared_bytes = "shared_bytes",
          .pdl = "pdl",
          .cluster = "cluster",
          .per_sm = 1,
          .max_blocks = "blocks"};
}

inline Parameter prefetch_parameter() {
  return {.name = "prefetch",
          .values = {0, 4, 8, 16},
          .doc = "MiB of the next GEMM's weights that o and down prefetch to the L2 at their start",
          .in_step_only = true};
}

inline Parameter late_prefetch_parameter() {
  return {.name = "late_prefetch",
          .values = {0, 4, 8},
          .doc = "MiB that they prefetch after the dependency",
          .in_step_only = true};
}

/// Only in the epilogues of o and down, and where rows of the next weights are copied whole.
inline const Expression kPrefetchConstraint =
    "prefetch + late_prefetch == 0 || (pdl && epilogue in [add, add_rms] && out * dtype_bytes % 16 == 0)";

inline Parameter tail_prefetch_parameter() {
  return {.name = "tail_prefetch",
          .values = {0, 2, 4, 8},
          .doc = "MiB of the next GEMM's weights that blocks prefetch to the L2 at their end",
          .in_step_only = true};
}

}  // namespace warptune
