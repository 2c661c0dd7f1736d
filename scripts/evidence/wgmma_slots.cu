// What a scheduler issues beside wgmma: two warpgroups multiply without a pause, one or two others repeat one
// instruction. Prints a row of CSV for each: instructions per cycle and scheduler alone and beside wgmma, and
// the cycles of a wgmma beside them. scripts/evidence/run.sh wgmma_slots runs it.
#include <cstdio>
#include <cstdlib>

#include "kernels/common/wgmma.cuh"

using namespace warptune;

enum Instruction { kLop3, kShf, kPrmt, kIadd, kHfma2, kHmul2, kImad, kFfma, kFmul, kFadd };
constexpr const char* kNames[] = {"LOP3",  "SHF",  "PRMT", "IADD", "HFMA2.BF16",
                                  "HMUL2", "IMAD", "FFMA", "FMUL", "FADD"};
constexpr int kRegisters = 16, kRepeats = 8, kBatch = 8, kSharedBytes = 64 << 10;

/// Sixteen independent instructions.
template <Instruction kInstruction>
__device__ __forceinline__ void issue(unsigned (&r)[kRegisters], float (&f)[kRegisters], unsigned seed) {
#pragma unroll
  for (int i = 0; i < kRegisters; ++i) {
    unsigned& a = r[i];
    const unsigned b = r[(i + 7) % kRegisters], c = r[(i + 11) % kRegisters];
    float& x = f[i];
    const float y = f[(i + 7) % kRegisters], z = f[(i + 11) % kRegisters];
    if constexpr (kInstruction == kLop3)
      asm volatile("lop3.b32 %0, %0, %1, %2, 0x6a;" : "+r"(a) : "r"(seed), "r"(b));
    if constexpr (kInstruction == kShf) asm volatile("shf.l.wrap.b32 %0, %0, %1, 3;" : "+r"(a) : "r"(b));
    if constexpr (kInstruction == kPrmt) asm volatile("prmt.b32 %0, %0, %1, 0x5140;" : "+r"(a) : "r"(b));
    if constexpr (kInstruction == kIadd) asm volatile("add.u32 %0, %0, %1;" : "+r"(a) : "r"(b));
    if constexpr (kInstruction == kHfma2)
      asm volatile("fma.rn.bf16x2 %0, %0, %1, %2;" : "+r"(a) : "r"(b), "r"(c));
    if constexpr (kInstruction == kHmul2) asm volatile("mul.rn.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(seed));
    if constexpr (kInstruction == kImad)
      asm volatile("mad.lo.u32 %0, %0, %1, %2;" : "+r"(a) : "r"(b), "r"(c));
    if constexpr (kInstruction == kFfma)
      asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(y), "f"(z));
    if constexpr (kInstruction == kFmul) asm volatile("mul.f32 %0, %0, 0f3f800100;" : "+f"(x));
    if constexpr (kInstruction == kFadd) asm volatile("add.f32 %0, %0, %1;" : "+f"(x) : "f"(y));
  }
}

