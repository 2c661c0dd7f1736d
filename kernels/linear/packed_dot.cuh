#pragma once
// What the GEMVs on quantized weights share: their problem, the products of a block of packed weights and x
// on tensor cores (weights are the M operand of mma.sync, tokens its N), x in shared memory, and the outputs.
// Weights are exact in T. The sums of a group of columns are multiplied by its scale in fp32; where it also
// has an offset, products with ones are the sums of x that it multiplies.
#include "kernels/common/mma.cuh"
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
  static constexpr int kTokens = kTokens_, kIn = kIn_, kOut = kOut_, kBias = kBias_, kEpilogue = kEpilogue_,
                       kWeights = kWeights_, kGroup = kGroup_, kWarps = kWarps_, kTiles = kTiles_,
                       kClusterK = kClusterK_, kThreads = 32 * kWarps;
  static constexpr bool kNorm = kPrologue_ == kPrologueRmsNorm, kSwiglu = kEpilogue == kEpilogueSwiglu,
                        kZeros = kZeros_ != 0, kActOrder = kActOrder_ != 0;
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
  /// Elements of a token in shared memory: eight tokens are in different banks.
  static constexpr int kPitch = kPartIn + 8, kXBytes = kTokens * kPitch * static_cast<int>(sizeof(T));

  static_assert(kIn % (kClusterK * kColumns) == 0 && kTokens <= 16 && !(kNorm && kActOrder));
  static_assert(!kNorm || (kTokens <= 8 && kClusterK == 1));

  /// The eight rows of half `half` of a tile; those beyond the last are the last once more.
  static __device__ __forceinline__ int slot(int tile, int half) {
    if constexpr (kSwiglu) return min_of(tile, kSlots / 2 - 1) + half * (kSlots / 2);
    return min_of(2 * tile + half, kSlots - 1);
  }
};

/// The part of one block of weights that a lane holds, with the scales and zero points of its row.
template <class S>
struct PackedBlock {
  uint4 bytes;
  BlockScales<S::kWeights, S::kGroup, max_of(S::kBlockScales, 1)> scales;
  signed char zeros[max_of(S::kZeroPoints, 1)];

  __device__ __forceinline__ unsigned word(int i) const {
    return i == 0 ? bytes.x : i == 1 ? bytes.y : i == 2 ? bytes.z : bytes.w;
  }
  /// Two fragments.
  __device__ __forceinline__ void convert(unsigned (&a)[2][2], int pair) const {
    using Word = WeightWord<typename S::T, S::kWeights>;
    if constexpr (Word::kFragments == 2) {
      int zero = Word::kZero;
      if constexpr (S::kZeros) zero += zeros[S::kGroup == 0 ? 0 : 2 * pair / S::kScaleFragments];
      Word::convert(reinterpret_cast<unsigned(&)[4]>(a), word(pair), Word::bias(zero));
    } else {
#pragma unroll
      for (int f = 0; f < 2; ++f) Word::convert(a[f], word(2 * pair + f), 0);
    }
  }
};

/// Sums of a warp for each tile of eight tokens: d0, d1 are row lane / 4 and tokens 2 * (lane % 4) and the
/// next, d2, d3 eight rows further.
template <class S>
using PackedSums = float[S::kTiles][S::kTokenTiles][4];

/// Addresses of x for a lane: its rows of the matrices of ldmatrix, a token of each tile (those beyond the
/// last are the last once more) and one of four times 8 columns.
template <class S>
struct XOfLane {
  unsigned tokens[S::kTokenTiles];

  __device__ __forceinline__ explicit XOfLane(const typename S::T* x) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < S::kTokenTiles; ++n)
      tokens[n] =
          shared_address(x) + 2 * (min_of(8 * n + lane % 8, S::kTokens - 1) * S::kPitch + lane / 8 * 8);
  }
};

/// Of Q4_K: sums of a block in units of d and of dmin.
template <class S>
struct SuperSums {
  PackedSums<S> scaled = {};   // scale times the sums of a group
  PackedSums<S> offsets = {};  // minimum times the sums of x over the group

  /// `x_sums`: that of its token in each row.
  __device__ __forceinline__ void add(const PackedBlock<S> (&weights)[2], int tile, int n, int group,
                                      const float (&partial)[4], const float (&x_sums)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto& scales = weights[i / 2].scales;
      scaled[tile][n][i] = fmaf(scales.scale(group), partial[i], scaled[tile][n][i]);
      offsets[tile][n][i] = fmaf(scales.minimum(group), x_sums[i], offsets[tile][n][i]);
    }
  }
  __device__ __forceinline__ void add_to(PackedSums<S>& sums,
                                         const PackedBlock<S> (&weights)[S::kTiles][2]) const {
#pragma unroll
    for (int t = 0; t < S::kTiles; ++t)
#pragma unroll
      for (int n = 0; n < S::kTokenTiles; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const auto& scales = weights[t][i / 2].scales;
          sums[t][n][i] =
              fmaf(scales.d(), scaled[t][n][i], fmaf(-scales.dmin(), offsets[t][n][i], sums[t][n][i]));
        }
  }
};

