#pragma once
// wgmma.mma_async of a warpgroup (sm_90a): D[64 x kN] += A[64 x 16] * B[16 x kN], bf16 or fp16 inputs, or
// with e4m3 32 columns of A, fp32 accumulators in the registers of 128 threads. B lies in shared memory, A in
// shared memory or registers. A wgmma is asynchronous: between warpgroup_arrive() and warpgroup_wait()
// nothing may touch the accumulators or A. Function names are those of CUTLASS. PTX manual:
// "wgmma.mma_async", "setmaxnreg". On other architectures these do not assemble.
//
// Accumulator i of a thread: row 16 * warp + lane / 4 + 8 * (i / 2 % 2), column 8 * (i / 4) + 2 * (lane % 4)
// + i % 2. So two adjacent groups of four accumulators, as 16-bit pairs, are an A fragment over those
// columns.
#include "kernels/common/barrier.cuh"
#include "kernels/common/numeric.cuh"

/// Defined where wgmma exists, for kernels that choose between it and mma.sync.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define WARPTUNE_WGMMA 1
#endif

namespace warptune {

/// The descriptor of a matrix in shared memory without swizzle: 8x8 core matrices of 128 bytes, `leading` and
/// `stride` bytes apart.
__device__ __forceinline__ unsigned long long wgmma_descriptor(const void* shared, unsigned leading,
                                                               unsigned stride) {
  const unsigned long long address = shared_address(shared);
  return (address & 0x3ffff) >> 4 | static_cast<unsigned long long>(leading >> 4) << 16 |
         static_cast<unsigned long long>(stride >> 4) << 32;
}

/// The descriptor of a matrix of 16-bit elements in shared memory with the 128-byte swizzle of TMA: rows of
/// 64 elements (of 128 bytes of e4m3), 8 rows are 1024 bytes (the alignment). K-major (rows are M or N):
/// `leading` is unused, the next 16 elements of K are 32 bytes further. N-major (rows are K): `leading` bytes
/// to the next 64 elements of N, the next 16 rows are 2048 bytes further.
__device__ __forceinline__ unsigned long long wgmma_descriptor_swizzle_128b(unsigned address,
                                                                            unsigned leading = 16) {
  return static_cast<unsigned long long>(1u << 30 | 1024 >> 4) << 32 | leading >> 4 << 16 |
         (address & 0x3ffff) >> 4;
}
/// The descriptor of a K-major matrix of e4m3 with the 64-byte swizzle of TMA: rows of 64 bytes; 8 rows are
/// 512 bytes (the alignment), the next 8 rows are `stride` bytes further.
__device__ __forceinline__ unsigned long long wgmma_descriptor_swizzle_64b(unsigned address,
                                                                           unsigned stride) {
  return static_cast<unsigned long long>(2u << 30 | stride >> 4) << 32 | 1 << 16 | (address & 0x3ffff) >> 4;
}
/// The descriptor of the same matrix `bytes` (a multiple of 16) further.
__device__ __forceinline__ unsigned long long wgmma_descriptor_advance(unsigned long long descriptor,
                                                                       unsigned bytes) {
  return descriptor + (bytes >> 4);
}

__device__ __forceinline__ void warpgroup_arrive() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void warpgroup_commit_batch() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most kPending committed groups are in flight.
template <int kPending>
__device__ __forceinline__ void warpgroup_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// Keeps the compiler from moving uses of registers across: after warpgroup_wait() for results, before
/// warpgroup_arrive() for accumulators and A.
template <int kCount>
__device__ __forceinline__ void warpgroup_fence_operand(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i]));
}
template <int kCount>
__device__ __forceinline__ void warpgroup_fence_operand(unsigned (&a)[kCount][4]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) asm volatile("" : "+r"(a[i][j]));
}

/// setmaxnreg: moves registers between the warpgroups of a block. All warps of a warpgroup call one of them.
template <int kRegisters>
__device__ __forceinline__ void warpgroup_reg_dealloc() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void warpgroup_reg_alloc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// The accumulators of 16 * octets columns, 8 * octets per thread: as placeholders, and as operands.
#define WARPTUNE_D1 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WARPTUNE_D2 \
  WARPTUNE_D1       \
  ", "              \
  "%8, %9, %10, %11, %12, %13, %14, %15"
#define WARPTUNE_D3 \
  WARPTUNE_D2       \
  ", "              \
  "%16, %17, %18, %19, %20, %21, %22, %23"
#define WARPTUNE_D4 \
  WARPTUNE_D3       \
  ", "              \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define WARPTUNE_D5 \
  WARPTUNE_D4       \
  ", "              \
  "%32, %33, %34, %35, %36, %37, %38, %39"
#define WARPTUNE_D6 \
  WARPTUNE_D5       \
  ", "              \
  "%40, %41, %42, %43, %44, %45, %46, %47"
