// Multistage tensor-core GEMM (mma.sync m16n8k16, cp.async, sm_80) on quantized weights (packed_weights.h),
// for prompts, and for what mma_packed_cp_async.cu does not take.
// Grid: (token tiles, output-row tiles, kSplits parts of K): blocks that run together read the same weights.
// Tiles: a block computes kTileM tokens x kTileN output rows in steps of kTileK; kWarpsM x kWarpsN warps,
//   fp32 accumulators in registers.
// Loads: all threads copy tiles of x and blocks of weights to kStages stages with cp.async. Rows of x are
//   padded by 16 bytes, so that ldmatrix has no bank conflicts. With act-order, x is gathered by plain loads.
// Arithmetic: weights are converted in registers. Scales of groups multiply the weights, which are rounded to
//   T once (GroupConverter); of mxfp4 in fp16, which does not have the range, the sums of their columns.
//   Scales of rows multiply the sums. Scales are loaded a step ahead.
// Sync: cp_async_wait() and one __syncthreads() per step.
// Combine: with kSplits every block writes fp32 sums to the workspace; the last block of a tile adds them in
//   the order of the splits, so that runs agree bitwise, and resets the counter.
// Workspace: unsigned counters[tiles], then from byte kPartialOffset float partial[kSplits][tokens][kOut].
// `in` is a multiple of the columns of a block of weights.
#include "kernels/common/barrier.cuh"
#include "kernels/common/mma.cuh"
#include "kernels/linear/packed_weights.cuh"

namespace warptune {

template <class T_, int kIn_, int kOut_, int kWeights_, int kGroup_, int kZeros_, int kActOrder_, int kTileM_,
          int kTileN_, int kTileK_, int kWarpsM_, int kWarpsN_, int kStages_>
struct MmaPacked {
  using T = T_;
  static constexpr int kIn = kIn_, kOut = kOut_, kWeights = kWeights_, kGroup = kGroup_, kTileM = kTileM_,
                       kTileN = kTileN_, kTileK = kTileK_, kWarpsM = kWarpsM_, kWarpsN = kWarpsN_,
                       kStages = kStages_, kThreads = 32 * kWarpsM * kWarpsN;
  static constexpr bool kZeros = kZeros_ != 0, kActOrder = kActOrder_ != 0;
  static constexpr int kColumns = block_columns(kWeights), kBlocks = kIn / kColumns;  // of a row
  static constexpr int kTileBlocks = kTileK / kColumns, kSteps = ceil_div(kIn, kTileK);
  static constexpr int kWarpM = kTileM / kWarpsM, kWarpN = kTileN / kWarpsN;  // the tile of a warp
  static constexpr int kMTiles = kWarpM / 16, kSlots = kWarpN / kBlockRows;
  static constexpr int kPitch = kTileK + 8;  // elements of a row of x
  static constexpr int kXBytes = kTileM * kPitch * static_cast<int>(sizeof(T)),
                       kWeightBytes = kTileN / kBlockRows * kTileBlocks * kBlockBytes,
                       kStageBytes = kXBytes + kWeightBytes;
  /// Scales of a row in a block of weights, at least one for its zero point.
  static constexpr int kBlockScales = kGroup == 0 || kGroup >= kColumns ? 1 : kColumns / kGroup;
  static constexpr int kFragments = kColumns / 16, kScaleFragments = kFragments / kBlockScales;
  static constexpr bool kConvertsScaled = warptune::kConvertsScaled<T, kWeights, kGroup>;
  /// fp16 does not have the range of the scales of mxfp4.
  static constexpr bool kScalesSums = kWeights == kWeightsMxfp4 && !kScaledWeightsAreExact<T, kWeights>;

  static_assert(!kScalesSums || kScaleFragments == 2);
  static_assert(kIn % kColumns == 0 && kTileK % kColumns == 0 && kWarpM % 16 == 0 && kStages >= 2);
};

template <class S>
class PackedTiles {
 public:
  __device__ __forceinline__ PackedTiles(const QuantizedLinearArgs& args, unsigned char* stages)
      : args_(args), stages_(stages) {}

