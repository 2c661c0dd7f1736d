// What instructions beside mma.sync cost: warps multiply m16n8k16 into independent accumulators and issue
// some LOP3 after each and some ldmatrix before all of them. Prints a row of CSV for each: the cycles of an
// mma and its instructions on a scheduler. scripts/evidence/run.sh mma_slots runs it.
#include <cstdio>
#include <cstdlib>

#include "kernels/common/mma.cuh"

using namespace warptune;

constexpr int kSharedBytes = 64 << 10, kRounds = 2000;

template <int kAccumulators, int kLop3, int kLdmatrix>
__global__ void multiply(float* out, long long* cycles, unsigned seed) {
  extern __shared__ __align__(128) unsigned char memory[];
  for (unsigned i = threadIdx.x; i < kSharedBytes / 4; i += blockDim.x)
    reinterpret_cast<unsigned*>(memory)[i] = seed;
  __syncthreads();
  const unsigned from = shared_address(memory) + threadIdx.x % 32 * 16;
  float sum[kAccumulators][4] = {};
  const unsigned a[4] = {seed, seed + 1, seed + 2, seed + 3};
  unsigned r[8];
  for (int i = 0; i < 8; ++i) r[i] = seed * i;
  const long long start = clock64();
  for (int round = 0; round < kRounds; ++round) {
    unsigned b[4] = {seed, seed + 5, seed, seed + 5};
#pragma unroll
    for (int i = 0; i < kLdmatrix; ++i) ldmatrix_x4(b, from + i * 512);
#pragma unroll
    for (int n = 0; n < kAccumulators; ++n) {
      mma_m16n8k16<bf16>(sum[n], {a[0], a[1], a[2], a[3]}, b[n % 2 * 2], b[n % 2 * 2 + 1]);
#pragma unroll
      for (int i = 0; i < kLop3; ++i)
        asm volatile("lop3.b32 %0, %0, %1, 0x00f000f0, 0x6a;" : "+r"(r[(n + i) % 8]) : "r"(seed));
    }
  }
  const long long end = clock64();
  float result = 0;
  for (int n = 0; n < kAccumulators; ++n)
    for (const float s : sum[n]) result += s;
  for (const unsigned v : r) result += static_cast<float>(v);
  out[blockIdx.x * blockDim.x + threadIdx.x] = result;
  if (threadIdx.x == 0) cycles[blockIdx.x] = end - start;
}

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "mma_slots: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

template <int kAccumulators, int kLop3, int kLdmatrix>
void measure(int warps) {
  constexpr int kBlocks = 132;
  const auto kernel = multiply<kAccumulators, kLop3, kLdmatrix>;
  float* out;
  long long* cycles;
  check(cudaMalloc(&out, sizeof(float) * kBlocks * 32 * warps));
  check(cudaMallocManaged(&cycles, sizeof(long long) * kBlocks));
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  for (int i = 0; i < 3; ++i) kernel<<<kBlocks, 32 * warps, kSharedBytes>>>(out, cycles, 0);
  check(cudaDeviceSynchronize());
  std::printf("%d,%d,%d,%d,%.2f\n", warps, kAccumulators, kLop3, kLdmatrix,
              static_cast<double>(cycles[kBlocks / 2]) / kRounds / kAccumulators / (warps / 4.0));
  check(cudaFree(out));
  check(cudaFree(cycles));
}

int main() {
  std::printf("warps,accumulators,lop3_per_mma,ldmatrix_per_round,cycles\n");
  for (const int warps : {4, 8, 12, 16}) {
    measure<8, 0, 0>(warps);
    measure<16, 0, 0>(warps);
    measure<24, 0, 0>(warps);
  }
  for (const int warps : {4, 8, 12}) {
    measure<16, 1, 0>(warps);
    measure<16, 2, 0>(warps);
    measure<16, 3, 0>(warps);
    measure<16, 0, 4>(warps);
    measure<16, 2, 4>(warps);
    measure<24, 0, 4>(warps);
    measure<24, 2, 8>(warps);
    measure<24, 2, 4>(warps);
  }
}
