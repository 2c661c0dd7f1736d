#pragma once
// The epilogue of a 64-token wgmma accumulator tile, in registers: bias, residual or SwiGLU in fp32, then
// 16-byte stores. A thread's accumulators are pairs of columns (kernels/common/wgmma.cuh); a transpose within
// each quad of lanes turns them into vectors of 8 columns. The stores are not waited for: they overlap the
// main loop of the next tile.
#include "kernels/common/transpose.cuh"
#include "kernels/linear/fused.cuh"

namespace warptune {

/// kTileN columns of accumulators: outputs, or with SwiGLU gates of kTileN / 2 outputs and then their ups.
template <class T, int kOut, int kBias, int kEpilogue, int kTileN>
class WgmmaEpilogue {
 public:
  static constexpr bool kSwiglu = kEpilogue == kEpilogueSwiglu, kAdd = kEpilogue == kEpilogueAdd;
  static constexpr int kTileOut = kSwiglu ? kTileN / 2 : kTileN;
  /// Columns are seen as groups of 8, octets. A vector of a lane is an octet of a row.
  static constexpr int kOctets = kTileOut / 8, kVectors = kOctets / 2;
  static_assert(kOctets % 2 == 0 && kOut % 8 == 0);

  /// The lane's rows: `token` and the one 8 further of the problem; the tile's outputs begin at `out`.
  __device__ __forceinline__ WgmmaEpilogue(const LinearArgsOf<kPrologueNone, kEpilogue>& args, int token,
                                           int out, int lane)
      : args_(args), token_(token), out_(out), lane_(lane), item_(lane % 4) {}

  /// Starts the loads of the residual, before the wait for the accumulators. A lane loads what it will store,
  /// so the residual may be y.
  __device__ __forceinline__ void load_residual() {
    if constexpr (kAdd) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v)
        residual_[v] =
            is_valid(v) ? *reinterpret_cast<const uint4*>(static_cast<const T*>(args_.residual) + offset(v))
                        : uint4{};
    }
  }

  __device__ __forceinline__ void store(const float (&sum)[kTileN / 2]) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      unsigned residual[4] = {};
      if constexpr (kAdd) {
        residual[0] = residual_[v].x, residual[1] = residual_[v].y;
        residual[2] = residual_[v].z, residual[3] = residual_[v].w;
        quad_transpose(residual, lane_);
      }
      unsigned x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = output_pair(sum, octet(v, i), row_half(v, i), residual[i]);
      quad_transpose(x, lane_);
      if (is_valid(v))
        *reinterpret_cast<uint4*>(static_cast<T*>(args_.y) + offset(v)) = make_uint4(x[0], x[1], x[2], x[3]);
    }
  }

 private:
  /// The four lanes of a quad hold vector v as items 0 to 3: four octets of one row, or the last two octets
  /// of both rows.
  static constexpr __device__ __forceinline__ bool is_last_pair(int v) {
    return kOctets % 4 != 0 && v == kVectors - 1;
  }
  static constexpr __device__ __forceinline__ int octet(int v, int item) {
    return is_last_pair(v) ? kOctets - 2 + item % 2 : v / 2 * 4 + item;
  }
  static constexpr __device__ __forceinline__ int row_half(int v, int item) {
    return is_last_pair(v) ? item / 2 : v % 2;
  }
  __device__ __forceinline__ int row(int v) const { return token_ + 8 * row_half(v, item_); }
  __device__ __forceinline__ int column(int v) const { return out_ + 8 * octet(v, item_); }
  __device__ __forceinline__ bool is_valid(int v) const { return row(v) < args_.tokens && column(v) < kOut; }
  __device__ __forceinline__ long long offset(int v) const {
    return static_cast<long long>(row(v)) * kOut + column(v);
  }

  static __device__ __forceinline__ Vec<float, 2> unpack(unsigned pair) {
    return to_float(*reinterpret_cast<const Vec<T, 2>*>(&pair));
  }
  /// The outputs of two adjacent accumulators.
  __device__ __forceinline__ unsigned output_pair(const float (&sum)[kTileN / 2], int octet, int half,
                                                  unsigned residual) const {
    const int i = octet * 4 + half * 2;
    float y[2] = {sum[i], sum[i + 1]};
    if constexpr (kBias != 0) {
      const int column = out_ + octet * 8 + item_ * 2;
      if (column < kOut) {
        const auto bias =
            unpack(__ldg(reinterpret_cast<const unsigned*>(static_cast<const T*>(args_.bias) + column)));
        y[0] += bias[0], y[1] += bias[1];
      }
    }
    if constexpr (kAdd) {
      const auto r = unpack(residual);
      y[0] += r[0], y[1] += r[1];
    }
    if constexpr (kSwiglu) {
      constexpr int kUp = kTileN / 4;
      y[0] = silu(y[0]) * sum[kUp + i], y[1] = silu(y[1]) * sum[kUp + i + 1];
    }
    return pack2<T>(y[0], y[1]);
  }

  const LinearArgsOf<kPrologueNone, kEpilogue>& args_;
  const int token_, out_, lane_, item_;
  uint4 residual_[kAdd ? kVectors : 1];
};

}  // namespace warptune