#define WARPTUNE_D7 \
  WARPTUNE_D6       \
  ", "              \
  "%48, %49, %50, %51, %52, %53, %54, %55"
#define WARPTUNE_D8 \
  WARPTUNE_D7       \
  ", "              \
  "%56, %57, %58, %59, %60, %61, %62, %63"
#define WARPTUNE_D9 \
  WARPTUNE_D8       \
  ", "              \
  "%64, %65, %66, %67, %68, %69, %70, %71"
#define WARPTUNE_D10 \
  WARPTUNE_D9        \
  ", "               \
  "%72, %73, %74, %75, %76, %77, %78, %79"
#define WARPTUNE_D11 \
  WARPTUNE_D10       \
  ", "               \
  "%80, %81, %82, %83, %84, %85, %86, %87"
#define WARPTUNE_D12 \
  WARPTUNE_D11       \
  ", "               \
  "%88, %89, %90, %91, %92, %93, %94, %95"
#define WARPTUNE_D13 \
  WARPTUNE_D12       \
  ", "               \
  "%96, %97, %98, %99, %100, %101, %102, %103"
#define WARPTUNE_D14 \
  WARPTUNE_D13       \
  ", "               \
  "%104, %105, %106, %107, %108, %109, %110, %111"
#define WARPTUNE_D15 \
  WARPTUNE_D14       \
  ", "               \
  "%112, %113, %114, %115, %116, %117, %118, %119"
#define WARPTUNE_D16 \
  WARPTUNE_D15       \
  ", "               \
  "%120, %121, %122, %123, %124, %125, %126, %127"
#define WARPTUNE_OCTET(i)                                                                     \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define WARPTUNE_R1 WARPTUNE_OCTET(0)
#define WARPTUNE_R2 WARPTUNE_R1, WARPTUNE_OCTET(8)
#define WARPTUNE_R3 WARPTUNE_R2, WARPTUNE_OCTET(16)
#define WARPTUNE_R4 WARPTUNE_R3, WARPTUNE_OCTET(24)
#define WARPTUNE_R5 WARPTUNE_R4, WARPTUNE_OCTET(32)
#define WARPTUNE_R6 WARPTUNE_R5, WARPTUNE_OCTET(40)
#define WARPTUNE_R7 WARPTUNE_R6, WARPTUNE_OCTET(48)
#define WARPTUNE_R8 WARPTUNE_R7, WARPTUNE_OCTET(56)
#define WARPTUNE_R9 WARPTUNE_R8, WARPTUNE_OCTET(64)
#define WARPTUNE_R10 WARPTUNE_R9, WARPTUNE_OCTET(72)
#define WARPTUNE_R11 WARPTUNE_R10, WARPTUNE_OCTET(80)
#define WARPTUNE_R12 WARPTUNE_R11, WARPTUNE_OCTET(88)
#define WARPTUNE_R13 WARPTUNE_R12, WARPTUNE_OCTET(96)
#define WARPTUNE_R14 WARPTUNE_R13, WARPTUNE_OCTET(104)
#define WARPTUNE_R15 WARPTUNE_R14, WARPTUNE_OCTET(112)
#define WARPTUNE_R16 WARPTUNE_R15, WARPTUNE_OCTET(120)

// One shape and one type. The operands after the accumulators: the descriptor of B, whether to accumulate,
// and A.
#define WARPTUNE_WGMMA_SHARED(n, octets, type, b, keep, a0, a1, a2, a3)                                \
  asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, %" #keep                                        \
               ", 0;\n"                                                                                \
               "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" WARPTUNE_D##octets \
               "}, %" #a0 ", %" #b ", keep, 1, 1, 0, 0;\n}\n"                                          \
               : WARPTUNE_R##octets                                                                    \
               : "l"(b_descriptor), "r"(int(accumulate)), "l"(a))
#define WARPTUNE_WGMMA_A_IN_REGISTERS(b_n_major, n, octets, type, b, keep, a0, a1, a2, a3)             \
  asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, %" #keep                                        \
               ", 0;\n"                                                                                \
               "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" WARPTUNE_D##octets \
               "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b ", keep, 1, 1, " b_n_major ";\n}\n" \
               : WARPTUNE_R##octets                                                                    \
               : "l"(b_descriptor), "r"(int(accumulate)), "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]))
