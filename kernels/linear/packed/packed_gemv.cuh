#pragma once
// The problem of the GEMVs on quantized weights, and their outputs: the sums of the warps of a block, which
// split K, added and stored.
#include "kernels/common/pdl.cuh"
#include "kernels/linear/argmax.cuh"
#include "kernels/linear/fused.cuh"
#include "kernels/linear/packed_weights.cuh"

namespace warptune {

/// The problem, and kTiles tiles of 16 weight rows (with SwiGLU 8 gates and their 8 ups) that a warp
/// multiplies at once. kClusterK blocks may split K before their warps do.
template <class T_, int kTokens_, int kIn_, int kOut_, int kBias_, int kPrologue_, int kEpilogue_,
          int kWeights_, int kGroup_, int kZeros_, int kActOrder_, int kWarps_, int kTiles_,
          int kClusterK_ = 1>
struct PackedGemv {
  using T = T_;
  using Word = WeightWord<T, kWeights_>;
  static constexpr int kTokens = kTokens_, kIn = kIn_, kOut = kOut_, kBias = kBias_, kEpilogue = kEpilogue_,
                       kWeights = kWeights_, kGroup = kGroup_, kWarps = kWarps_, kTiles = kTiles_,
                       kClusterK = kClusterK_, kThreads = 32 * kWarps;
  static constexpr bool kNorm = kPrologue_ == kPrologueRmsNorm, kRmsScale = kPrologue_ == kPrologueRmsScale,
                        kScalesTokens = kNorm || kRmsScale, kSwiglu = kEpilogue == kEpilogueSwiglu,
                        kAddRms = kEpilogue == kEpilogueAddRms, kZeros = kZeros_ != 0,
                        kActOrder = kActOrder_ != 0;
  static constexpr int kRows = kSwiglu ? 2 * kOut : kOut, kSlots = ceil_div(kRows, kBlockRows);
  static constexpr int kTileOutputs = kSwiglu ? 8 : 16, kOutputs = kTiles * kTileOutputs,
                       kResults = kOutputs * kTokens, kResultRows = kSwiglu ? 2 : 1,
                       kTokenTiles = ceil_div(kTokens, 8);
  /// Columns that a block multiplies, and blocks of weights of a row there.
  static constexpr int kPartIn = kIn / kClusterK, kColumns = block_columns(kWeights),
                       kBlocks = kPartIn / kColumns;
  static constexpr int kFragments = kColumns / 16;
  /// Scales of a row in a block of weights, and the fragments of one; without groups rows have one at the
  /// end.
  static constexpr int kBlockScales = kGroup == 0         ? 0
                                      : kGroup < kColumns ? kColumns / kGroup
                                                          : 1,
                       kZeroPoints = kZeros ? max_of(kBlockScales, 1) : 0,
                       kScaleFragments = kGroup == 0 ? kFragments : kFragments / kBlockScales;
  /// Scales that rows share are in the registers of a warp (WarpScales), others of groups in the stages.
  static constexpr bool kWarpScales = kRowsShareScales<kWeights, kGroup>,
                        kStageScales = kGroup != 0 && !kWarpScales;
  /// Whether integer tensor cores multiply weights and digits of x (packed_digits.cuh). Weights of eight bits
  /// gain nothing: to convert four takes three instructions, and digits take twice the shared memory of x.
  static constexpr bool kDigits = kTokens == 1 && Word::kFourBits;
  /// Whether e4m3 and x are multiplied in fp16 (packed_fp16.cuh). sm_80 has no instruction that converts
  /// e4m3.
  static constexpr bool kFp16 = kTokens == 1 && kWeights == kWeightsFp8 && kHasPdl;
  /// Whether an accumulator takes all columns: there are no scales of groups, and one zero point.
  static constexpr bool kDirect = kGroup == 0 && (kDigits || !Word::kFourBits) && !kZeros;
  /// Groups of a block of weights that a lane scales: with kDigits every kGroupStride-th from first_group().
  static constexpr int kLaneGroups = max_of(kDigits ? min_of(kBlockScales, 2) : kBlockScales, 1),
                       kGroupStride = kDigits && kBlockScales == 4 ? 2 : 1;
  /// Blocks of weights with sums of x in shared memory, and the sums of each: one per group, or one.
  static constexpr int kXBlocks = Word::kIntegers && !kDirect ? kBlocks : 0,
                       kXGroups = kXBlocks == 0 ? 1 : max_of(kBlockScales, 1);
  /// With one token every other sum of a lane belongs to no token.
  static constexpr int kSumStep = kTokens == 1 ? 2 : 1;
  /// What the sums of products are multiplied by.
  static constexpr float kSumScale = kDigits || kFp16 ? 1 : Word::kSumScale;
  /// Elements of a token in shared memory: eight tokens are in different banks.
  static constexpr int kPitch = kPartIn + 8;

  static_assert(kIn % (kClusterK * kColumns) == 0 && kTokens <= 16 && !(kScalesTokens && kActOrder));
  static_assert(!kScalesTokens || (kTokens <= 8 && kClusterK == 1));
  static_assert(!kAddRms || kOut % kSquaresGroup == 0);

