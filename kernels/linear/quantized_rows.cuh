#pragma once
// Rows of x in e4m3 in the workspace of an fp8 GEMM: quantize_rows.cu writes them.
#include "kernels/linear/args.h"

namespace warptune {

/// The order of the columns of a row.
enum class ColumnOrder {
  fragments,  // 16 bytes are a fragment of 16 columns: lane t's 2t, 2t + 1, 2t + 8 and 2t + 9 from byte 4t on
  packed      // as packed_weights.h has 64 columns: lane t's of four fragments from byte 16t on
};

/// The scales of the tokens: the workspace has x [tokens, in], then these.
__device__ __forceinline__ float* quantized_scales(const LinearArgs& args, int in) {
  return reinterpret_cast<float*>(static_cast<unsigned char*>(args.workspace) +
                                  static_cast<long long>(args.tokens) * in);
}

}  // namespace warptune
