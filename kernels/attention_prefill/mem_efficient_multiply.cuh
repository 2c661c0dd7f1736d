#pragma once
// The matrix products of mem_efficient.cu, by one warp from swizzled tiles into accumulator fragments m16n8
// (layout: common/mma.cuh). 16-bit dtypes use mma m16n8k16; fp32 uses CUDA cores, or m16n8k8 of TF32
// operands. A step of either mma covers 32 bytes of depth, so that both read the same vectors with ldmatrix.
// 3xTF32: each operand is the sum of two TF32 numbers, and a product the sum of three, small ones first; the
//   product of the small parts is below the rounding error of fp32.
// Source: CUTLASS examples 27 and 28 (3xTF32); Ootomo and Yokota, "Recovering Single Precision Accuracy from
//   Tensor Cores", 2022.
#include "kernels/attention_prefill/swizzled_tile.cuh"
#include "kernels/common/mma.cuh"
#include "kernels/common/tf32.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

/// How fp32 is multiplied. 16-bit dtypes have kCudaCores, too, which means nothing there.
enum Fp32Math { kCudaCores, kTf32, k3xTf32 };

/// Whether tensor cores multiply T.
template <class T, Fp32Math kMath>
inline constexpr bool kUsesMma = sizeof(T) == 2 || kMath != kCudaCores;

/// Four registers of an operand of an mma step: A of 16 rows, or B of two times 8 columns.
template <class T, Fp32Math kMath>
struct Operand {
  unsigned bits[4];
  unsigned small[kMath == k3xTf32 ? 4 : 1];

  /// Rounds the fp32 that are in `bits`.
  __device__ __forceinline__ void round() {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kMath == kTf32) bits[i] = round_to_tf32(__uint_as_float(bits[i]));
      if constexpr (kMath == k3xTf32) split_tf32(__uint_as_float(bits[i]), bits[i], small[i]);
    }
  }
};

/// d += a . b, for both times 8 columns of b.
template <class T, Fp32Math kMath>
__device__ __forceinline__ void mma_step(float (&d0)[4], float (&d1)[4], const Operand<T, kMath>& a,
                                         const Operand<T, kMath>& b) {
  if constexpr (sizeof(T) == 2) {
    mma_m16n8k16<T>(d0, a.bits, b.bits[0], b.bits[1]);
    mma_m16n8k16<T>(d1, a.bits, b.bits[2], b.bits[3]);
  } else {
    if constexpr (kMath == k3xTf32) {
      mma_m16n8k8_tf32(d0, a.small, b.bits[0], b.bits[1]);
      mma_m16n8k8_tf32(d1, a.small, b.bits[2], b.bits[3]);
      mma_m16n8k8_tf32(d0, a.bits, b.small[0], b.small[1]);
      mma_m16n8k8_tf32(d1, a.bits, b.small[2], b.small[3]);
    }
    mma_m16n8k8_tf32(d0, a.bits, b.bits[0], b.bits[1]);
    mma_m16n8k8_tf32(d1, a.bits, b.bits[2], b.bits[3]);
  }
}

/// sum[mt][nt] += a . b^T for 16 * kMt rows of a and 8 * kNt rows of b, of kDepth elements.
template <class T, Fp32Math kMath, int kDepth, int kMt, int kNt>
__device__ __forceinline__ void multiply_rows(float (&sum)[kMt][kNt][4], T* a, T* b) {
  using Tile = SwizzledTile<T, kDepth>;
  const int lane = threadIdx.x % 32;
  if constexpr (kUsesMma<T, kMath>) {
    constexpr int kSteps = Tile::kVectors / 2;
    constexpr int kUnroll = sizeof(T) == 2 ? kSteps : 4;  // 4: a period of the swizzle
    const typename Tile::LdmatrixAddress from_a(shared_address(a), lane % 16, lane / 16),
        from_b(shared_address(b), lane / 16 * 8 + lane % 8, lane / 8 % 2);
#pragma unroll kUnroll
    for (int kk = 0; kk < kSteps; ++kk) {
      Operand<T, kMath> x[kMt];
#pragma unroll
      for (int mt = 0; mt < kMt; ++mt) {
        ldmatrix_x4(x[mt].bits, from_a.at(kk * 2, mt * 16));
        x[mt].round();
      }
#pragma unroll
      for (int np = 0; np < kNt / 2; ++np) {
        Operand<T, kMath> y;  // rows 0-7: registers 0 and 1; rows 8-15: 2 and 3
        ldmatrix_x4(y.bits, from_b.at(kk * 2, np * 16));
        y.round();
#pragma unroll
        for (int mt = 0; mt < kMt; ++mt) mma_step(sum[mt][2 * np], sum[mt][2 * np + 1], x[mt], y);
      }
    }
  } else {
#pragma unroll 2
    for (int vector = 0; vector < Tile::kVectors; ++vector) {
      Vec<float, 4> x[kMt][2];
#pragma unroll
      for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
        for (int r = 0; r < 2; ++r) x[mt][r] = load_vec<4>(Tile::at(a, mt * 16 + r * 8 + lane / 4, vector));
#pragma unroll
      for (int nt = 0; nt < kNt; ++nt)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const Vec<float, 4> y = load_vec<4>(Tile::at(b, nt * 8 + lane % 4 * 2 + i, vector));
#pragma unroll
          for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
            for (int r = 0; r < 2; ++r)
#pragma unroll
              for (int e = 0; e < 4; ++e) sum[mt][nt][2 * r + i] += x[mt][r][e] * y[e];
        }
    }
  }
}

