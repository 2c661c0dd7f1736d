// GEMV on quantized weights (packed_weights.h) for 1 to 16 tokens: blocks of packed weights go from memory
// to registers, where they become operands of mma.sync (packed_dot.cuh).
// Grid: a block computes kTiles tiles of 16 weight rows; its warps split K.
// Loads: 16 bytes per lane are a block of weights; kUnroll blocks per tile and warp are in flight, with
//   their scales and zero points, the first before pdl_wait().
// Sync: one barrier when the warps have stored their sums in shared memory.
// `in` is a multiple of the columns of a block of weights.
#include "kernels/common/pdl.cuh"
#include "kernels/linear/packed_dot.cuh"

namespace warptune {

/// Blocks of weights of a warp, which splits K with others.
template <class S, int kUnroll>
class PackedRows {
 public:
  __device__ __forceinline__ PackedRows(const QuantizedLinearArgs& args, int first_tile)
      : args_(args),
        first_tile_(first_tile),
        begin_(S::kBlocks * warp() / S::kWarps),
        end_(S::kBlocks * (warp() + 1) / S::kWarps) {}

  __device__ __forceinline__ WarpActivations<S> x(typename WarpActivations<S>::Shared& shared) const {
    return {shared, args_, begin_, end_, 1};
  }

  __device__ __forceinline__ void load_prologue() {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) load(u, begin_ + u);
  }
  __device__ __forceinline__ void main_loop(PackedAccumulator<S>& sums) {
    for (int block = begin_; block < end_; block += kUnroll) {
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        if (block + u < end_) {
          sums.add(weights_[u], block + u, (kUnroll % 2 == 0 ? u : block - begin_ + u) % 2);
          load(u, block + u + kUnroll);
        }
      }
    }
  }

 private:
  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x / 32); }
  __device__ __forceinline__ void load(int u, int block) {
    if (block >= end_) return;
#pragma unroll
    for (int t = 0; t < S::kTiles; ++t)
#pragma unroll
      for (int half = 0; half < 2; ++half) load(weights_[u][t][half], S::slot(first_tile_ + t, half), block);
  }
  /// `slot`: eight rows; `block`: of their columns.
  __device__ __forceinline__ void load(PackedBlock<S>& to, int slot, int block) const {
    const int lane = threadIdx.x % 32;
    const auto* const from = static_cast<const unsigned char*>(args_.weight) +
                             (static_cast<long long>(slot) * S::kBlocks + block) * kBlockBytes + lane * 16;
    const auto vec = load_vec_nc<16>(from);
    to.bytes = *reinterpret_cast<const uint4*>(&vec);
    const int row = min_of(slot * kBlockRows + lane / 4, S::kRows - 1), k = block * S::kColumns;
#pragma unroll
    for (int i = 0; i < S::kBlockScales; ++i) {
      if constexpr (S::kGroupColumns) {
        if (i == 0) to.scales.template load_pair<S::kIn>(lane % 2, args_.scales, row, k);
      } else {
        to.scales.template load<S::kIn>(i, args_.scales, row, k + i * 16 * S::kScaleFragments);
      }
    }
#pragma unroll
    for (int i = 0; i < S::kZeroPoints; ++i)
      to.zeros[i] =
          args_.zeros[scale_index(S::kWeights, S::kGroup, S::kIn, row, k + i * 16 * S::kScaleFragments)];
  }

  const QuantizedLinearArgs& args_;
  const int first_tile_, begin_, end_;
  PackedBlock<S> weights_[kUnroll][S::kTiles][2];
};

template <class T, int kTokens, int kIn, int kOut, int kBias, int kPrologue, int kEpilogue, int kWeights,
          int kGroup, int kZeros, int kActOrder, int kWarps, int kTiles, int kUnroll>
__global__ void __launch_bounds__(kWarps * 32) linear_gemv_packed(QuantizedLinearArgs args) {
  using S = PackedGemv<T, kTokens, kIn, kOut, kBias, kPrologue, kEpilogue, kWeights, kGroup, kZeros,
                       kActOrder, kWarps, kTiles>;
  using Keys = BlockKeys<T, kOut, kEpilogue, kTokens>;
  using X = WarpActivations<S>;
  [[maybe_unused]] static constexpr int kSharedBytes = sizeof(typename X::Shared);
  extern __shared__ uint4 memory[];
  PackedRows<S, kUnroll> rows(args, static_cast<int>(blockIdx.x) * kTiles);
  rows.load_prologue();
  X x = rows.x(*reinterpret_cast<typename X::Shared*>(memory));
  Keys::clear();
  pdl_launch_dependents();
  pdl_wait();

  constexpr int kStores = ceil_div(S::kResults, S::kThreads);
  PackedOutput<S> outputs[kStores];
  const auto result = [](int j) { return static_cast<int>(threadIdx.x) + j * S::kThreads; };
#pragma unroll
  for (int j = 0; j < kStores; ++j)
    outputs[j] = PackedOutput<S>(args, static_cast<int>(blockIdx.x) * S::kOutputs, result(j));
  x.load(0);
  PackedAccumulator<S> sums(x);
  rows.main_loop(sums);

  __shared__ PackedPartials<S> partials;
  store_partials<S>(partials, sums.finish());
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kStores; ++j)
    if (outputs[j].is_valid)
      outputs[j].store(args, add_partials<S>(partials, result(j)), x.scale(outputs[j].token));
  Keys::template write<S::kThreads>(args);
}

}  // namespace warptune
