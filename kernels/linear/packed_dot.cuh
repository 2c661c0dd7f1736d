#pragma once
// What the GEMVs on quantized weights share: their problem, the products of a block of packed weights and x
// on tensor cores (weights are the M operand of mma.sync, tokens its N), and the outputs. Weights are exact
// in T: WeightWord, with the zero points and minima as multiples of sums of x (packed_x.cuh). The sums of a
// group of columns are multiplied by its scale in fp32.
#include "kernels/linear/argmax.cuh"
#include "kernels/linear/packed_x.cuh"

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
  /// Whether an accumulator takes all columns: there are no scales of groups, and one zero point.
  static constexpr bool kDirect = kGroup == 0 && !Word::kFourBits && !kZeros;
  /// Blocks of weights with sums of x in shared memory, and the sums of each: one per group, or one.
  static constexpr int kXBlocks = Word::kIntegers && !kDirect ? kBlocks : 0,
                       kXGroups = kXBlocks == 0 ? 1 : max_of(kBlockScales, 1);
  /// With one token and four groups in a block of weights the columns of the tensor cores' operand are
  /// groups: an accumulator has the sums of eight, and each lane multiplies those of two by their scales.
  static constexpr bool kGroupColumns =
      kTokens == 1 && kBlockScales == 4 && Word::kIntegers && kWeights != kWeightsInt8 && !kZeros;
  /// With one token every other sum of a lane belongs to no token.
  static constexpr int kSumStep = kTokens == 1 ? 2 : 1;
  /// Elements of a token in shared memory: eight tokens are in different banks.
  static constexpr int kPitch = kPartIn + 8;

  static_assert(kIn % (kClusterK * kColumns) == 0 && kTokens <= 16 && !(kNorm && kActOrder));
  static_assert(!kNorm || (kTokens <= 8 && kClusterK == 1));

  /// The eight rows of half `half` of a tile; those beyond the last are the last once more.
  static __device__ __forceinline__ int slot(int tile, int half) {
    if constexpr (kSwiglu) return min_of(tile, kSlots / 2 - 1) + half * (kSlots / 2);
    return min_of(2 * tile + half, kSlots - 1);
  }
};

/// The part of one block of weights that a lane holds, with the scales and zero points of its row; with
/// kGroupColumns the scales are those of the lane's two groups.
template <class S>
struct PackedBlock {
  uint4 bytes;
  BlockScales<S::kWeights, S::kGroup, max_of(S::kBlockScales, 1)> scales;
  signed char zeros[max_of(S::kZeroPoints, 1)];

  __device__ __forceinline__ unsigned word(int i) const {
    return i == 0 ? bytes.x : i == 1 ? bytes.y : i == 2 ? bytes.z : bytes.w;
  }
  /// The pairs of fragments 2 * i and the next.
  __device__ __forceinline__ void get(unsigned (&pairs)[4], int i) const {
    if constexpr (S::Word::kPairs == 4) {
      S::Word::bits(pairs, word(i));
    } else {
#pragma unroll
      for (int f = 0; f < 2; ++f)
        S::Word::bits(reinterpret_cast<unsigned(&)[2]>(pairs[2 * f]), word(2 * i + f));
    }
  }
};

/// Sums of a warp for each tile of eight tokens: d0, d1 are row lane / 4 and tokens 2 * (lane % 4) and the
/// next, d2, d3 eight rows further.
template <class S>
using PackedSums = float[S::kTiles][S::kTokenTiles][4];

/// Of Q4_K: sums of a block in units of d and of dmin.
template <class S>
struct SuperSums {
  PackedSums<S> scaled = {};   // scale times the sums of a group
  PackedSums<S> offsets = {};  // minimum times the sums of x over the group

  __device__ __forceinline__ void add(const PackedBlock<S> (&weights)[2], int tile, int n, int i, int group,
                                      float sum, float x_sum) {
    const auto& scales = weights[i / 2].scales;
    scaled[tile][n][i] = fmaf(scales.scale(group), sum, scaled[tile][n][i]);
    offsets[tile][n][i] = fmaf(scales.minimum(group), x_sum, offsets[tile][n][i]);
  }
  __device__ __forceinline__ void add_to(PackedSums<S>& sums,
                                         const PackedBlock<S> (&weights)[S::kTiles][2]) const {
#pragma unroll
    for (int t = 0; t < S::kTiles; ++t)
#pragma unroll
      for (int n = 0; n < S::kTokenTiles; ++n)
#pragma unroll
        for (int i = 0; i < 4; i += S::kSumStep) {
          const auto& scales = weights[t][i / 2].scales;
          sums[t][n][i] =
              fmaf(scales.d(), scaled[t][n][i], fmaf(-scales.dmin(), offsets[t][n][i], sums[t][n][i]));
        }
  }
};

