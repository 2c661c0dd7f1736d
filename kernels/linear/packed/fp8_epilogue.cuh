#pragma once
// The epilogue of the 64-token accumulators of an fp8 GEMM (wgmma_fp8.cu), by way of shared memory:
// scales of rows and tokens, bias, residual or SwiGLU in fp32, stmatrix, then TMA stores, which the next work
// tile does not wait for.
// Shared memory of a warpgroup: boxes of 64 tokens x 32 outputs with the 64-byte swizzle. If they do not
//   divide the tile, the last box ends with it, and 16 outputs are in two boxes. A thread of each warp issues
//   the copies of every fourth box. TMA loads the residual to where y will lie while the work tile is
//   multiplied; so the residual may be y.
#include "kernels/common/cp_async.cuh"
#include "kernels/common/mma.cuh"
#include "kernels/common/tma.cuh"
#include "kernels/linear/fused.cuh"
#include "kernels/linear/grouped_scheduler.cuh"
#include "kernels/linear/packed/quantized_rows.cuh"
#include "kernels/linear/packed_weights.cuh"

namespace warptune {

/// One warpgroup. All of its threads call.
template <class S>
class Fp8Epilogue {
  using T = typename S::T;
  static constexpr int kBoxOutputs = 32, kBoxBytes = 64 * 2 * kBoxOutputs,
                       kBoxes = ceil_div(S::kTileOut, kBoxOutputs);
  static_assert(S::kTileOut % 16 == 0 && S::kTileOut >= kBoxOutputs);

 public:
  static constexpr int kWarps = 4;
  struct Storage {
    alignas(512) unsigned char boxes[kBoxes][kBoxBytes];
    float row_scales[S::kTileN];
    Mbarrier residual;  // kWarps threads arrive
  };

  __device__ __forceinline__ Fp8Epilogue(const QuantizedLinearArgs& args, const TensorMap& y_map,
                                         const TensorMap& residual_map, Storage& shared, int index)
      : args_(args), y_map_(y_map), residual_map_(residual_map), shared_(shared), index_(index) {}

  /// Before the main loop of a work tile: the latency of scales and residual passes with it.
  __device__ __forceinline__ void load(const WorkTile& work) {
    token_ = work.token + 64 * index_;
    out_ = work.out;
    const float* const scales = quantized_scales(args_, S::kIn);
#pragma unroll
    for (int half = 0; half < 2; ++half)
      token_scales_[half] = scales[min(token_ + warp_ * 16 + lane_ / 4 + 8 * half, args_.tokens - 1)];
    if constexpr (S::kGroup == 0) {
#pragma unroll
      for (int column = thread_; column < S::kTileN; column += 128)
        cp_async_4(shared_.row_scales + column, static_cast<const float*>(args_.scales) +
                                                    min(S::weight_row(work, column), S::kWeightRows - 1));
      cp_async_commit();
    }
    if (S::kAdd && lane_ == 0) {
      tma_store_wait_read();
      mbarrier_arrive_expect_tx(&shared_.residual, ceil_div(kBoxes - warp_, kWarps) * kBoxBytes);
#pragma unroll
      for (int box = warp_; box < kBoxes; box += kWarps)
        tma_load_2d(shared_.boxes[box], residual_map_, out_ + first_output(box), token_, &shared_.residual);
    }
  }
  __device__ __forceinline__ void store(const float (&sum)[S::kTileN / 2]) {
    if (lane_ == 0) tma_store_wait_read();
    cp_async_wait<0>();
    synchronize();  // the scales of rows are there, and the boxes may be written
    RowScales row_scales;
#pragma unroll
    for (int octet = 0; octet < S::kTileN / 8; ++octet)
      row_scales[octet] = S::kGroup == 0 ? load_vec<2>(shared_.row_scales + octet * 8 + lane_ % 4 * 2)
                                         : Vec<float, 2>{{1, 1}};
    if constexpr (S::kAdd) mbarrier_wait(&shared_.residual, residual_phase_);
    residual_phase_ ^= 1;
#pragma unroll
    for (int octet = 0; octet < S::kTileOut / 8; octet += 2) {
      const int box = octet / 4, column = octet * 8;
      const unsigned address = address_of(box, column);
      unsigned residual[4] = {}, y[4];
      if constexpr (S::kAdd) ldmatrix_x4(residual, address);
#pragma unroll
      for (int i = 0; i < 4; ++i) y[i] = output_pair(sum, row_scales, octet + i / 2, i % 2, residual[i]);
      stmatrix_x4(address, y);
      if (box + 1 < kBoxes && column >= first_output(box + 1)) stmatrix_x4(address_of(box + 1, column), y);
    }
    fence_proxy_async();
    synchronize();
    if (lane_ == 0) {
#pragma unroll
      for (int box = warp_; box < kBoxes; box += kWarps)
        tma_store_2d(y_map_, out_ + first_output(box), token_, shared_.boxes[box]);
      tma_store_commit();
    }
  }
  /// After the last work tile.
  __device__ __forceinline__ void wait() const {
    if (lane_ == 0) tma_store_wait();
  }