  /// The eight rows of half `half` of a tile; those beyond the last are the last once more.
  static __device__ __forceinline__ int slot(int tile, int half) {
    if constexpr (kSwiglu) return min_of(tile, kSlots / 2 - 1) + half * (kSlots / 2);
    return min_of(2 * tile + half, kSlots - 1);
  }
  /// The first of the groups of a block that the lane scales.
  static __device__ __forceinline__ int first_group() {
    return kGroupStride == 2 ? static_cast<int>(threadIdx.x) % 4 / 2 : 0;
  }
};

/// Sums of a warp for each tile of eight tokens: d0 and d1 are row lane / 4 and tokens 2 * (lane % 4) and the
/// next, d2 and d3 the same tokens eight rows further.
template <class S>
using PackedSums = float[S::kTiles][S::kTokenTiles][4];

/// The sums of the warps of a block, which split K.
template <class S>
using PackedPartials = float[S::kWarps][S::kTiles][S::kTokens][16];

template <class S>
__device__ __forceinline__ void store_partials(PackedPartials<S>& partials, const PackedSums<S>& sums) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < S::kTokenTiles; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (const int token = 8 * n + lane % 4 * 2 + i % 2; token < S::kTokens)
#pragma unroll
        for (int t = 0; t < S::kTiles; ++t)
          partials[threadIdx.x / 32][t][token][lane / 4 + i / 2 * 8] = sums[t][n][i];
}

/// The sums of a result: its row, or with SwiGLU its gate and its up.
template <class S>
using ResultSums = Vec<float, S::kResultRows>;

/// Result i of kResults, added over the warps.
template <class S>
__device__ __forceinline__ ResultSums<S> add_partials(const PackedPartials<S>& partials, int i) {
  const int token = i / S::kOutputs, local = i % S::kOutputs;
  ResultSums<S> sums;
#pragma unroll
  for (int r = 0; r < S::kResultRows; ++r) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < S::kWarps; ++w)
      sum += partials[w][local / S::kTileOutputs][token][local % S::kTileOutputs + 8 * r];
    sums[r] = sum;
  }
  return sums;
}

/// Result i of kOutputs outputs from `first` on: outputs are inner, tokens outer; lane i % 32 has it. What it
/// needs beside the sums is loaded before the main loop, so that its latency does not follow it.
template <class S>
struct PackedOutput {
  using T = typename S::T;
  int token = 0, output = 0;
  bool is_valid = false;
  float residual = 0, scale = 1, up_scale = 1;  // scales of rows
  float next_norm_weight = 0;                   // with add_rms

  __device__ __forceinline__ PackedOutput() {}
  __device__ __forceinline__ PackedOutput(const QuantizedLinearArgs& args, int first, int i)
      : token(i / S::kOutputs),
        output(first + i % S::kOutputs),
        is_valid(i < S::kResults && output < S::kOut) {
    if (!is_valid) return;
    residual = load_residual<T, S::kOut, S::kEpilogue>(args, token, output);
    if constexpr (S::kAddRms) next_norm_weight = to_float(static_cast<const T*>(args.norm_weight)[output]);
    if constexpr (kHasRowScales<S::kWeights, S::kGroup>) {
      scale = row_scale<S::kWeights, S::kGroup>(args, output);
      if constexpr (S::kSwiglu) up_scale = row_scale<S::kWeights, S::kGroup>(args, output + S::kOut);
    }
  }

  /// `x_scale`: of the token.
  __device__ __forceinline__ void store(const QuantizedLinearArgs& args, const ResultSums<S>& sums,
                                        float x_scale) const {
    float y = x_scale * scale * sums[0];
    if constexpr (S::kSwiglu) y = silu(y) * (x_scale * up_scale) * sums[1];
    const T rounded = store_output<T, S::kOut, S::kBias, S::kEpilogue>(args, token, output, y, residual);
    BlockKeys<T, S::kOut, S::kEpilogue, S::kTokens>::add(token, rounded, output);
    if constexpr (S::kAddRms) store_scaled(args, to_float(rounded));
  }

 private:
  /// Epilogue add_rms: y times the weight of the next norm, and the squares of kSquaresGroup outputs, which
  /// half a warp has.
  __device__ __forceinline__ void store_scaled(const QuantizedLinearArgs& args, float y) const {
    static_assert(kSquaresGroup == 16);
    const unsigned half_warp = 0xffffu << (threadIdx.x & 16);
    float squares = y * y;
#pragma unroll
    for (int offset = 8; offset > 0; offset /= 2) squares += __shfl_xor_sync(half_warp, squares, offset);
    const long long at = static_cast<long long>(token) * S::kOut + output;
    static_cast<T*>(args.scaled)[at] = from_float<T>(y * next_norm_weight);
    if (output % kSquaresGroup == 0) args.squares_out[at / kSquaresGroup] = squares;
  }
};

}  // namespace warptune
