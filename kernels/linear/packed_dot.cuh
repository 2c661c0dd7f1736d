#pragma once
// What the GEMVs on quantized weights share: their problem, the products of a block of packed weights and x
// on tensor cores (weights are the M operand of mma.sync, tokens its N), x in shared memory, and the outputs.
// Weights are exact in T. Conversion binds, so integers stay unsigned (WeightBits): products with ones give
// the sums of x that zero points and minima multiply, once for all rows. The sums of a group of columns are
// multiplied by its scale in fp32. In bf16 shared memory has 2^64 times x: magnitudes are below 2^63.
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
  using Bits = WeightBits<T, kWeights_>;
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
  /// Whether sums go on from group to group: with one zero point and no scale of a group.
  static constexpr bool kDirect = kGroup == 0 && !Bits::kFourBits && !kZeros;
  /// Sums of x of a block of weights: of its groups, or one. Without kDirect they are in shared memory.
  static constexpr int kXBlocks = Bits::kIntegers && !kDirect ? kBlocks : 0,
                       kXGroups = kXBlocks == 0 ? 1 : max_of(kBlockScales, 1);
  /// With one token half of the sums of a lane are of no token.
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

/// The part of one block of weights that a lane holds, with the scales and zero points of its row.
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
    if constexpr (S::Bits::kPairs == 4) {
      S::Bits::get(pairs, word(i));
    } else {
#pragma unroll
      for (int f = 0; f < 2; ++f)
        S::Bits::get(reinterpret_cast<unsigned(&)[2]>(pairs[2 * f]), word(2 * i + f));
    }
  }
};

/// Sums of a warp for each tile of eight tokens: d0, d1 are row lane / 4 and tokens 2 * (lane % 4) and the
/// next, d2, d3 eight rows further.
template <class S>
using PackedSums = float[S::kTiles][S::kTokenTiles][4];

/// What a warp has of x: the columns of its blocks of weights in shared memory, which no other warp reads,
/// and sums of x over these blocks or their groups, in the unit of the products. A zero point of all weights
/// has multiplied the sums, negated. RMSNorm: bf16 takes x * weight, and the outputs are scaled; for fp16 see
/// kScalesBeforeRounding.
template <class S>
class XOfWarp {
 public:
  using T = typename S::T;
  using Groups = Vec<float, S::kXGroups>;
  /// Of all warps.
  struct alignas(16) Shared {
    T x[S::kTokens][S::kPitch];
    Groups sums[max_of(S::kXBlocks, 1)][S::kTokens];
    float squares[S::kNorm ? S::kTokens : 1][S::kWarps];
  };

  /// Of the row of this lane of the matrices of ldmatrix: a token of each tile (those beyond the last are the
  /// last once more) and one of four times 8 columns, with two units in the order 0, 2, 1, 3.
  unsigned addresses[S::kTokenTiles];
  /// Of kDirect: what the sums of the warp start with.
  float start[S::kTokenTiles][4] = {};

  /// The warp multiplies blocks `first`, `first` + `step`, ... below `last`. Loads the weights of the norm,
  /// which no kernel writes.
  __device__ __forceinline__ XOfWarp(Shared& shared, const QuantizedLinearArgs& args, int first, int last,
                                     int step)
      : shared_(shared), args_(args), first_(first), last_(last), step_(step) {
    const int matrix = lane_ / 8, column = 8 * (S::Bits::kUnits == 2 ? matrix % 2 * 2 + matrix / 2 : matrix);
#pragma unroll
    for (int n = 0; n < S::kTokenTiles; ++n)
      addresses[n] = shared_address(&shared.x[min_of(8 * n + lane_ % 8, S::kTokens - 1)][column]);
    if constexpr (S::kNorm)
#pragma unroll
      for (int j = 0; j < kVecs; ++j)
        if (const int column = vector(j); column < S::kPartIn)
          norm_[j] = load_vec<8>(static_cast<const T*>(args.norm_weight) + column);
  }
  /// After pdl_wait(). `begin`: the column of x that is the first of this thread block.
  __device__ __forceinline__ void load(int begin) {
    if constexpr (S::kNorm && kScalesBeforeRounding<T>) {
      load_vectors<true, false>(begin);
      named_barrier_sync(1, S::kThreads);
      load_vectors<false, true>(begin);
    } else {
      load_vectors<S::kNorm, true>(begin);
    }
    __syncwarp();
    if constexpr (kSumsByMma) {
#pragma unroll
      for (int i = 0; i < kWarpBlocks; ++i)
        if (const int block = first_ + i * step_; block < last_) add_columns(block);
      __syncwarp();
    }
  }
  /// Those of sum `i` of a lane.
  __device__ __forceinline__ Groups sums(int block, int n, int i) const {
    return shared_.sums[block][min_of(token(n, i), S::kTokens - 1)];
  }
  /// What the sums of a token are multiplied by. After a barrier of the warps.
  __device__ __forceinline__ float scale(int token) const {
    if constexpr (S::kNorm && !kScalesBeforeRounding<T>) return S::Bits::kSumScale * rms_scale(token);
    return S::Bits::kSumScale;
  }

