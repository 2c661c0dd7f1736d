// Idea: the result as one run of wide pieces, several per thread, with all loads of gate and up in flight
// before the first use.
#include "kernels/common/cache_hint.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/vec_width.h"
#include "kernels/swiglu/args.h"
#include "kernels/swiglu/silu.cuh"

namespace warptune {

template <class T, int kIntermediate, int kBlock, int kUnroll, int kVecWanted, int kStore>
__global__ void __launch_bounds__(kBlock) swiglu_vectorized(SwigluArgs args) {
  constexpr int kVec = vec_width(kVecWanted, kIntermediate);
  constexpr int kPieces = kIntermediate / kVec;
  const long long first = static_cast<long long>(blockIdx.x) * (kBlock * kUnroll);
  const long long first_token = first / kPieces;
  const int first_piece = static_cast<int>(first - first_token * kPieces) + static_cast<int>(threadIdx.x);
  pdl_launch_dependents();
  pdl_wait();

  Vec<T, kVec> gate[kUnroll], up[kUnroll];
#pragma unroll
  for (int j = 0; j < kUnroll; ++j) {
    const int piece = first_piece + j * kBlock;
    const long long token = first_token + piece / kPieces;
    if (token < args.tokens) {
      const T* from =
          static_cast<const T*>(args.gate_up) + token * (2 * kIntermediate) + piece % kPieces * kVec;
      gate[j] = load_vec_hint<kVec, kStore>(from);
      up[j] = load_vec_hint<kVec, kStore>(from + kIntermediate);
    }
  }
#pragma unroll
  for (int j = 0; j < kUnroll; ++j) {
    const int piece = first_piece + j * kBlock;
    const long long token = first_token + piece / kPieces;
    if (token < args.tokens) {
      auto y = to_float(gate[j]);
      const auto u = to_float(up[j]);
#pragma unroll
      for (int i = 0; i < kVec; ++i) y[i] = silu(y[i]) * u[i];
      store_vec_hint<kStore>(static_cast<T*>(args.y) + token * kIntermediate + piece % kPieces * kVec,
                             from_float<T>(y));
    }
  }
}

}  // namespace warptune
