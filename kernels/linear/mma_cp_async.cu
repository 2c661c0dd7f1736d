// Streaming tensor-core GEMM for 2 to 64 tokens (streaming_mma.cuh), weights and x by cp.async (sm_80).
// Loads: all lanes of four producer warps, 16 bytes each; consecutive lanes read consecutive columns. `in` is
//   a multiple of 8.
// kSplits blocks split K and add their sums in the workspace: with many tokens x is then read less often.
#include "kernels/linear/cp_async_loader.cuh"
#include "kernels/linear/streaming_mma.cuh"

namespace warptune {

template <class T, int kTokens, int kIn, int kOut, int kBias, int kPrologue, int kEpilogue, int kBlocksPerSm,
          int kWarpsM, int kWarpsK, int kRows, int kTileK, int kStages, int kResidentX, int kSplits,
          int kPartialOffset>
__global__ void __launch_bounds__(32 * kWarpsM * kWarpsK + kProducerThreads, kBlocksPerSm)
    linear_mma_cp_async(LinearArgsOf<kPrologue, kEpilogue> args) {
  using S = SkinnyGemm<T, kTokens, kIn, kOut, kBias, kPrologue, kEpilogue, kWarpsM, kWarpsK, kRows, kTileK,
                       kStages, kResidentX != 0, 1, kSplits>;
  [[maybe_unused]] static constexpr int kSharedBytes = S::kSharedBytes;
  extern __shared__ __align__(1024) unsigned char memory[];
  const SkinnyShared<S> shared{memory};
  if (threadIdx.x == 0) shared.init_barriers(kProducerThreads);
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.x) - S::kThreads;
  if (thread >= 0) {
    SkinnyProducer<S, CpAsyncLoader<S>>({args.weight, args.x, thread}, shared).load_rest();
  } else {
    consume<S, kPartialOffset>(args, shared);
  }
}

}  // namespace warptune
