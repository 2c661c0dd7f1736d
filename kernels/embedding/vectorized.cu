// Idea: the rows of all tokens as one run of wide pieces, several per thread, so that a token's row is spread
// over as many threads and blocks as it has pieces (one token still fills several SMs) and many loads are in
// flight.
#include "kernels/common/gather_rows.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/embedding/args.h"

namespace warptune {

template <class T, int kVocab, int kHidden, int kBlock, int kUnroll, int kVec, int kStore>
__global__ void __launch_bounds__(kBlock) embedding_vectorized(EmbeddingArgs args) {
  pdl_launch_dependents();
  pdl_wait();
  const T* table = static_cast<const T*>(args.table);
  gather_rows<kHidden, kBlock, kUnroll, kVec, kStore, true>(
      static_cast<T*>(args.y), args.tokens, [&](long long token) -> const T* {
        const int id = args.ids[token];
        if (id >= 0 && id < kVocab) return table + static_cast<long long>(id) * kHidden;
        atomicMax(args.bad_token, static_cast<int>(token) + 1);
        return nullptr;
      });
}

}  // namespace warptune
