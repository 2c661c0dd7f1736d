#pragma once
// How the blocks of persistent_step.cuh exchange outputs: flag-in-data packets of 32 bits (the LL protocol of
// NCCL), value in the high half, tag in the low half. And waits that give up after a second.
#include "kernels/common/special_registers.cuh"
#include "scripts/evidence/persistent_step_program.cuh"

namespace warptune::persistent {

/// Ends the kernel with an error when a wait takes longer than a second.
struct Watchdog {
  unsigned* stuck;  // [blocks, warps]
  unsigned place;
  unsigned spins = 0;
  long long start = 0;
  __device__ __forceinline__ void spin() {
    if (++spins % 1024 != 0) return;
    const long long now = global_timer_ns();
    if (start == 0) start = now;
    if (now - start > 1'000'000'000) {
      reinterpret_cast<volatile unsigned*>(stuck)[(blockIdx.x * kThreads + threadIdx.x) / 32] = place;
      __threadfence_system();
      __trap();
    }
  }
};

__device__ __forceinline__ void wait(Mbarrier* barrier, unsigned parity, Watchdog dog) {
  for (;; dog.spin()) {
    unsigned done;
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
    if (done) return;
  }
}

/// What a wait is for, as Watchdog reports it.
__device__ __forceinline__ unsigned place(unsigned what, const Instruction& i) {
  return what << 24 | static_cast<unsigned>(i.op) << 16 | static_cast<unsigned>(i.layer + 1);
}

__device__ __forceinline__ unsigned packet(float value, unsigned tag) {
  return static_cast<unsigned>(from_float<bf16>(value).bits) << 16 | tag;
}
__device__ __forceinline__ float value_of(unsigned packet) { return __uint_as_float(packet & 0xffff0000u); }
/// The values of two packets, `low` in the low half.
__device__ __forceinline__ unsigned values_of(unsigned low, unsigned high) {
  return __byte_perm(low, high, 0x7632);
}
__device__ __forceinline__ void send(unsigned* slot, unsigned packet) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(slot), "r"(packet) : "memory");
}
__device__ __forceinline__ unsigned peek(const unsigned* slot) {
  unsigned p;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(p) : "l"(slot) : "memory");
  return p;
}
__device__ __forceinline__ unsigned long long peek(const unsigned long long* slot) {
  unsigned long long p;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(p) : "l"(slot) : "memory");
  return p;
}
__device__ __forceinline__ uint4 peek4(const unsigned* slot) {
  uint4 p;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(p.x), "=r"(p.y), "=r"(p.z), "=r"(p.w)
               : "l"(slot)
               : "memory");
  return p;
}
__device__ __forceinline__ bool has_tag(const uint4& p, unsigned tag) {
  return (((p.x ^ tag) | (p.y ^ tag) | (p.z ^ tag) | (p.w ^ tag)) & 0xffffu) == 0;
}

}  // namespace warptune::persistent
