#pragma once
// Barriers: named barriers of a block, mbarriers in shared memory (sm_80; counts of bytes: sm_90), and the
// last-block test of a grid. PTX manual: "bar", "mbarrier", "atom". What is used on an architecture before
// its own does not assemble.
#include "kernels/common/cp_async.cuh"

namespace warptune {

// Named barriers.

/// Barrier 0 of the first kThreads threads of a block. A block uses one such number; its other threads meet
/// no barrier 0 after the first __syncthreads().
template <int kThreads>
__device__ __forceinline__ void named_barrier_sync() {
  asm volatile("bar.sync 0, %0;" ::"n"(kThreads) : "memory");
}

/// The same barrier; returns whether `flag` is true in any of its threads.
template <int kThreads>
__device__ __forceinline__ bool named_barrier_or(bool flag) {
  int any;
  asm volatile(
      "{\n"
      ".reg .pred in, out;\n"
      "setp.ne.s32 in, %1, 0;\n"
      "bar.red.or.pred out, 0, %2, in;\n"
      "selp.s32 %0, 1, 0, out;\n"
      "}\n"
      : "=r"(any)
      : "r"(static_cast<int>(flag)), "n"(kThreads)
      : "memory");
  return any != 0;
}

/// Barrier `number` (1 to 15; 0 is __syncthreads) of `threads` threads of the block.
__device__ __forceinline__ void named_barrier_sync(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
/// Arrives at a named barrier without waiting.
__device__ __forceinline__ void named_barrier_arrive(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// Mbarriers: a full barrier counts the bytes of asynchronous copies, an empty barrier counts arrivals.

using Mbarrier = unsigned long long;

/// One thread initializes a barrier whose phase has one arrival; then mbarrier_init_fence() and a barrier
/// before others use it.
__device__ __forceinline__ void mbarrier_init(Mbarrier* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
}
/// The same for a phase of `arrivals`.
__device__ __forceinline__ void mbarrier_init(Mbarrier* barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
               : "memory");
}
/// Makes initialized barriers visible to asynchronous copies.
__device__ __forceinline__ void mbarrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Arrives once all cp.async of this thread so far have completed. The phase counts it as an arrival.
__device__ __forceinline__ void cp_async_mbarrier_arrive(Mbarrier* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

/// Arrives, and adds `bytes` of copies to what completes the phase. One thread.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(Mbarrier* barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void mbarrier_arrive(Mbarrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

/// Waits for the end of the phase of parity `parity` (0 for the first phase). All threads that will read.
__device__ __forceinline__ void mbarrier_wait(Mbarrier* barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
#if __CUDA_ARCH__ >= 900
      "WAIT_%=: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
#else  // polls; try_wait suspends the thread
      "WAIT_%=: mbarrier.test_wait.parity.shared::cta.b64 done, [%0], %1;\n"
#endif
      "@!done bra WAIT_%=;\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

/// As mbarrier_wait(), for warps that wait beside others that compute. Before sm_90 a wait polls, which takes
/// issue slots of the scheduler: here with pauses of about kNanoseconds.
template <int kNanoseconds>
__device__ __forceinline__ void mbarrier_wait_paused(Mbarrier* barrier, unsigned parity) {
#if __CUDA_ARCH__ >= 900
  mbarrier_wait(barrier, parity);
#else
  while (true) {
    unsigned done;
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, done;\n"
        "}\n"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
    if (done != 0) return;
    __nanosleep(kNanoseconds);
  }
#endif
}

/// Orders the ordinary accesses of this thread to shared memory with accesses of the async proxy (bulk
/// copies, TMA, wgmma) that follow a barrier: its writes come before reads of the async proxy, its reads and
/// writes before writes of the async proxy. Without a proxy fence accesses by two proxies have no order (PTX
/// manual, "Async Proxy" and 8.9.5 "Causality Order"). The fence may be anywhere on the path between them:
/// before copies overwrite a stage, the producer's after it has waited costs less than one of each consumer.
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Last-block reduction (as the CUDA sample threadFenceReduction): every block writes its partial result, and
// the block that arrives last combines them.

/// Adds 1 with acquire and release semantics at GPU scope; returns the value before.
__device__ __forceinline__ unsigned atomic_increment_acq_rel(unsigned* counter) {
  unsigned before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}

/// True in the first kBlock threads of the last of `blocks` blocks to call this; that block sees what the
/// others wrote before. Resets the counter to 0. One thread of a block synchronizes: a __threadfence() in
/// every thread costs 0.6 us more.
template <int kBlock>
__device__ __forceinline__ bool is_last_block(unsigned* counter, int blocks) {
  named_barrier_sync<kBlock>();
  bool last = false;
  if (threadIdx.x == 0) {
    last = atomic_increment_acq_rel(counter) == static_cast<unsigned>(blocks - 1);
    if (last) *counter = 0;
  }
  return named_barrier_or<kBlock>(last);
}

}  // namespace warptune
