// Copies packed fp8 weights (packed_weights.h) to rows in the workspace, for a library's GEMM. Columns keep
// the order of packed blocks of 64, which quantize_rows.cu gives x, too. A thread copies 16 bytes; a warp
// reads a block of 8 rows and writes 64 bytes of each. `in` is a multiple of 64.
#include "kernels/common/vec.cuh"
#include "kernels/linear/args.h"
#include "kernels/linear/packed_weights.h"

namespace warptune {

template <int kIn, int kOut, long long kOffset>
__global__ void __launch_bounds__(256) linear_unpack_rows(QuantizedLinearArgs args) {
  constexpr int kBlocksOfRow = kIn / kBlockRowBytes;
  const long long block = (static_cast<long long>(blockIdx.x) * 256 + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  const long long row = block / kBlocksOfRow * kBlockRows + lane / 4;
  if (row >= kOut) return;
  const auto* const from = static_cast<const unsigned char*>(args.weight) + block * kBlockBytes + lane * 16;
  unsigned char* const to = static_cast<unsigned char*>(args.workspace) + kOffset + row * kIn +
                            block % kBlocksOfRow * kBlockRowBytes + lane % 4 * 16;
  store_vec<16>(to, load_vec_nc<16>(from));
}

}  // namespace warptune
