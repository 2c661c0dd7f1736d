// Multistage tensor-core GEMM (mma.sync m16n8k16, cp.async, sm_80) on quantized weights (packed_weights.h),
// for 2 tokens and more. Grid: (token tiles, output-row tiles): blocks that run together read the same
// weights. Tiles: a block computes kTileM tokens x kTileN output rows in steps of kTileK; kWarpsM x kWarpsN
// warps, fp32
//   accumulators in registers.
// Loads: all threads copy tiles of x and blocks of weights to kStages stages with cp.async, the first weights
//   before pdl_wait(). Rows of x are padded by 16 bytes, so that ldmatrix has no bank conflicts. With
//   act-order, x is gathered by plain loads.
// Arithmetic: weights are converted in registers. Scales of groups multiply them there, in fp32, and they are
//   rounded to T once; scales of rows multiply the sums.
// Sync: cp_async_wait() and one __syncthreads() per step.
// `in` is a multiple of the columns of a block of weights.
#include "kernels/common/mma.cuh"
#include "kernels/common/pdl.cuh"
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
  /// Scales of a row in a block of weights; without groups rows have one at the end.
  static constexpr int kBlockScales = kGroup == 0 ? 0 : kGroup < kColumns ? kColumns / kGroup : 1;

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
  /// Adds the products of a step to `sums` [m tile][slot][4].
  __device__ __forceinline__ void multiply(float (&sums)[S::kMTiles][S::kSlots][4], int step) const {
    const int lane = threadIdx.x % 32, first_slot = warp() % S::kWarpsN * S::kSlots;
    const T* const xs = x(step) + (warp() / S::kWarpsN * S::kWarpM + lane % 16) * S::kPitch + lane / 16 * 8;
#pragma unroll
    for (int block = 0; block < S::kTileBlocks; ++block) {
      uint4 bytes[S::kSlots];
      float scales[S::kSlots][max_of(S::kBlockScales, 1)];
      unsigned biases[S::kSlots][max_of(S::kBlockScales, 1)];
#pragma unroll
      for (int n = 0; n < S::kSlots; ++n) {
        bytes[n] = *reinterpret_cast<const uint4*>(
            weights(step) + ((first_slot + n) * S::kTileBlocks + block) * kBlockBytes + lane * 16);
        load_scales(scales[n], biases[n], first_slot + n, step * S::kTileBlocks + block);
      }
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        constexpr int kFragments = Word::kFragments;
        unsigned a[kFragments][S::kMTiles][4];
#pragma unroll
        for (int f = 0; f < kFragments; ++f)
#pragma unroll
          for (int m = 0; m < S::kMTiles; ++m)
            ldmatrix_x4(a[f][m],
                        xs + m * 16 * S::kPitch + block * S::kColumns + (word * kFragments + f) * 16);
#pragma unroll
        for (int n = 0; n < S::kSlots; ++n) {
          const int group = word * max_of(S::kBlockScales, 1) / 4;
          unsigned b[Word::kPairs];
          Word::convert(b, word_of(bytes[n], word), biases[n][group]);
          if constexpr (S::kGroup != 0)
#pragma unroll
            for (int i = 0; i < Word::kPairs; ++i) b[i] = multiply_pair<T>(b[i], scales[n][group]);
#pragma unroll
          for (int f = 0; f < kFragments; ++f)
#pragma unroll
            for (int m = 0; m < S::kMTiles; ++m) mma_m16n8k16<T>(sums[m][n], a[f][m], b[2 * f], b[2 * f + 1]);
        }
      }
    }
  }
  /// Scales of rows, bias, and the stores.
  __device__ __forceinline__ void store(const float (&sums)[S::kMTiles][S::kSlots][4], bool has_bias) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < S::kSlots; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int o = out0_ + warp() % S::kWarpsN * S::kWarpN + n * 8 + lane % 4 * 2 + i;
        if (o >= S::kOut) continue;
        float scale = 1;
        if constexpr (S::kGroup == 0) scale = weight_scale<S::kIn, S::kWeights, 0>(args_.scales, o, 0);
        const float bias = has_bias ? to_float(static_cast<const T*>(args_.bias)[o]) : 0;
#pragma unroll
        for (int m = 0; m < S::kMTiles; ++m)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int token = token0_ + warp() / S::kWarpsN * S::kWarpM + m * 16 + half * 8 + lane / 4;
            if (token < args_.tokens)
              static_cast<T*>(args_.y)[static_cast<long long>(token) * S::kOut + o] =
                  from_float<T>(scale * sums[m][n][2 * half + i] + bias);
          }
      }
  }

 private:
  using T = typename S::T;
  using Word = WeightWord<T, S::kWeights>;

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
  /// Those of this lane's row of a slot of the tile.
  template <int kCount>
  __device__ __forceinline__ void load_scales(float (&scales)[kCount], unsigned (&biases)[kCount], int slot,
                                              int block) const {
    const long long row =
        min_of(out0_ + slot * kBlockRows + static_cast<int>(threadIdx.x % 32 / 4), S::kOut - 1);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int k = min_of(block * S::kColumns + i * (S::kColumns / kCount), S::kIn - 1);
      if constexpr (S::kGroup != 0)
        scales[i] = to_float(weight_scale<S::kIn, S::kWeights, S::kGroup>(args_.scales, row, k));
      int zero = 8;
      if constexpr (S::kZeros) zero += args_.zeros[scale_index(S::kWeights, S::kGroup, S::kIn, row, k)];
      biases[i] = Word::bias(zero);
    }
  }

  const QuantizedLinearArgs& args_;
  unsigned char* const stages_;
  const int token0_ = static_cast<int>(blockIdx.x) * S::kTileM,
            out0_ = static_cast<int>(blockIdx.y) * S::kTileN;
};

template <class T, int kIn, int kOut, int kBias, int kWeights, int kGroup, int kZeros, int kActOrder,
          int kTileM, int kTileN, int kTileK, int kWarpsM, int kWarpsN, int kStages>
__global__ void __launch_bounds__(kWarpsM* kWarpsN * 32) linear_mma_packed(QuantizedLinearArgs args) {
  using S = MmaPacked<T, kIn, kOut, kWeights, kGroup, kZeros, kActOrder, kTileM, kTileN, kTileK, kWarpsM,
                      kWarpsN, kStages>;
  [[maybe_unused]] static constexpr int kSharedBytes = kStages * S::kStageBytes;
  extern __shared__ uint4 shared[];  // [kStages]: x [kTileM][kPitch], blocks of weights
  const PackedTiles<S> tiles(args, reinterpret_cast<unsigned char*>(shared));

  // The first cp.async group holds x of step 0 and the weights of all kStages - 1 steps.
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s)
    if (s < S::kSteps) tiles.copy_weights(s);
  pdl_launch_dependents();
  pdl_wait();
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < S::kSteps) tiles.copy_x(s);
    cp_async_commit();
  }
  float sums[S::kMTiles][S::kSlots][4] = {};
  for (int step = 0; step < S::kSteps; ++step) {
    cp_async_wait<kStages - 2>();
    __syncthreads();
    if (const int next = step + kStages - 1; next < S::kSteps) {
      tiles.copy_x(next);
      tiles.copy_weights(next);
    }
    cp_async_commit();
    tiles.multiply(sums, step);
  }
  tiles.store(sums, kBias != 0);
}

}  // namespace warptune
