#pragma once
// x of one token for the GEMVs on quantized weights that convert it: a warp loads its columns of x and
// chooses a power of two by their largest magnitude. packed_digits.cuh and packed_fp16.cuh store the products
// of both as operands.
#include "kernels/linear/fused.cuh"
#include "kernels/linear/packed/packed_gemv.cuh"

namespace warptune {

/// The columns of x that a warp multiplies. A lane has vectors of eight columns: kLoads loads, 8 columns
/// apart. A power of two brings them to at most 2^kBits; sums of products, which are 2^kProductBits as
/// large, times `unit` are sums of weights * x. RMSNorm multiplies x by its weights before, and scale()
/// multiplies the outputs. Shared_: the shared memory of all warps, with their squares.
template <class S, class Shared_, int kLoads, int kBits, int kProductBits>
class OneTokenActivations {
 public:
  using Shared = Shared_;
  static constexpr bool kChunked = false;
  static constexpr int kChunks = 1, kChunkBlocks = 1;

  /// The unit of the sums of products.
  float unit;

  /// The warp has blocks `first`, `first` + `step`, ... below `last`. Loads their weights of the norm, which
  /// no kernel writes.
  __device__ __forceinline__ OneTokenActivations(Shared& shared, const QuantizedLinearArgs& args, int first,
                                                 int last, int step)
      : shared_(shared), args_(args), first_(first), last_(last), step_(step) {
    if constexpr (S::kNorm) load_columns(norm_, static_cast<const T*>(args.norm_weight), 0);
  }
  /// The factor of the outputs. Call it after a barrier of the warps.
  __device__ __forceinline__ float scale(int /*token*/) const {
    if constexpr (!S::kScalesTokens) return 1;
    float squares = 0;
#pragma unroll
    for (int w = 0; w < (S::kRmsScale ? 1 : S::kWarps); ++w) squares += shared_.squares[w];
    return rsqrtf(squares / S::kIn + args_.eps);
  }

 protected:
  using T = typename S::T;
  static constexpr int kWarpBlocks = ceil_div(S::kBlocks, S::kWarps), kBlockVecs = S::kColumns / 8,
                       kVecs = ceil_div(kWarpBlocks * kBlockVecs, 32);  // per lane
  static constexpr bool kHasAllVectors = S::kBlocks % S::kWarps == 0 && kWarpBlocks * kBlockVecs % 32 == 0;
  /// The vectors of a lane, as pairs of T.
  using Columns = unsigned[kVecs][4];

  Shared& shared_;
  const int lane_ = threadIdx.x % 32;

  /// Loads x, after pdl_wait(), and the sums of its squares where there are some. `begin`: the column of x
  /// that is the first of this thread block. `then()` issues what memory serves after these loads.
  template <class Then>
  __device__ __forceinline__ void load_x(Columns& x, TokenSquares<S::kIn>& squares, int begin,
                                         const Then& then) {
    if constexpr (S::kRmsScale) squares.load(args_.squares, 0, threadIdx.x < 32);
    load_columns(x, static_cast<const T*>(args_.x), begin);
    then();
  }
  /// The weights of the norm of pair p of vector j.
  __device__ __forceinline__ Vec<float, 2> norm(int j, int p) const { return unpack2<T>(norm_[j][p]); }
  /// Stores the squares of x and makes all stores visible to the warp. `squares`: those of this lane's
  /// columns.
  __device__ __forceinline__ void finish(float squares, const TokenSquares<S::kIn>& token_squares) {
    if constexpr (S::kRmsScale)
      if (threadIdx.x < 32) squares = token_squares.lane_sum();
    if (S::kNorm || (S::kRmsScale && threadIdx.x < 32)) {
      squares = warp_reduce<Sum>(squares);
      if (lane_ == 0) shared_.squares[threadIdx.x / 32] = squares;
    }
    __syncwarp();
  }
  /// Vector j of this lane lies in block block(j) of the weights, the warp's block number warp_block(j),
  /// among the 8 * kLoads columns number part().
  __device__ __forceinline__ int warp_block(int j) const {
    return lane_ / kBlockVecs + j * (32 / kBlockVecs);
  }
  __device__ __forceinline__ int part() const { return lane_ % kBlockVecs / kLoads; }
  __device__ __forceinline__ int block(int j) const { return first_ + warp_block(j) * step_; }
  __device__ __forceinline__ bool has_vector(int j) const { return kHasAllVectors || block(j) < last_; }
  /// Chooses the unit, a power of two, by the largest magnitude of the warp's x. Returns the factor that
  /// brings x to at most 2^kBits. If x has NaN or infinity, the unit is NaN, and so are all outputs.
  __device__ __forceinline__ float choose_unit(float largest) {
    const unsigned exponent = __reduce_max_sync(~0u, __float_as_uint(largest)) >> 23;
    // At most 2^113, so that zeros are multiplied by what is finite.
    const int up = min_of(253 + kBits - static_cast<int>(exponent), 240);
    unit = __int_as_float(exponent == 255 ? 0x7fffffff : (254 - kProductBits - up) << 23);
    return __int_as_float(up << 23);
  }

 private:
  __device__ __forceinline__ void load_columns(Columns& to, const T* row, int begin) const {
    constexpr int kColumns = 8 / kLoads;  // columns of a load
#pragma unroll
    for (int j = 0; j < kVecs; ++j) {
      const int valid = kHasAllVectors ? block(j) : min_of(block(j), S::kBlocks - 1);
      const int column = begin + valid * S::kColumns + part() * (8 * kLoads) + lane_ % kLoads * kColumns;
#pragma unroll
      for (int load = 0; load < kLoads; ++load) {
        Vec<T, kColumns> columns;
        if constexpr (S::kActOrder)
#pragma unroll
          for (int i = 0; i < kColumns; ++i) columns[i] = row[args_.order[column + 8 * load + i]];
        else
          columns = load_vec<kColumns>(row + column + 8 * load);
#pragma unroll
        for (int i = 0; i < kColumns / 2; ++i)
          to[j][load * kColumns / 2 + i] = reinterpret_cast<const unsigned*>(&columns)[i];
      }
    }
  }

  const QuantizedLinearArgs& args_;
  const int first_, last_, step_;
  unsigned norm_[S::kNorm ? kVecs : 1][4];
};

}  // namespace warptune