  /// Rows [token0, token0 + kTileM) of x; zeros beyond its edges.
  __device__ __forceinline__ void copy_x(int step) const {
    constexpr int kPerRow = S::kTileK / 8, kVectors = S::kTileM * kPerRow;
    auto* const to = x(step);
    for (int vector = threadIdx.x; vector < kVectors; vector += S::kThreads) {
      const int row = vector / kPerRow, at = vector % kPerRow * 8, k = step * S::kTileK + at;
      const bool valid = token0_ + row < args_.tokens && k < S::kIn;
      const T* const source =
          static_cast<const T*>(args_.x) + (valid ? static_cast<long long>(token0_ + row) * S::kIn : 0);
      if constexpr (S::kActOrder) {
        Vec<T, 8> values = {};
        if (valid)
#pragma unroll
          for (int i = 0; i < 8; ++i) values[i] = source[args_.order[k + i]];
        store_vec<8>(to + row * S::kPitch + at, values);
      } else {
        cp_async_16(to + row * S::kPitch + at, valid ? source + k : source, valid);
      }
    }
  }
  /// The blocks of the step of kTileN rows from out0 on; those beyond the last row or column are the last
  /// ones once more: they multiply zeros, or their sums are not stored.
  __device__ __forceinline__ void copy_weights(int step) const {
    constexpr int kSlotVectors = S::kTileBlocks * kBlockBytes / 16,
                  kVectors = S::kTileN / kBlockRows * kSlotVectors, kRowSlots = ceil_div(S::kOut, kBlockRows);
    auto* const to = weights(step);
    for (int vector = threadIdx.x; vector < kVectors; vector += S::kThreads) {
      const long long slot = min_of(out0_ / kBlockRows + vector / kSlotVectors, kRowSlots - 1);
      const int at = vector % kSlotVectors, block = min_of(step * S::kTileBlocks + at / 32, S::kBlocks - 1);
      cp_async_16(to + vector * 16,
                  static_cast<const unsigned char*>(args_.weight) +
                      (slot * S::kBlocks + block) * kBlockBytes + at % 32 * 16,
                  true);
    }
  }
  /// What a lane needs of a step: of the blocks of its slots the scales of two columns of the sums, or of its
  /// row, and the zero points of its row.
  struct Scales {
    BlockScales<S::kWeights, S::kGroup, S::kBlockScales> scales[S::kTileBlocks][S::kSlots]
                                                               [S::kScalesSums ? 2 : 1];
    signed char zeros[S::kTileBlocks][S::kSlots][S::kBlockScales];
  };
  __device__ __forceinline__ void load_scales(Scales& to, int step) const {
    const int lane = threadIdx.x % 32, first_slot = warp() % S::kWarpsN * S::kSlots;
    const auto row = [&](int n, int in_slot) {
      return min_of(out0_ + (first_slot + n) * kBlockRows + in_slot, S::kOut - 1);
    };
#pragma unroll
    for (int block = 0; block < S::kTileBlocks; ++block)
#pragma unroll
      for (int n = 0; n < S::kSlots; ++n)
#pragma unroll
        for (int i = 0; i < S::kBlockScales; ++i) {
          const int k =
              min_of((step * S::kTileBlocks + block) * S::kColumns + i * 16 * S::kScaleFragments, S::kIn - 1);
          if constexpr (S::kGroup != 0)
#pragma unroll
            for (int j = 0; j < (S::kScalesSums ? 2 : 1); ++j)
              to.scales[block][n][j].template load<S::kIn>(
                  i, args_.scales, row(n, S::kScalesSums ? lane % 4 * 2 + j : lane / 4), k);
          if constexpr (S::kZeros)
            to.zeros[block][n][i] =
                args_.zeros[scale_index(S::kWeights, S::kGroup, S::kIn, row(n, lane / 4), k)];
        }
  }
  /// Adds the products of a step to `sums` [m tile][slot][4].
  __device__ __forceinline__ void multiply(float (&sums)[S::kMTiles][S::kSlots][4], int step,
                                           const Scales& scales) const {
#pragma unroll
    for (int block = 0; block < S::kTileBlocks; ++block) multiply(sums, step, block, scales);
  }
  /// Calls with token, output and sum of each of the tile that exists.
  template <class Call>
  __device__ __forceinline__ void for_sums(const float (&sums)[S::kMTiles][S::kSlots][4], Call call) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < S::kSlots; ++n)
#pragma unroll
      for (int m = 0; m < S::kMTiles; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int o = out0_ + warp() % S::kWarpsN * S::kWarpN + n * 8 + lane % 4 * 2 + i % 2,
                    token = token0_ + warp() / S::kWarpsN * S::kWarpM + m * 16 + i / 2 * 8 + lane / 4;
          if (o < S::kOut && token < args_.tokens) call(token, o, sums[m][n][i]);
        }
  }
  /// Scale of the row, bias, and the store.
  template <int kBias>
  __device__ __forceinline__ void store(int token, int o, float sum) const {
    if constexpr (kHasRowScales<S::kWeights, S::kGroup>)
      sum *= row_scale<S::kWeights, S::kGroup>(args_, o) * Word::kScale;
    if constexpr (S::kConvertsScaled) sum *= Converter::kScale;
    if constexpr (kBias != 0) sum += to_float(static_cast<const T*>(args_.bias)[o]);
    static_cast<T*>(args_.y)[static_cast<long long>(token) * S::kOut + o] = from_float<T>(sum);
  }
  /// Stores the sums of a tile, which kSplits blocks have.
  template <int kBias, int kSplits, int kPartialOffset>
  __device__ __forceinline__ void combine(const float (&sums)[S::kMTiles][S::kSlots][4]) const {
    if constexpr (kSplits == 1) {
      for_sums(sums, [&](int token, int o, float sum) { store<kBias>(token, o, sum); });
    } else {
      const long long split_size = static_cast<long long>(args_.tokens) * S::kOut;
      float* const partial =
          reinterpret_cast<float*>(static_cast<unsigned char*>(args_.workspace) + kPartialOffset);
      for_sums(sums, [&](int token, int o, float sum) {
        partial[blockIdx.z * split_size + static_cast<long long>(token) * S::kOut + o] = sum;
      });
      unsigned* const counter = static_cast<unsigned*>(args_.workspace) + blockIdx.y * gridDim.x + blockIdx.x;
      if (!is_last_block<S::kThreads>(counter, kSplits)) return;
      for_sums(sums, [&](int token, int o, float) {
        const float* const from = partial + static_cast<long long>(token) * S::kOut + o;
        float sum = 0;
#pragma unroll
        for (int split = 0; split < kSplits; ++split) sum += __ldcg(from + split * split_size);
        store<kBias>(token, o, sum);
      });
    }
  }

 private:
  using T = typename S::T;
  using Word = WeightWord<T, S::kWeights>;
  using Converter = GroupConverter<T, S::kWeights, S::kZeros>;

  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x / 32); }
  static __device__ __forceinline__ unsigned word_of(const uint4& v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
  }
  __device__ __forceinline__ T* x(int step) const {
    return reinterpret_cast<T*>(stages_ + step % S::kStages * S::kStageBytes);
  }
  __device__ __forceinline__ unsigned char* weights(int step) const {
    return stages_ + step % S::kStages * S::kStageBytes + S::kXBytes;
  }
  /// What this lane has of a block of a slot.
  __device__ __forceinline__ uint4 block_of(int step, int block, int n) const {
    const int slot = warp() % S::kWarpsN * S::kSlots + n;
    return *reinterpret_cast<const uint4*>(weights(step) + (slot * S::kTileBlocks + block) * kBlockBytes +
                                           threadIdx.x % 32 * 16);
  }
  /// Fragment f of a block of columns of x.
  __device__ __forceinline__ void load_fragment(unsigned (&a)[4], int step, int block, int m, int f) const {
    const int lane = threadIdx.x % 32, row = warp() / S::kWarpsN * S::kWarpM + m * 16 + lane % 16;
    ldmatrix_x4(a, x(step) + row * S::kPitch + block * S::kColumns + f * 16 + lane / 16 * 8);
  }
  /// Adds the sums of a group times its scales.
  __device__ __forceinline__ void add_scaled(float (&sums)[S::kMTiles][S::kSlots][4],
                                             const float (&partial)[S::kMTiles][4], const Scales& scales,
                                             int block, int n, int group) const {
#pragma unroll
    for (int m = 0; m < S::kMTiles; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float scale = scales.scales[block][n][i % 2][group] * Word::kScale;
        sums[m][n][i] = fmaf(scale, partial[m][i], sums[m][n][i]);
      }
  }
  /// Scales the weights, if groups have scales; where only fp32 holds these, the sums of a word, a group.
  __device__ __forceinline__ void multiply(float (&sums)[S::kMTiles][S::kSlots][4], int step, int block,
                                           const Scales& scales) const {
    uint4 bytes[S::kSlots];
#pragma unroll
    for (int n = 0; n < S::kSlots; ++n) bytes[n] = block_of(step, block, n);
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      unsigned a[Word::kFragments][S::kMTiles][4];
#pragma unroll
      for (int f = 0; f < Word::kFragments; ++f)
#pragma unroll
        for (int m = 0; m < S::kMTiles; ++m)
          load_fragment(a[f][m], step, block, m, word * Word::kFragments + f);
#pragma unroll
      for (int n = 0; n < S::kSlots; ++n) {
        float partial[S::kMTiles][4] = {};
        unsigned b[Word::kPairs];
        convert_word<T, S::kWeights, S::kGroup, S::kZeros, S::kScaleFragments, S::kScalesSums>(
            b, word_of(bytes[n], word), scales.scales[block][n][0], scales.zeros[block][n], word);
#pragma unroll
        for (int f = 0; f < Word::kFragments; ++f)
#pragma unroll
          for (int m = 0; m < S::kMTiles; ++m)
            mma_m16n8k16<T>(S::kScalesSums ? partial[m] : sums[m][n], a[f][m], b[2 * f], b[2 * f + 1]);
        if constexpr (S::kScalesSums) add_scaled(sums, partial, scales, block, n, word * S::kBlockScales / 4);
      }
    }
  }

  const QuantizedLinearArgs& args_;
  unsigned char* const stages_;
  const int token0_ = static_cast<int>(blockIdx.x) * S::kTileM,
            out0_ = static_cast<int>(blockIdx.y) * S::kTileN;
};

