// How fast a weight matrix streams to shared memory, by the kind and the shape of the copies. A block per SM
// fills a multistage pipeline and releases each stage as it arrives; nothing is computed. Launches follow
// each other with programmatic dependent launch, over matrices that no cache holds. The CSV goes to stdout:
// the median of 20 replays of a CUDA graph.
//   out, in: of the bf16 matrix; copies: bulk (cp.async.bulk), or tensor (TMA tiles, 128-byte swizzle)
//   rows: of a stage; bytes: of a row in a stage, of a copy where they are bulk; tiles are 128 bytes wide
//   padding: bytes between rows in shared memory; promotion: CUtensorMapL2promotion, in bytes
//   in_flight: KB of all stages
// Build and run: scripts/evidence/run.sh weight_stream
#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "kernels/common/pdl.cuh"
#include "kernels/common/tma.cuh"
#include "scripts/evidence/cuda_handles.cuh"

namespace warptune::evidence {
namespace {

constexpr int kMatrices = 12, kThreads = 64, kPanelBytes = 128;
constexpr long long kMemory = 4LL << 30;

struct Matrix {
  int out, in;
  long long row_bytes() const { return 2LL * in; }
  long long bytes() const { return out * row_bytes(); }
};
template <bool kTensor_, int kRows_, int kBytes_, int kStages_, int kPadding_ = 0, int kPromotion_ = 0>
struct Copies {
  static constexpr bool kTensor = kTensor_;
  static constexpr int kRows = kRows_, kBytes = kBytes_, kStages = kStages_, kPadding = kPadding_,
                       kPromotion = kPromotion_, kStageBytes = kRows * (kBytes + kPadding),
                       kSharedBytes = kStages * (kStageBytes + 2 * static_cast<int>(sizeof(Mbarrier)));
};
template <int kRows, int kBytes, int kStages, int kPadding = 0>
using Bulk = Copies<false, kRows, kBytes, kStages, kPadding>;
template <int kRows, int kBytes, int kStages, int kPromotion>
using Tensor = Copies<true, kRows, kBytes, kStages, 0, kPromotion>;

struct StreamArgs {
  TensorMap map;
  const char* weight;  // [out, row_bytes]
  int out, row_bytes;
};

/// Each block takes a contiguous range of row tiles.
template <class C>
__global__ void __launch_bounds__(kThreads) stream(const __grid_constant__ StreamArgs args) {
  constexpr int kStages = C::kStages, kRows = C::kRows, kBytes = C::kBytes;
  extern __shared__ __align__(1024) unsigned char shared[];
  Mbarrier* const full = reinterpret_cast<Mbarrier*>(shared + kStages * C::kStageBytes);
  Mbarrier* const empty = full + kStages;
  const int row_tiles = (args.out + kRows - 1) / kRows;
  const int first = static_cast<int>(static_cast<long long>(row_tiles) * blockIdx.x / gridDim.x),
            last = static_cast<int>(static_cast<long long>(row_tiles) * (blockIdx.x + 1) / gridDim.x),
            tiles = (last - first) * (args.row_bytes / kBytes);
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) mbarrier_init(full + s), mbarrier_init(empty + s);
    mbarrier_init_fence();
  }
  __syncthreads();
  int loaded = 0, stage = 0, row = first * kRows, column = 0;
  const auto load = [&] {
    unsigned char* const to = shared + stage * C::kStageBytes;
    mbarrier_arrive_expect_tx(full + stage, kRows * kBytes);
    if constexpr (C::kTensor) {
      const unsigned long long policy = l2_evict_first_policy();
#pragma unroll
      for (int panel = 0; panel < kBytes / kPanelBytes; ++panel)
        tma_load_2d(to + panel * kRows * kPanelBytes, args.map, (column + panel * kPanelBytes) / 2, row,
                    full + stage, policy);
    } else {
      const char* const from = args.weight + static_cast<long long>(row) * args.row_bytes + column;
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        bulk_copy_evict_first(to + r * (kBytes + C::kPadding),
                              from + static_cast<long long>(r) * args.row_bytes, kBytes, full + stage);
    }
    ++loaded;
    if (++stage == kStages) stage = 0;
    if ((column += kBytes) == args.row_bytes) column = 0, row += kRows;
  };
  if (threadIdx.x == 32)
    while (loaded < min(kStages, tiles)) load();
  pdl_launch_dependents();
  pdl_wait();
  if (threadIdx.x == 32) {
    for (unsigned phase = 0; loaded < tiles;) {
      mbarrier_wait(empty + stage, phase);
      load();
      if (stage == 0) phase ^= 1;
    }
  } else if (threadIdx.x == 0) {
    unsigned phase = 0;
    for (int tile = 0; tile < tiles; ++tile) {
      mbarrier_wait(full + stage, phase);
      mbarrier_arrive(empty + stage);
      if (++stage == kStages) stage = 0, phase ^= 1;
    }
  }
}