/// Warpgroups 0 and 1 issue `batches` of kBatch wgmma m64nNk16, A in registers or shared memory; kWarpgroups
/// others repeat the instruction. cycles: of warpgroup 0, and of warpgroup 2.
template <Instruction kInstruction, int kN, bool kSharedA, int kWarpgroups>
__global__ void __launch_bounds__(128 * (2 + kWarpgroups), 1)
    contend(int batches, int repeats, unsigned seed, float* out, long long* cycles) {
  extern __shared__ __align__(1024) unsigned char memory[];
  for (unsigned i = threadIdx.x; i < kSharedBytes / 4; i += blockDim.x)
    reinterpret_cast<unsigned*>(memory)[i] = 0x3c003c00u + (i * 2654435761u >> 20 & 0x00ff00ffu);
  fence_proxy_async();
  __syncthreads();
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
  float result = 0;
  const long long start = clock64();
  if (warpgroup < 2) {
    const unsigned b = shared_address(memory), a = b + kSharedBytes / 2;
    float sum[kN / 2] = {};
    unsigned fragments[kBatch][4];
    for (int i = 0; i < 4 * kBatch; ++i) fragments[i / 4][i % 4] = 0x3c003c00u + threadIdx.x * 7 + i;
    for (int batch = 0; batch < batches; ++batch) {
      warpgroup_fence_operand(sum);
      warpgroup_fence_operand(fragments);
      warpgroup_arrive();
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const unsigned at = i / 4 * 8192 + i % 4 * 32;
        if constexpr (kSharedA)
          wgmma<bf16, kN>(sum, wgmma_descriptor_swizzle_128b(a + at), wgmma_descriptor_swizzle_128b(b + at),
                          true);
        else
          wgmma<bf16, kN, false>(sum, fragments[i], wgmma_descriptor_swizzle_128b(b + at), true);
      }
      warpgroup_commit_batch();
    }
    warpgroup_wait<0>();
    warpgroup_fence_operand(sum);
    for (const float s : sum) result += s;
  } else {
    unsigned r[kRegisters];
    float f[kRegisters];
    for (int i = 0; i < kRegisters; ++i) f[i] = r[i] = seed * i + threadIdx.x;
    for (int n = 0; n < repeats; ++n)
#pragma unroll
      for (int i = 0; i < kRepeats; ++i) issue<kInstruction>(r, f, seed);
    for (int i = 0; i < kRegisters; ++i) result += f[i] + __uint_as_float(r[i]);
  }
  const long long end = clock64();
  out[blockIdx.x * blockDim.x + threadIdx.x] = result;
  if (blockIdx.x == 0 && threadIdx.x == 0) cycles[0] = end - start;
  if (blockIdx.x == 0 && threadIdx.x == 256) cycles[1] = end - start;
}

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "wgmma_slots: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

template <Instruction kInstruction, int kN, bool kSharedA, int kWarpgroups>
void measure(float* out, long long* cycles) {
  const auto kernel = contend<kInstruction, kN, kSharedA, kWarpgroups>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  long long seen[2];
  const auto run = [&](int batches, int repeats) {
    for (int warm = 0; warm < 2; ++warm)
      kernel<<<132, 128 * (2 + kWarpgroups), kSharedBytes>>>(batches, repeats, 12345, out, cycles);
    check(cudaMemcpy(seen, cycles, sizeof seen, cudaMemcpyDeviceToHost));
  };
  constexpr int kFew = 100, kMany = 4000;  // the others end long after
  constexpr double kInstructions = static_cast<double>(kWarpgroups) * kRegisters * kRepeats * kFew;
  run(0, kFew);
  const double alone = kInstructions / seen[1];
  run(kMany, kFew);
  const double beside = kInstructions / seen[1];
  run(kFew, kMany);
  std::printf("%d,%s,%s,%d,%.3f,%.3f,%.1f\n", kN, kSharedA ? "shared" : "registers", kNames[kInstruction],
              kWarpgroups, alone, beside, seen[0] / (2.0 * kBatch * kFew));
}

template <Instruction... kInstructions>
void measure_all(float* out, long long* cycles) {
  (measure<kInstructions, 64, false, 1>(out, cycles), ...);
  (measure<kInstructions, 64, false, 2>(out, cycles), ...);
}

int main() {
  float* out;
  long long* cycles;
  check(cudaMalloc(&out, 132 * 512 * sizeof(float)));
  check(cudaMalloc(&cycles, 2 * sizeof(long long)));
  std::puts("n,a,instruction,warps,alone_per_cycle,beside_per_cycle,wgmma_cycles");
  measure_all<kLop3, kShf, kPrmt, kIadd, kHfma2, kHmul2, kImad, kFfma, kFmul, kFadd>(out, cycles);
  measure<kLop3, 64, true, 2>(out, cycles);
  measure<kHfma2, 64, true, 2>(out, cycles);
  measure<kLop3, 16, false, 2>(out, cycles);
  measure<kHfma2, 16, false, 2>(out, cycles);
  measure<kLop3, 32, false, 2>(out, cycles);
  measure<kLop3, 128, false, 2>(out, cycles);
  measure<kHfma2, 128, false, 2>(out, cycles);
}
