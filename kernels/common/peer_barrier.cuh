#pragma once
// Barrier between GPUs, by flags: the readable way to exchange data. A trip over NVLink for the flags comes
// before the trip for the data.
#include "kernels/common/numeric.cuh"
#include "kernels/common/peers.h"

namespace warptune {

__device__ __forceinline__ void store_release_sys(unsigned* p, unsigned x) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}
__device__ __forceinline__ unsigned load_acquire_sys(const unsigned* p) {
  unsigned x;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
  return x;
}

/// The workspace of a kernel whose blocks of one index meet once per launch across ranks: unsigned
/// flags[gridDim.x][kRanks], padded to 16 bytes, then two buffers of `buffer_bytes` (a multiple of 16), one
/// used by even launches, the other by odd ones. A rank that writes a buffer anew has met all ranks in the
/// launch between, so they have read it.
template <int kRanks>
class PeerBuffers {
 public:
  /// All threads of the block, after pdl_wait().
  __device__ __forceinline__ PeerBuffers(const Peers& peers, long long buffer_bytes) : peers_(peers) {
    launch_ = flags(peers.rank)[peers.rank] + 1;
    offset_ = (gridDim.x * kRanks + 3) / 4 * 16ll + launch_ % 2 * buffer_bytes;
  }

  /// The buffer of this launch of `rank`.
  template <class T>
  __device__ __forceinline__ T* of(int rank) const {
    return reinterpret_cast<T*>(static_cast<char*>(peers_.memory[rank]) + offset_);
  }

  /// Waits until the blocks of this index of all ranks have called it; makes visible what they have written.
  /// All threads of the block.
  __device__ __forceinline__ void barrier() const {
    __syncthreads();
    if (threadIdx.x < kRanks) {
      store_release_sys(flags(threadIdx.x) + peers_.rank, launch_);
      const unsigned* const flag = flags(peers_.rank) + threadIdx.x;
      while (static_cast<int>(load_acquire_sys(flag) - launch_) < 0) {  // a peer may be a launch ahead
      }
    }
    __syncthreads();
  }

 private:
  /// The flags of this block in the workspace of `rank`: the last launch in which each rank has met it.
  __device__ __forceinline__ unsigned* flags(int rank) const {
    return static_cast<unsigned*>(peers_.memory[rank]) + blockIdx.x * kRanks;
  }

  const Peers& peers_;
  unsigned launch_;
  long long offset_;
};

}  // namespace warptune
