// Streaming tensor-core GEMM for 2 to 64 tokens (streaming_mma.cuh), weights and x by cp.async (sm_80).
// Loads: all lanes of four producer warps, 16 bytes each; consecutive lanes read consecutive columns. `in` is
//   a multiple of 8.
// kSplits blocks split K and add their sums in the workspace: with many tokens x is then read less often.
#include "kernels/common/vec.cuh"
#include "kernels/linear/streaming_mma.cuh"

namespace warptune {

/// Loads by kProducerThreads threads. Each of them arrives once at the full barrier of a stage.
template <class S>
struct CpAsyncLoader {
  const void *weight, *x;
  int thread;

  __device__ __forceinline__ void expect(Mbarrier*, int, bool) const {}
  __device__ __forceinline__ void load_weights(unsigned char* to, int first, int outputs, int step,
                                               Mbarrier*) const {
    load_slots<S::kSlotsOfUnit>(to, S::kSlotBytes, 1024, weight, first, outputs, step);
  }
  __device__ __forceinline__ void load_x(unsigned char* to, int step, Mbarrier*) const {
    load_slots<1>(to, 1024, S::kXColumnTileBytes, x, 0, S::kTokens, step);
  }
  __device__ __forceinline__ void commit(Mbarrier* full) const { cp_async_mbarrier_arrive(full); }

 private:
  /// Copies the columns of a step of `rows` rows from row `first` of `from`, in slots of 8 rows that end with
  /// zeros. kSlotsOfUnit slots have the same rows, each of a matrix of kOut rows. `slot_bytes` lie between
  /// slots, `column_tile_bytes` between 64 columns. A thread has the same 8 columns of every row that it
  /// copies: its addresses differ by constants.
  template <int kSlotsOfUnit>
  __device__ __forceinline__ void load_slots(unsigned char* to, int slot_bytes, int column_tile_bytes,
                                             const void* from, int first, int rows, int step) const {
    constexpr int kVectors = S::kTileK / 8;  // of a row
    constexpr int kRowsAtOnce = kProducerThreads / kVectors, kSlotsAtOnce = max_of(1, kRowsAtOnce / 8);
    const int vector = thread % kVectors, row = thread / kVectors % 8, k = step * S::kTileK + vector * 8;
    const bool in_row = S::kSteps * S::kTileK == S::kIn || k < S::kIn;
    const auto* const base = static_cast<const typename S::T*>(from);
    const int at = vector / 8 * column_tile_bytes + row * 128 + (vector % 8 ^ row) * 16;
    const int slots = ceil_div(rows, 8) * kSlotsOfUnit;
#pragma unroll 4
    for (int slot = thread / kVectors / 8; slot < slots; slot += kSlotsAtOnce) {
      const int first_row = slot / kSlotsOfUnit * 8 + row;
      const auto* const source =
          base + static_cast<long long>(first + first_row + slot % kSlotsOfUnit * S::kOut) * S::kIn + k;
#pragma unroll
      for (int i = 0; i < 8; i += kRowsAtOnce) {
        const bool valid = in_row && first_row + i < rows;
        cp_async_16(to + slot * slot_bytes + (at ^ i * 16) + i * 128, valid ? source + i * S::kIn : base,
                    valid);
      }
    }
  }
};

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
