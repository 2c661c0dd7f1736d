// Streaming tensor-core GEMM for 2 to 64 tokens (streaming_mma.cuh), weights and x by cp.async (sm_80).
// Loads: all lanes of four producer warps, 16 bytes each; consecutive lanes read consecutive columns. `in` is
//   a multiple of 8.
#include "kernels/common/vec.cuh"
#include "kernels/linear/streaming_mma.cuh"

namespace warptune {

inline constexpr int kProducerThreads = 128;

/// Loads by kProducerThreads threads. Each of them arrives once at the full barrier of a stage.
template <class S>
struct CpAsyncLoader {
  const void *weight, *x;
  int thread;

  __device__ __forceinline__ void expect(Mbarrier*, int, bool) const {}
  __device__ __forceinline__ void load_weights(unsigned char* to, int first, int outputs, int step,
                                               Mbarrier*) const {
    load_rows(to, S::kSlotBytes, 1024, weight, ceil_div(outputs, 8) * S::kSlotsOfUnit * 8, step,
              [=](int row) {
                const int slot = row / 8,
                          half = slot % S::kSlotsOfUnit;  // with SwiGLU: gate rows, then their up rows
                const int output = slot / S::kSlotsOfUnit * 8 + row % 8;
                return output < outputs ? first + output + half * S::kOut : -1;
              });
  }
  __device__ __forceinline__ void load_x(unsigned char* to, int step, Mbarrier*) const {
    load_rows(to, 1024, S::kXColumnTileBytes, x, S::kPaddedTokens, step,
              [](int row) { return row < S::kTokens ? row : -1; });
  }
  __device__ __forceinline__ void commit(Mbarrier* full) const { cp_async_mbarrier_arrive(full); }

 private:
  /// Copies the columns of a step of `rows` rows, row r from row source_row(r) of `from`, zeros where that is
  /// negative. `slot_bytes` lie between 8 rows, `column_tile_bytes` between 64 columns.
  template <class SourceRow>
  __device__ __forceinline__ void load_rows(unsigned char* to, int slot_bytes, int column_tile_bytes,
                                            const void* from, int rows, int step,
                                            const SourceRow& source_row) const {
    constexpr int kVectors = S::kTileK / 8;  // of a row
    for (int i = thread; i < rows * kVectors; i += kProducerThreads) {
      const int row = i / kVectors, vector = i % kVectors, k = step * S::kTileK + vector * 8;
      const int source = source_row(row);
      const bool valid = source >= 0 && k < S::kIn;
      cp_async_16(
          to + row / 8 * slot_bytes + vector / 8 * column_tile_bytes + row % 8 * 128 +
              (vector % 8 ^ row % 8) * 16,
          static_cast<const typename S::T*>(from) + (valid ? static_cast<long long>(source) * S::kIn + k : 0),
          valid);
    }
  }
};

template <class T, int kTokens, int kIn, int kOut, int kBias, int kPrologue, int kEpilogue, int kBlocksPerSm,
          int kWarpsM, int kWarpsK, int kRows, int kTileK, int kStages, int kResidentX>
__global__ void __launch_bounds__(32 * kWarpsM * kWarpsK + kProducerThreads, kBlocksPerSm)
    linear_mma_cp_async(LinearArgsOf<kPrologue, kEpilogue> args) {
  using S = SkinnyGemm<T, kTokens, kIn, kOut, kBias, kPrologue, kEpilogue, kWarpsM, kWarpsK, kRows, kTileK,
                       kStages, kResidentX != 0, 1>;
  [[maybe_unused]] static constexpr int kSharedBytes = S::kSharedBytes;
  extern __shared__ __align__(1024) unsigned char memory[];
  const SkinnyShared<S> shared{memory};
  if (threadIdx.x == 0) shared.init_barriers(kProducerThreads);
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.x) - S::kThreads;
  if (thread >= 0)
    SkinnyProducer<S, CpAsyncLoader<S>>({args.weight, args.x, thread}, shared).load_rest();
  else
    consume<S>(args, shared);
}

}  // namespace warptune
