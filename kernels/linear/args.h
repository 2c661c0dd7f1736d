#pragma once
// y[t,o] = sum_i x[t,i] * weight[o,i] (+ bias[o]), accumulated in fp32; and what may be fused with it.

namespace warptune {

struct LinearArgs {
  const void* x;       // [tokens, in], dtype
  const void* weight;  // [out, in], dtype
  const void* bias;    // [out], dtype; null where the problem has no bias
  void* y;             // [tokens, out], dtype
  void* workspace;     // of the size that the variant states, zeroed before the first launch
  int tokens;
};

// The values of dim `prologue`.
inline constexpr int kPrologueNone = 0;
inline constexpr int kPrologueRmsNorm = 1;   // x is replaced by rms_norm(x) * norm_weight
inline constexpr int kPrologueRmsScale = 2;  // the sums are divided by the RMS of a row, given by its squares

// The values of dim `epilogue`.
inline constexpr int kEpilogueNone = 0;
inline constexpr int kEpilogueAdd = 1;     // y += residual
inline constexpr int kEpilogueSwiglu = 2;  // weight: rows of gate, then of up; y = silu(gate) * up
inline constexpr int kEpilogueArgmax = 3;  // also ids[t]: the index of the largest y[t], as op argmax
inline constexpr int kEpilogueAddRms =
    4;  // y += residual; also what kPrologueRmsScale of the next GEMM reads

/// Adjacent elements of a row whose squares have one sum.
inline constexpr int kSquaresGroup = 16;

/// With a prologue or an epilogue. With kEpilogueSwiglu, weight is [2 * out, in].
struct FusedLinearArgs : LinearArgs {
  const void* norm_weight;  // kPrologueRmsNorm: [in], kEpilogueAddRms: [out], dtype
  const void* residual;     // [tokens, out], dtype, may be y; null where none is added
  float eps;                // of the norm
};

/// With kEpilogueArgmax.
struct ArgmaxLinearArgs : FusedLinearArgs {
  int* ids;  // [tokens]
};

/// With kPrologueRmsScale or kEpilogueAddRms: RMSNorm split between two GEMMs. The one before it writes
/// the row times the weight of the norm, and sums of its squares; the one after it divides by their root.
struct SplitNormLinearArgs : ArgmaxLinearArgs {
  const float* squares;  // kPrologueRmsScale: [tokens, in / kSquaresGroup]
  void* scaled;          // kEpilogueAddRms: [tokens, out], dtype: y * norm_weight
  float* squares_out;    // kEpilogueAddRms: [tokens, out / kSquaresGroup], of y
};

/// With any prologue or epilogue. A kernel may prefetch a part of the next GEMM's weights to the L2 while it
/// waits; next_rows is 0 where they are not known.
struct PrefetchLinearArgs : SplitNormLinearArgs {
  const void* next_weight;  // [next_rows, next_row_bytes]
  int next_rows, next_row_bytes;
};

/// With quantized weights: `weight` is packed (packed_weights.h).
struct QuantizedLinearArgs : PrefetchLinearArgs {
  const void* scales;        // as scale_index() has them, in WeightScale of packed_weights.cuh
  const signed char* zeros;  // as the scales: zero points minus 8; null where all are 8
  const int* order;          // [in]: column i multiplies x[order[i]]; null: i
  const float* row_scales;   // nvfp4: [rows of weight]
};

}  // namespace warptune