/// Writes the weights of columns `column` and column + 1 (even) to a row of a P tile. On TF32 tensor cores
/// the columns of each eight have the order 0, 2, 4, 6, 1, 3, 5, 7: lane t of a quad then multiplies V rows
/// 2t and 2t + 1 (load_v_operand()), which the quad reads without bank conflicts; rows t and t + 4 have some.
template <class T, Fp32Math kMath, int kTileN>
__device__ __forceinline__ void write_weight_pair(T* weights, int row, int column, float x, float y) {
  using Weights = SwizzledTile<T, kTileN>;
  const int vector = column / Weights::kVec, element = column % Weights::kVec;
  if constexpr (kMath == kCudaCores) {
    store_vec<2>(Weights::at(weights, row, vector) + element, from_float<T>(Vec<float, 2>{{x, y}}));
  } else {
    const int t = column % 8 / 2;
    Weights::at(weights, row, column / 8 * 2)[t] = x;
    Weights::at(weights, row, column / 8 * 2 + 1)[t] = y;
  }
}

/// The fp32 of V rows 8 kt to 8 kt + 7 and column pair `pair` that a lane has as B operand; there is no
/// ldmatrix that transposes 32-bit elements.
template <int kDim>
__device__ __forceinline__ void load_v_operand(unsigned (&bits)[4], float* v, int kt, int pair) {
  using Tile = SwizzledTile<float, kDim>;
  const int lane = threadIdx.x % 32, row = kt * 8 + lane % 4 * 2, column = lane / 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int vector = pair * 4 + i / 2 * 2 + column / 4;
    bits[i] = __float_as_uint(Tile::at(v, row + i % 2, vector)[column % 4]);
  }
}

/// sum[mt][nt] += p . v for 16 * kMt rows of kTileN weights, and kPairs times 16 columns of v from column
/// pair `first` on. Unless kAll, columns beyond kDim are skipped.
template <class T, Fp32Math kMath, int kTileN, int kDim, bool kAll, int kMt, int kPairs>
__device__ __forceinline__ void multiply_columns(float (&sum)[kMt][2 * kPairs][4], T* p, T* v, int first) {
  using Weights = SwizzledTile<T, kTileN>;
  using Tile = SwizzledTile<T, kDim>;
  const int lane = threadIdx.x % 32;
  if constexpr (kUsesMma<T, kMath>) {
    constexpr int kSteps = Weights::kVectors / 2;
    constexpr int kUnroll = sizeof(T) == 2 ? kSteps : 2;
    const typename Weights::LdmatrixAddress from_p(shared_address(p), lane % 16, lane / 16);
    const typename Tile::LdmatrixAddress from_v(shared_address(v), lane % 16, lane / 16);
#pragma unroll kUnroll
    for (int kt = 0; kt < kSteps; ++kt) {
      Operand<T, kMath> x[kMt];
#pragma unroll
      for (int mt = 0; mt < kMt; ++mt) {
        ldmatrix_x4(x[mt].bits, from_p.at(kt * 2, mt * 16));
        x[mt].round();
      }
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair) {
        if (!kAll && first + pair >= kDim / 16) break;
        Operand<T, kMath> y;  // columns 0-7: registers 0 and 1; columns 8-15: 2 and 3
        if constexpr (sizeof(T) == 2)
          ldmatrix_x4_trans(y.bits, from_v.at((first + pair) * 2, kt * 16));
        else
          load_v_operand<kDim>(y.bits, v, kt, first + pair);
        y.round();
#pragma unroll
        for (int mt = 0; mt < kMt; ++mt) mma_step(sum[mt][2 * pair], sum[mt][2 * pair + 1], x[mt], y);
      }
    }
  } else {
#pragma unroll 1
    for (int vector = 0; vector < Weights::kVectors; ++vector) {
      Vec<float, 4> x[kMt][2];
#pragma unroll
      for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
        for (int r = 0; r < 2; ++r)
          x[mt][r] = load_vec<4>(Weights::at(p, mt * 16 + r * 8 + lane / 4, vector));
#pragma unroll
      for (int e = 0; e < 4; ++e)
#pragma unroll
        for (int nt = 0; nt < 2 * kPairs; ++nt) {
          if (!kAll && first + nt / 2 >= kDim / 16) break;
          const int column = first * 16 + nt * 8 + lane % 4 * 2;
          const auto y = load_vec<2>(Tile::at(v, vector * 4 + e, column / 4) + column % 4);
#pragma unroll
          for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
            for (int i = 0; i < 4; ++i) sum[mt][nt][i] += x[mt][i / 2][e] * y[i % 2];
        }
    }
  }
}

/// The same, the sum of each call by itself in 3xTF32: tensor cores truncate sums, and an output that
/// thousands of keys are added to would drift. An fp32 addition per tile rounds to nearest.
template <class T, Fp32Math kMath, int kTileN, int kDim, bool kAll, int kMt, int kPairs>
__device__ __forceinline__ void add_columns(float (&sum)[kMt][2 * kPairs][4], T* p, T* v, int first) {
  if constexpr (kMath != k3xTf32) {
    multiply_columns<T, kMath, kTileN, kDim, kAll, kMt, kPairs>(sum, p, v, first);
  } else {
    float tile_sum[kMt][2 * kPairs][4] = {};
    multiply_columns<T, kMath, kTileN, kDim, kAll, kMt, kPairs>(tile_sum, p, v, first);
#pragma unroll
    for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
      for (int nt = 0; nt < 2 * kPairs; ++nt)
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[mt][nt][i] += tile_sum[mt][nt][i];
  }
}

}  // namespace warptune