 private:
  static constexpr int kWarpBlocks = ceil_div(S::kBlocks, S::kWarps), kBlockVecs = S::kColumns / 8,
                       kVecs = ceil_div(kWarpBlocks * kBlockVecs, 32);
  /// With many tokens shuffles take longer than products with ones.
  static constexpr bool kSumsByMma = S::Bits::kIntegers && S::kTokens > 4,
                        kSumsByShuffles = S::Bits::kIntegers && !kSumsByMma;
  static constexpr bool kTimesZero = S::Bits::kZero != 0 && !S::kZeros;

  static __device__ __forceinline__ int token(int n, int i) {
    return 8 * n + static_cast<int>(threadIdx.x % 4) * 2 + i % 2;
  }
  /// The first column of vector j of this lane, or one beyond the last.
  __device__ __forceinline__ int vector(int j) const {
    const int i = lane_ + 32 * j, block = first_ + i / kBlockVecs * step_;
    return block < last_ ? block * S::kColumns + i % kBlockVecs * 8 : S::kPartIn;
  }
  __device__ __forceinline__ float rms_scale(int token) const {
    float squares = 0;
#pragma unroll
    for (int w = 0; w < S::kWarps; ++w) squares += shared_.squares[token][w];
    return rsqrtf(squares / S::kIn + args_.eps);
  }
  __device__ __forceinline__ Vec<T, 8> load_vector(int token, int column) const {
    const T* const row = static_cast<const T*>(args_.x) + token * S::kIn;
    if constexpr (!S::kActOrder) return load_vec<8>(row + column);
    Vec<T, 8> v;
    const auto order = load_vec<8>(args_.order + column);
#pragma unroll
    for (int e = 0; e < 8; ++e) v[e] = row[order[e]];
    return v;
  }
  /// kSquares: stores the squares of x. kStores: stores x, with RMSNorm scaled, and its sums.
  template <bool kSquares, bool kStores>
  __device__ __forceinline__ void load_vectors(int begin) {
    constexpr int kBatch = min_of(S::kTokens, 4);  // tokens whose loads are in flight
    float squares[S::kTokens] = {}, total[S::kTokens] = {};
#pragma unroll
    for (int j = 0; j < kVecs; ++j) {
      const int column = vector(j);
      const bool is_valid = column < S::kPartIn;
#pragma unroll
      for (int first = 0; first < S::kTokens; first += kBatch) {
        Vec<T, 8> x[kBatch] = {};
#pragma unroll
        for (int i = 0; i < kBatch; ++i)
          if (is_valid && first + i < S::kTokens) x[i] = load_vector(first + i, begin + column);
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          const int t = first + i;
          if (t >= S::kTokens) break;
          auto v = to_float(x[i]);
          if constexpr (kSquares)
#pragma unroll
            for (int e = 0; e < 8; ++e) squares[t] = fmaf(v[e], v[e], squares[t]);
          if constexpr (!kStores) continue;
          const float factor = S::kNorm && kScalesBeforeRounding<T> ? rms_scale(t) : S::Bits::kXScale;
#pragma unroll
          for (int e = 0; e < 8; ++e) v[e] *= S::kNorm ? to_float(norm_[j][e]) * factor : factor;
          const auto rounded = from_float<T>(v);
          if (is_valid) store_vec<8>(&shared_.x[t][column], rounded);
          if constexpr (kSumsByShuffles) total[t] += store_sum(to_float(rounded), t, column);
        }
      }
    }
    if constexpr (kSquares)
#pragma unroll
      for (int t = 0; t < S::kTokens; ++t) {
        const float sum = warp_reduce<Sum>(squares[t]);
        if (lane_ == 0) shared_.squares[t][threadIdx.x / 32] = sum;
      }
    if constexpr (kStores && kSumsByShuffles && S::kDirect)
#pragma unroll
      for (int t = 0; t < S::kTokens; ++t) {
        const float sum = warp_reduce<Sum>(total[t]);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (token(t / 8, i) == t) start[t / 8][i] = sum;
      }
  }
  /// Adds the columns of a vector, and without kDirect those of adjacent lanes, which are of the same group.
  __device__ __forceinline__ float store_sum(const Vec<float, 8>& x, int token, int column) {
    constexpr float kFactor = kTimesZero ? -static_cast<float>(S::Bits::kZero) : 1;
    float sum = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
    sum *= kFactor / S::Bits::kXScale;
    sum *= 1 / S::Bits::kSumScale;
    if constexpr (!S::kDirect) {
      constexpr int kColumns = S::kColumns / S::kXGroups;
      sum = warp_reduce<Sum, kColumns / 8>(sum);
      if (column % kColumns == 0 && column < S::kPartIn)
        shared_.sums[column / S::kColumns][token][column % S::kColumns / kColumns] = sum;
    }
    return sum;
  }

  /// The sums of the columns of a block, from shared memory. Several chains of products, since one of all
  /// has their latency.
  __device__ __forceinline__ void add_columns(int block) {
    constexpr int kChains = max_of(S::kXGroups, S::kFragments / 2), kGroupChains = kChains / S::kXGroups;
    constexpr unsigned kFactor = kTimesZero ? 0x80008000u | S::Bits::kZero * 0x10001u : 0x00010001u;
    float sums[kChains][S::kTokenTiles][4] = {};
#pragma unroll
    for (int pair = 0; pair < S::kFragments / 2; ++pair)
#pragma unroll
      for (int n = 0; n < S::kTokenTiles; ++n) {
        unsigned b[4];
        ldmatrix_x4(b, addresses[n] + 2 * block * S::kColumns + pair * 64);
#pragma unroll
        for (int f = 0; f < 2; ++f)
          mma_m16n8k16<T>(sums[(2 * pair + f) * kChains / S::kFragments][n],
                          {kFactor, kFactor, kFactor, kFactor}, b[2 * f], b[2 * f + 1]);
      }
#pragma unroll
    for (int n = 0; n < S::kTokenTiles; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i)  // all rows have the same
#pragma unroll
        for (int g = 0; g < S::kXGroups; ++g) {
          float sum = sums[g * kGroupChains][n][i];
#pragma unroll
          for (int chain = 1; chain < kGroupChains; ++chain) sum += sums[g * kGroupChains + chain][n][i];
          if constexpr (S::kDirect)
            start[n][i] = start[n][i + 2] += sum;
          else if (lane_ < 4 && token(n, i) < S::kTokens)
            shared_.sums[block][token(n, i)][g] = sum;
        }
  }

  Shared& shared_;
  const QuantizedLinearArgs& args_;
  const int lane_ = threadIdx.x % 32, first_, last_, step_;
  Vec<T, 8> norm_[S::kNorm ? kVecs : 1] = {};
};

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

/// What the sums of a warp start with.
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
  using Bits = typename S::Bits;
  constexpr bool kOffsets = kHasOffsets<S::kWeights>;
  // With two units pairs 0 and 2 are a fragment, with sums of their own, and 1 and 3.
  constexpr int kUnits = Bits::kUnits;
  [[maybe_unused]] float partial[kUnits][S::kTiles][S::kTokenTiles][4];
  [[maybe_unused]] typename XOfWarp<S>::Groups x_sums[S::kTokenTiles][2];
  [[maybe_unused]] SuperSums<S> super_sums;
  if constexpr (S::kXBlocks != 0)
#pragma unroll
    for (int n = 0; n < S::kTokenTiles; ++n)
#pragma unroll
      for (int i = 0; i < 2; i += S::kSumStep) x_sums[n][i] = x.sums(block, n, i);
  // The sums of a group begin with what zero points contribute.
  const auto begin_group = [&](int t, int n, int unit, int group) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float sum = 0;
      if constexpr (Bits::kZero != 0)
        if (unit == 0 && i % S::kSumStep == 0) {
          sum = x_sums[n][i % 2][group];
          if constexpr (S::kZeros) sum *= -static_cast<float>(Bits::kZero + weights[t][i / 2].zeros[group]);
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
