// Epilogue::project as a kernel of its own, after an attention kernel that leaves its rows in `out`:
//   y = residual + o_weight . rows.
// Grid: [hidden / (kBlock / 32), batch]; a warp computes one element of y with loads of 16 bytes.
#include "kernels/attention_decode/args.h"
#include "kernels/common/pdl.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

template <class T, int kQWidth, int kHidden, int kBlock>
__global__ void __launch_bounds__(kBlock) attention_decode_project(ProjectDecodeArgs args) {
  constexpr int kVec = kVec16<T>;
  pdl_launch_dependents();
  pdl_wait();
  const int row = blockIdx.x * (kBlock / 32) + threadIdx.x / 32;
  if (row >= kHidden) return;
  const T* const weight = static_cast<const T*>(args.o_weight) + static_cast<long long>(row) * kQWidth;
  const T* const x = static_cast<const T*>(args.out) + static_cast<long long>(blockIdx.y) * kQWidth;
  float sum = 0;
  for (int i = threadIdx.x % 32 * kVec; i < kQWidth; i += 32 * kVec) {
    const auto w = to_float(load_vec_nc<kVec>(weight + i)), v = to_float(load_vec<kVec>(x + i));
#pragma unroll
    for (int j = 0; j < kVec; ++j) sum = fmaf(w[j], v[j], sum);
  }
  sum = warp_reduce<Sum>(sum);
  const long long at = static_cast<long long>(blockIdx.y) * kHidden + row;
  if (threadIdx.x % 32 == 0)
    static_cast<T*>(args.y)[at] = from_float<T>(sum + to_float(static_cast<const T*>(args.residual)[at]));
}

}  // namespace warptune