/// Initializes the sums of a warp.
template <class S>
__device__ __forceinline__ void start_sums(PackedSums<S>& sums, const XOfWarp<S>& x) {
#pragma unroll
  for (int t = 0; t < S::kTiles; ++t)
#pragma unroll
    for (int n = 0; n < S::kTokenTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[t][n][i] = x.start[n][i];
}

/// sums += weights * x of one block of weights: block `block` of the columns in shared memory.
template <class S>
__device__ __forceinline__ void multiply_block(PackedSums<S>& sums,
                                               const PackedBlock<S> (&weights)[S::kTiles][2],
                                               const XOfWarp<S>& x, int block) {
  using Word = typename S::Word;
  constexpr bool kOffsets = kHasOffsets<S::kWeights>;
  // With two units pairs 0 and 2 are a fragment, with sums of their own, and 1 and 3.
  constexpr int kUnits = Word::kUnits;
  [[maybe_unused]] float partial[kUnits][S::kTiles][S::kTokenTiles][4];
  [[maybe_unused]] typename XOfWarp<S>::Groups x_sums[S::kTokenTiles][2];
  [[maybe_unused]] SuperSums<S> super_sums;
  if constexpr (S::kXBlocks != 0)
#pragma unroll
    for (int n = 0; n < S::kTokenTiles; ++n)
#pragma unroll
      for (int i = 0; i < 2; i += S::kSumStep) x_sums[n][i] = x.sums(block, n, i);
  // The initial sums of a group are what zero points contribute.
  const auto begin_group = [&](int t, int n, int unit, int group) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float sum = 0;
      if constexpr (Word::kZero != 0)
        if (unit == 0 && i % S::kSumStep == 0) {
          sum = x_sums[n][i % 2][group];
          if constexpr (S::kZeros) sum *= -static_cast<float>(Word::kZero + weights[t][i / 2].zeros[group]);
        }
      partial[unit][t][n][i] = sum;
    }
  };
  const auto end_group = [&](int t, int n, int group) {
#pragma unroll
    for (int i = 0; i < 4; i += S::kSumStep) {
      float sum = partial[0][t][n][i];
      if constexpr (kUnits == 2) sum = fmaf(partial[1][t][n][i], 0.0625f, sum);
      if constexpr (kOffsets)
        super_sums.add(weights[t], t, n, i, group, sum, x_sums[n][i % 2][group]);
      else if constexpr (S::kGroup == 0)
        sums[t][n][i] += sum;
      else
        sums[t][n][i] = fmaf(weights[t][i / 2].scales[group], sum, sums[t][n][i]);
    }
  };
#pragma unroll
  for (int pair = 0; pair < S::kFragments / 2; ++pair) {
    unsigned b[S::kTokenTiles][4];
#pragma unroll
    for (int n = 0; n < S::kTokenTiles; ++n)
      ldmatrix_x4(b[n], x.addresses[n] + 2 * block * S::kColumns + pair * 64);
#pragma unroll
    for (int t = 0; t < S::kTiles; ++t) {
      unsigned a[2][4];  // half of the rows, pairs of two fragments
#pragma unroll
      for (int half = 0; half < 2; ++half) weights[t][half].get(a[half], pair);
#pragma unroll
      for (int f = 0; f < 2; ++f) {
        const int fragment = 2 * pair + f, unit = f % kUnits, group = fragment / S::kScaleFragments;
        const int first = 2 * f / kUnits, second = first + kUnits;
#pragma unroll
        for (int n = 0; n < S::kTokenTiles; ++n) {
          if (!S::kDirect && fragment % S::kScaleFragments == unit) begin_group(t, n, unit, group);
          mma_m16n8k16<typename S::T>(S::kDirect ? sums[t][n] : partial[unit][t][n],
                                      {a[0][first], a[1][first], a[0][second], a[1][second]}, b[n][2 * f],
                                      b[n][2 * f + 1]);
          if (!S::kDirect && (fragment + 1) % S::kScaleFragments == 0) end_group(t, n, group);
        }
      }
    }
  }
  if constexpr (kOffsets) super_sums.add_to(sums, weights);
}

/// The sums of a warp, and what a lane has of them.
template <class S>
class PackedAccumulator {
 public:
  __device__ __forceinline__ explicit PackedAccumulator(const XOfWarp<S>& x) : x_(x) {
    start_sums<S>(sums_, x);
  }
  /// Whether this lane reads the scales of the warp's block `index`, from 0 on.
  static __device__ __forceinline__ bool has_scales(int /*index*/) { return true; }
  /// Adds weights * x of block `block` of the columns in shared memory, the warp's block `index`.
  __device__ __forceinline__ void add(const PackedBlock<S> (&weights)[S::kTiles][2], int block,
                                      int /*index*/) {
    multiply_block<S>(sums_, weights, x_, block);
  }
  /// After the last block.
  __device__ __forceinline__ const PackedSums<S>& finish() const { return sums_; }