template <class C>
TensorMap encode(const char* base, const Matrix& matrix) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  CHECKED(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                           &found));
  const cuuint64_t dims[] = {static_cast<cuuint64_t>(matrix.in), static_cast<cuuint64_t>(matrix.out)},
                   strides[] = {static_cast<cuuint64_t>(matrix.row_bytes())};
  const cuuint32_t box[] = {kPanelBytes / 2, static_cast<cuuint32_t>(C::kRows)}, steps[] = {1, 1};
  const CUtensorMapL2promotion promotion = C::kPromotion == 256   ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B
                                           : C::kPromotion == 128 ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B
                                                                  : CU_TENSOR_MAP_L2_PROMOTION_NONE;
  CUtensorMap map;
  if (reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function)(
          &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<char*>(base), dims, strides, box, steps,
          CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, promotion,
          CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
    throw std::runtime_error("the driver rejects a tensor map");
  TensorMap opaque;
  static_assert(sizeof opaque == sizeof map);
  std::memcpy(&opaque, &map, sizeof map);
  return opaque;
}

template <class C>
void print_time(const char* memory, const Matrix& matrix) {
  const long long matrices = std::min<long long>(kMatrices, kMemory / matrix.bytes());
  const Stream to = make_stream();
  const CapturedGraph graph = capture(to.get(), [&] {
    for (long long i = 0; i < 2 * matrices; ++i) {
      const char* const weight = memory + i % matrices * matrix.bytes();
      launch_pdl(stream<C>,
                 StreamArgs{.map = C::kTensor ? encode<C>(weight, matrix) : TensorMap{},
                            .weight = weight,
                            .out = matrix.out,
                            .row_bytes = static_cast<int>(matrix.row_bytes())},
                 dim3(sm_count()), kThreads, C::kSharedBytes, to.get());
    }
  });
  const double us = median_us(graph, to.get()) / static_cast<double>(2 * matrices);
  std::printf("%d,%d,%s,%d,%d,%d,%d,%d,%.2f,%.0f\n", matrix.out, matrix.in, C::kTensor ? "tensor" : "bulk",
              C::kRows, C::kBytes, C::kPadding, C::kPromotion, C::kStages * C::kRows * C::kBytes >> 10, us,
              static_cast<double>(matrix.bytes()) / us * 1e-3);
  std::fflush(stdout);
}

template <class... C>
void print_times(const char* memory, const Matrix& matrix) {
  (print_time<C>(memory, matrix), ...);
}

int run() {
  const Device<char> memory = allocate<char>(kMemory);
  std::puts("out,in,copies,rows,bytes,padding,promotion,in_flight,us,gb_per_s");
  const Matrix gate_up{28672, 4096}, down{4096, 14336};  // of llama3-8b
  print_times<Bulk<8, 8192, 3>, Bulk<16, 4096, 3>, Bulk<16, 2048, 6>, Bulk<16, 1024, 12>, Bulk<16, 512, 24>>(
      memory.get(), gate_up);
  print_times<Bulk<16, 2048, 6, 16>, Bulk<16, 2048, 6, 64>, Bulk<16, 2048, 6, 128>>(memory.get(), gate_up);
  print_times<Bulk<16, 2048, 4>, Bulk<16, 2048, 3>, Bulk<16, 2048, 2>>(memory.get(), gate_up);
  print_times<Tensor<112, 128, 12, 0>, Tensor<112, 128, 12, 128>, Tensor<112, 128, 12, 256>,
              Tensor<64, 256, 12, 128>, Tensor<64, 256, 12, 256>>(memory.get(), gate_up);
  print_times<Bulk<16, 2048, 6>, Tensor<32, 256, 24, 128>, Tensor<32, 256, 24, 256>>(memory.get(), down);
  return 0;
}

}  // namespace
}  // namespace warptune::evidence

int main() { return warptune::evidence::run_program("weight_stream", warptune::evidence::run); }