 private:
  /// The scales of a lane's two columns of each octet.
  using RowScales = Vec<float, 2>[S::kTileN / 8];

  __device__ __forceinline__ void synchronize() const { named_barrier_sync(1 + index_, 128); }
  /// The first output of a box, in the work tile.
  static __device__ __forceinline__ int first_output(int box) {
    return min_of(box * kBoxOutputs, S::kTileOut - kBoxOutputs);
  }
  /// Where this lane's row of the matrices of columns `column` to `column` + 15 lies in a box. The matrices:
  /// rows 0 to 7 and 8 to 15 of the warp's tokens, of eight columns, then of the next eight.
  __device__ __forceinline__ unsigned address_of(int box, int column) const {
    const int row = warp_ * 16 + lane_ % 16, vector = (column - first_output(box)) / 8 + lane_ / 16;
    return shared_address(shared_.boxes[box]) + row * 64 + (vector ^ row / 2 % 4) * 16;
  }
  static __device__ __forceinline__ Vec<float, 2> unpack(unsigned pair) {
    return to_float(*reinterpret_cast<const Vec<T, 2>*>(&pair));
  }
  /// Two adjacent outputs of row lane / 4 + 8 * half of the warp's tokens.
  __device__ __forceinline__ unsigned output_pair(const float (&sum)[S::kTileN / 2],
                                                  const RowScales& row_scales, int octet, int half,
                                                  unsigned residual) const {
    constexpr int kUpOctets = S::kTileOut / 8;
    const int at = octet * 4 + half * 2;
    const auto scales = row_scales[octet];
    float y[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) y[i] = sum[at + i] * (scales[i] * token_scales_[half]);
    if constexpr (S::kBias != 0) {
      if (const int column = out_ + octet * 8 + lane_ % 4 * 2; column < S::kOut) {
        const auto bias =
            unpack(__ldg(reinterpret_cast<const unsigned*>(static_cast<const T*>(args_.bias) + column)));
        y[0] += bias[0], y[1] += bias[1];
      }
    }
    if constexpr (S::kAdd) {
      const auto r = unpack(residual);
      y[0] += r[0], y[1] += r[1];
    }
    if constexpr (S::kSwiglu) {
      const auto up_scales = row_scales[kUpOctets + octet];
#pragma unroll
      for (int i = 0; i < 2; ++i)
        y[i] = silu(y[i]) * (sum[kUpOctets * 4 + at + i] * (up_scales[i] * token_scales_[half]));
    }
    return pack2<T>(y[0], y[1]);
  }

  const QuantizedLinearArgs& args_;
  const TensorMap &y_map_, &residual_map_;
  Storage& shared_;
  const int index_, thread_ = threadIdx.x % 128, warp_ = thread_ / 32, lane_ = thread_ % 32;
  int token_, out_;  // the first of the work tile
  float token_scales_[2];
  unsigned residual_phase_ = 0;
};

}  // namespace warptune