 private:
  const XOfWarp<S>& x_;
  PackedSums<S> sums_;
};

/// With kGroupColumns: columns 0 to 3 of the products are the groups of one block, 4 to 7 those of the next.
template <class S>
requires(S::kGroupColumns) class PackedAccumulator<S> {
 public:
  __device__ __forceinline__ explicit PackedAccumulator(const XOfWarp<S>& x) : x_(x) {}

  static __device__ __forceinline__ bool has_scales(int index) { return column() / 4 == index % 2; }
  __device__ __forceinline__ void add(const PackedBlock<S> (&weights)[S::kTiles][2], int block, int index) {
    const int half = index % 2;
    if (half == 0) clear();
    if (has_scales(index)) {
      x_sums_ = x_.group_sums(block, column() % 4);
#pragma unroll
      for (int i = 0; i < 2 * S::kTiles; ++i) scales_[i / 2][i % 2] = weights[i / 2][i % 2].scales;
    }
#pragma unroll
    for (int pair = 0; pair < S::kFragments / 2; ++pair) {
      unsigned b[4];
      x_.read_groups(b, block, half, pair);
#pragma unroll
      for (int t = 0; t < S::kTiles; ++t) {
        unsigned a[2][4];  // half of the rows, pairs of two fragments
#pragma unroll
        for (int rows = 0; rows < 2; ++rows) weights[t][rows].get(a[rows], pair);
#pragma unroll
        for (int f = 0; f < 2; ++f) {
          const int first = 2 * f / kUnits, second = first + kUnits;
          mma_m16n8k16<typename S::T>(products_[f % kUnits][t],
                                      {a[0][first], a[1][first], a[0][second], a[1][second]}, b[2 * f],
                                      b[2 * f + 1]);
        }
      }
    }
    if (half == 1) scale();
    is_scaled_ = half == 1;
  }
  /// The sums of a row are those of the first of its four lanes.
  __device__ __forceinline__ const PackedSums<S>& finish() {
    if (!is_scaled_) scale();
#pragma unroll
    for (int t = 0; t < S::kTiles; ++t)
#pragma unroll
      for (int i = 0; i < 4; i += 2) sums_[t][0][i] = warp_reduce<Sum, 4>(sums_[t][0][i]);
    return sums_;
  }

 private:
  static constexpr int kUnits = S::Word::kUnits;
  static constexpr bool kOffsets = kHasOffsets<S::kWeights>;

  /// The first of this lane's two columns.
  static __device__ __forceinline__ int column() { return static_cast<int>(threadIdx.x) % 4 * 2; }
  __device__ __forceinline__ void clear() {
    x_sums_ = {};  // of a second block that does not come
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit)
#pragma unroll
      for (int t = 0; t < S::kTiles; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i) products_[unit][t][i] = 0;
  }
  /// Adds the products times their scales to the sums.
  __device__ __forceinline__ void scale() {
#pragma unroll
    for (int t = 0; t < S::kTiles; ++t)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const auto& scales = scales_[t][half];
        float scaled = 0, offset = 0;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float sum = products_[0][t][2 * half + i];
          if constexpr (kUnits == 2) sum = fmaf(products_[1][t][2 * half + i], 0.0625f, sum);
          if constexpr (kOffsets)
            offset = fmaf(scales.minimum(i), x_sums_[i], offset);
          else
            sum += x_sums_[i];  // of zero points
          if constexpr (has_super_blocks(S::kWeights))
            scaled = fmaf(scales.scale(i), sum, scaled);
          else
            scaled = fmaf(scales[i], sum, scaled);
        }
        float& to = sums_[t][0][2 * half];
        if constexpr (has_super_blocks(S::kWeights))
          to = fmaf(scales.d(), scaled, to);
        else
          to += scaled;
        if constexpr (kOffsets) to = fmaf(-scales.dmin(), offset, to);
      }
  }

  const XOfWarp<S>& x_;
  PackedSums<S> sums_ = {};
  float products_[kUnits][S::kTiles][4];
  BlockScales<S::kWeights, S::kGroup, S::kBlockScales> scales_[S::kTiles][2] = {};  // the lane's two groups
  Vec<float, 2> x_sums_;
  bool is_scaled_ = true;
};

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

}  // namespace warptune
