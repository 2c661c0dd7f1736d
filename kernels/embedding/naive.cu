// Naive embedding lookup: the readable baseline.
// Grid: one block per token; a thread copies elements one by one. An id outside the table gives zeros and
//   is reported in bad_token.
#include "kernels/common/numeric.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/embedding/args.h"

namespace warptune {

template <class T, int kVocab, int kHidden, int kBlock>
__global__ void __launch_bounds__(kBlock) embedding_naive(EmbeddingArgs args) {
  pdl_wait();
  const long long token = blockIdx.x;
  const int id = args.ids[token];
  const bool known = id >= 0 && id < kVocab;
  const T* from = static_cast<const T*>(args.table) + static_cast<long long>(known ? id : 0) * kHidden;
  T* y = static_cast<T*>(args.y) + token * kHidden;
  for (int i = threadIdx.x; i < kHidden; i += kBlock) y[i] = known ? from[i] : from_float<T>(0.0f);
  if (!known && threadIdx.x == 0) atomicMax(args.bad_token, static_cast<int>(token) + 1);
}

}  // namespace warptune
