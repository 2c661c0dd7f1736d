#pragma once
// Rows of x in e4m3 in the workspace of an fp8 GEMM: quantize_rows.cu writes them.
#include "kernels/linear/args.h"

namespace warptune {

/// The scales of the tokens: the workspace has x [tokens, in], then these.
__device__ __forceinline__ float* quantized_scales(const LinearArgs& args, int in) {
  return reinterpret_cast<float*>(static_cast<unsigned char*>(args.workspace) +
                                  static_cast<long long>(args.tokens) * in);
}

}  // namespace warptune