#define WARPTUNE_WGMMA_B_N_MAJOR(...) WARPTUNE_WGMMA_A_IN_REGISTERS("1", __VA_ARGS__)
#define WARPTUNE_WGMMA_B_K_MAJOR(...) WARPTUNE_WGMMA_A_IN_REGISTERS("0", __VA_ARGS__)
#define WARPTUNE_WGMMA_E4M3_SHARED(n, octets, type, b, keep, a0, a1, a2, a3)                   \
  asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, %" #keep                                \
               ", 0;\n"                                                                        \
               "wgmma.mma_async.sync.aligned.m64n" #n "k32.f32.e4m3.e4m3 {" WARPTUNE_D##octets \
               "}, %" #a0 ", %" #b ", keep, 1, 1;\n}\n"                                        \
               : WARPTUNE_R##octets                                                            \
               : "l"(b_descriptor), "r"(int(accumulate)), "l"(a))
#define WARPTUNE_WGMMA_SHAPE(instruction, n, octets, ...) \
  if constexpr (kN == n) {                                \
    if constexpr (is_same<T, bf16>)                       \
      instruction(n, octets, "bf16", __VA_ARGS__);        \
    else                                                  \
      instruction(n, octets, "f16", __VA_ARGS__);         \
  }
#define WARPTUNE_WGMMA_SHAPES(instruction)                                 \
  WARPTUNE_WGMMA_SHAPE(instruction, 16, 1, 8, 9, 10, 11, 12, 13)           \
  WARPTUNE_WGMMA_SHAPE(instruction, 32, 2, 16, 17, 18, 19, 20, 21)         \
  WARPTUNE_WGMMA_SHAPE(instruction, 48, 3, 24, 25, 26, 27, 28, 29)         \
  WARPTUNE_WGMMA_SHAPE(instruction, 64, 4, 32, 33, 34, 35, 36, 37)         \
  WARPTUNE_WGMMA_SHAPE(instruction, 80, 5, 40, 41, 42, 43, 44, 45)         \
  WARPTUNE_WGMMA_SHAPE(instruction, 96, 6, 48, 49, 50, 51, 52, 53)         \
  WARPTUNE_WGMMA_SHAPE(instruction, 112, 7, 56, 57, 58, 59, 60, 61)        \
  WARPTUNE_WGMMA_SHAPE(instruction, 128, 8, 64, 65, 66, 67, 68, 69)        \
  WARPTUNE_WGMMA_SHAPE(instruction, 144, 9, 72, 73, 74, 75, 76, 77)        \
  WARPTUNE_WGMMA_SHAPE(instruction, 160, 10, 80, 81, 82, 83, 84, 85)       \
  WARPTUNE_WGMMA_SHAPE(instruction, 176, 11, 88, 89, 90, 91, 92, 93)       \
  WARPTUNE_WGMMA_SHAPE(instruction, 192, 12, 96, 97, 98, 99, 100, 101)     \
  WARPTUNE_WGMMA_SHAPE(instruction, 208, 13, 104, 105, 106, 107, 108, 109) \
  WARPTUNE_WGMMA_SHAPE(instruction, 224, 14, 112, 113, 114, 115, 116, 117) \
  WARPTUNE_WGMMA_SHAPE(instruction, 240, 15, 120, 121, 122, 123, 124, 125) \
  WARPTUNE_WGMMA_SHAPE(instruction, 256, 16, 128, 129, 130, 131, 132, 133)

/// d = a . b (+ d), both K-major in shared memory (descriptors).
template <class T, int kN>
__device__ __forceinline__ void wgmma(float (&d)[kN / 2], unsigned long long a,
                                      unsigned long long b_descriptor, bool accumulate) {
  static_assert(kN % 16 == 0 && kN <= 256);
  WARPTUNE_WGMMA_SHAPES(WARPTUNE_WGMMA_SHARED)
}

/// d = a . b (+ d), a in registers, b in shared memory, N-major or K-major.
template <class T, int kN, bool kNMajor = true>
__device__ __forceinline__ void wgmma(float (&d)[kN / 2], const unsigned (&a)[4],
                                      unsigned long long b_descriptor, bool accumulate) {
  static_assert(kN % 16 == 0 && kN <= 256);
  if constexpr (kNMajor) {
    WARPTUNE_WGMMA_SHAPES(WARPTUNE_WGMMA_B_N_MAJOR)
  } else {
    WARPTUNE_WGMMA_SHAPES(WARPTUNE_WGMMA_B_K_MAJOR)
  }
}

/// d = a . b (+ d) of e4m3, both K-major in shared memory (descriptors), in any order of columns that both
/// have; 32 columns. The tensor cores add products to about 14 bits, so long sums are begun anew after some
/// columns and added in fp32 (DeepSeek-V3 technical report).
template <int kN>
__device__ __forceinline__ void wgmma_e4m3(float (&d)[kN / 2], unsigned long long a,
                                           unsigned long long b_descriptor, bool accumulate) {
  using T = bf16;  // the macro chooses by T, but the instruction has its own types
  static_assert(kN % 16 == 0 && kN <= 256);
  WARPTUNE_WGMMA_SHAPES(WARPTUNE_WGMMA_E4M3_SHARED)
}

}  // namespace warptune