template <class T, int kIn, int kOut, int kBias, int kWeights, int kGroup, int kZeros, int kActOrder,
          int kTileM, int kTileN, int kTileK, int kWarpsM, int kWarpsN, int kStages, int kSplits,
          int kPartialOffset>
__global__ void __launch_bounds__(kWarpsM* kWarpsN * 32) linear_mma_packed(QuantizedLinearArgs args) {
  using S = MmaPacked<T, kIn, kOut, kWeights, kGroup, kZeros, kActOrder, kTileM, kTileN, kTileK, kWarpsM,
                      kWarpsN, kStages>;
  [[maybe_unused]] static constexpr int kSharedBytes = kStages * S::kStageBytes;
  extern __shared__ uint4 shared[];  // [kStages]: x [kTileM][kPitch], blocks of weights
  const PackedTiles<S> tiles(args, reinterpret_cast<unsigned char*>(shared));

  const int first = S::kSteps * static_cast<int>(blockIdx.z) / kSplits,
            last = S::kSteps * (static_cast<int>(blockIdx.z) + 1) / kSplits;

  typename PackedTiles<S>::Scales scales = {}, next_scales = {};
  tiles.load_scales(scales, first);
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (first + s < last) {
      tiles.copy_x(first + s);
      tiles.copy_weights(first + s);
    }
    cp_async_commit();
  }
  float sums[S::kMTiles][S::kSlots][4] = {};
  for (int step = first; step < last; ++step) {
    tiles.load_scales(next_scales, step + 1);
    cp_async_wait<kStages - 2>();
    __syncthreads();
    if (const int next = step + kStages - 1; next < last) {
      tiles.copy_x(next);
      tiles.copy_weights(next);
    }
    cp_async_commit();
    tiles.multiply(sums, step, scales);
    scales = next_scales;
  }
  tiles.template combine<kBias, kSplits, kPartialOffset>(sums);
}

}  // namespace warptune