/// sums += weights * x of one block of weights, whose first column is `column`.
template <class S>
__device__ __forceinline__ void multiply_block(PackedSums<S>& sums,
                                               const PackedBlock<S> (&weights)[S::kTiles][2],
                                               const XOfLane<S>& x, int column) {
  constexpr bool kOffsets = kHasOffsets<S::kWeights>;
  constexpr unsigned kOne = WeightWord<typename S::T, S::kWeights>::kOne;
  PackedSums<S> partial = {};
  [[maybe_unused]] SuperSums<S> super_sums;
#pragma unroll
  for (int pair = 0; pair < S::kFragments / 2; ++pair) {
    unsigned b[S::kTokenTiles][4];
    [[maybe_unused]] float x_sums[S::kTokenTiles][4] = {};
#pragma unroll
    for (int n = 0; n < S::kTokenTiles; ++n) {
      ldmatrix_x4(b[n], x.tokens[n] + 2 * column + pair * 64);
      if constexpr (kOffsets)
#pragma unroll
        for (int f = 0; f < 2; ++f)
          mma_m16n8k16<typename S::T>(x_sums[n], {kOne, kOne, kOne, kOne}, b[n][2 * f], b[n][2 * f + 1]);
    }
#pragma unroll
    for (int t = 0; t < S::kTiles; ++t) {
      unsigned a[2][2][2];  // half of the rows, fragment, half of the columns
#pragma unroll
      for (int half = 0; half < 2; ++half) weights[t][half].convert(a[half], pair);
#pragma unroll
      for (int f = 0; f < 2; ++f)
#pragma unroll
        for (int n = 0; n < S::kTokenTiles; ++n) {
          mma_m16n8k16<typename S::T>(S::kGroup == 0 ? sums[t][n] : partial[t][n],
                                      {a[0][f][0], a[1][f][0], a[0][f][1], a[1][f][1]}, b[n][2 * f],
                                      b[n][2 * f + 1]);
          if (const int done = 2 * pair + f + 1; S::kGroup != 0 && done % S::kScaleFragments == 0) {
            const int group = done / S::kScaleFragments - 1;
            if constexpr (kOffsets) super_sums.add(weights[t], t, n, group, partial[t][n], x_sums[n]);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              if constexpr (!kOffsets)
                sums[t][n][i] = fmaf(weights[t][i / 2].scales[group], partial[t][n][i], sums[t][n][i]);
              partial[t][n][i] = 0;
            }
          }
        }
    }
  }
  if constexpr (kOffsets) super_sums.add_to(sums, weights);
}

/// The columns of x from `first` on to shared memory, in the order of the columns, by kThreads threads.
template <class S, int kThreads>
__device__ __forceinline__ void load_x(typename S::T* shared, const QuantizedLinearArgs& args,
                                       int first = 0) {
  using T = typename S::T;
  const T* const x = static_cast<const T*>(args.x);
  if constexpr (S::kActOrder) {
    for (int i = threadIdx.x; i < S::kPartIn; i += kThreads) {
      const int k = args.order[first + i];
#pragma unroll
      for (int t = 0; t < S::kTokens; ++t) shared[t * S::kPitch + i] = x[t * S::kIn + k];
    }
  } else {
    for (int i = 8 * threadIdx.x; i < S::kPartIn; i += 8 * kThreads)
#pragma unroll
      for (int t = 0; t < S::kTokens; ++t)
        store_vec<8>(shared + t * S::kPitch + i, load_vec<8>(x + t * S::kIn + first + i));
  }
}

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

/// Result i of kOutputs outputs from `first` on: outputs are inner, tokens outer. What it needs beside the
/// sums is loaded before the main loop, so that its latency does not follow it.
template <class S>
struct PackedOutput {
  using T = typename S::T;
  int token = 0, output = 0;
  bool is_valid = false;
  float residual = 0, scale = 1, up_scale = 1;  // scales of rows

  __device__ __forceinline__ PackedOutput() {}
  __device__ __forceinline__ PackedOutput(const QuantizedLinearArgs& args, int first, int i)
      : token(i / S::kOutputs),
        output(first + i % S::kOutputs),
        is_valid(i < S::kResults && output < S::kOut) {
    if (!is_valid) return;
    residual = load_residual<T, S::kOut, S::kEpilogue>(args, token, output);
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
    BlockKeys<T, S::kOut, S::kEpilogue, S::kTokens>::add(
        token, store_output<T, S::kOut, S::kBias, S::kEpilogue>(args, token, output, y, residual), output);
  }
};

/// The scales of the tokens, which BlockNorm has in registers.
template <class S, class Norm>
__device__ __forceinline__ void store_scales(float (&shared)[S::kTokens], const Norm& norm) {
#pragma unroll
  for (int t = 0; t < S::kTokens; ++t)
    if (threadIdx.x == t) shared[t] = S::kNorm ? norm.scales[t] : 1;
}

}  // namespace warptune
