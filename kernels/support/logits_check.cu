// Check of the logits that tokens were sampled from: records the first step whose logits are not finite.
// Grid: one block; a thread takes sequences round-robin.
// One load per row is enough: where a row holds NaN or +infinity, argmax and top_k take such a token.
#include "kernels/common/numeric.cuh"
#include "kernels/support/args.h"

namespace warptune {

template <class T>
__global__ void __launch_bounds__(128) logits_check(LogitsCheckArgs args) {
  for (int b = threadIdx.x; b < args.batch; b += blockDim.x) {
    const int id = args.sampled[static_cast<long long>(b) * args.sampled_stride + args.step];
    if (id < 0) continue;  // the sequence had ended
    const T x = static_cast<const T*>(args.logits)[static_cast<long long>(b) * args.vocab + id];
    if (!isfinite(to_float(x)))
      atomicMin(args.first, static_cast<unsigned long long>(args.step) << 32 | static_cast<unsigned>(b));
  }
}

}  // namespace warptune
