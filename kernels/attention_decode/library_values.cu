// V for the second GEMM of a library (variant `cublaslt`): a copy in the workspace with zeros past the
// length. The GEMM multiplies all rows of the context, those past the length by 0; they may hold NaN, and 0 *
// NaN is NaN. Grid: [vectors of a head, kv_heads, batch]; a thread copies a vector of up to 16 bytes. Layout:
// kValues bytes in, [batch, kv_heads, context, head_dim].
#include "kernels/attention_decode/args.h"
#include "kernels/common/pdl.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

template <class T, int kKvHeads, int kContext, int kHeadDim, long long kValues, int kBlock>
__global__ void __launch_bounds__(kBlock) attention_decode_library_values(AttentionDecodeArgs args) {
  constexpr int kVec = vec_width<T>(kHeadDim), kVectors = kHeadDim / kVec;
  pdl_wait();
  const long long vector = static_cast<long long>(blockIdx.x) * kBlock + threadIdx.x, key = vector / kVectors;
  const int d = static_cast<int>(vector % kVectors) * kVec;
  if (key >= kContext) return;
  const long long head = static_cast<long long>(blockIdx.z) * kKvHeads + blockIdx.y;
  const T* const from = static_cast<const T*>(args.v_cache) + (head * args.capacity + key) * kHeadDim + d;
  T* const values = reinterpret_cast<T*>(static_cast<unsigned char*>(args.workspace) + kValues);
  store_vec<kVec>(values + (head * kContext + key) * kHeadDim + d,
                  key < args.lengths[blockIdx.z] ? load_vec<kVec>(from) : Vec<T, kVec>{});
}

}  // namespace warptune
