// Vectorized copy of packed rows to padded sequences: a gather of rows (gather_rows.cuh).
// Grid: the padded rows are one run of vectors, kUnroll per thread; rows of padding are zeros and load
//   nothing.
// Loads: kUnroll in flight per thread.
#include "kernels/common/gather_rows.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/restore_padding/args.h"

namespace warptune {

/// kManyRows: there are more padded rows than an int counts.
template <class T, int kHidden, int kBlock, int kUnroll, int kVec, int kCacheHint, bool kManyRows>
__global__ void __launch_bounds__(kBlock) restore_padding_vectorized(RestorePaddingArgs args) {
  pdl_launch_dependents();
  pdl_wait();
  const T* x = static_cast<const T*>(args.x);
  gather_rows<kHidden, kBlock, kUnroll, kVec, kCacheHint, false>(
      static_cast<T*>(args.y), static_cast<long long>(args.batch) * args.max_q_len,
      [&](long long padded_row) -> const T* {
        const auto row = static_cast<typename Conditional<kManyRows, long long, int>::type>(padded_row);
        const int sequence = static_cast<int>(row / args.max_q_len);
        const int i = static_cast<int>(row % args.max_q_len);
        const int start = args.cu_seqlens[sequence];
        if (i >= args.cu_seqlens[sequence + 1] - start) return nullptr;
        return x + static_cast<long long>(start + i) * kHidden;
      });
}

}  // namespace warptune
