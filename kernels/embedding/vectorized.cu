// Vectorized embedding lookup: a gather of rows (gather_rows.cuh).
// Grid: the rows of all tokens are one run of vectors, kUnroll per thread, so that one token uses several
//   SMs.
// Loads: kUnroll in flight per thread, by the read-only path.
#include "kernels/common/gather_rows.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/embedding/args.h"

namespace warptune {

template <class T, int kVocab, int kHidden, int kBlock, int kUnroll, int kVec, int kCacheHint>
__global__ void __launch_bounds__(kBlock) embedding_vectorized(EmbeddingArgs args) {
  pdl_launch_dependents();
  pdl_wait();
  const T* table = static_cast<const T*>(args.table);
  gather_rows<kHidden, kBlock, kUnroll, kVec, kCacheHint, true>(
      static_cast<T*>(args.y), args.tokens, [&](long long token) -> const T* {
        const int id = args.ids[token];
        if (id >= 0 && id < kVocab) return table + static_cast<long long>(id) * kHidden;
        atomicMax(args.bad_token, static_cast<int>(token) + 1);
        return nullptr;
      });
}

}  // namespace warptune
