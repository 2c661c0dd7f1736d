// Persistent fp8 GEMM on Hopper (TMA, wgmma, sm_90a), for prompts: fp8 weights as they are packed
// (packed_weights.h), activations quantized per token to e4m3.
// quantize_rows.cu runs first. Weight rows are the M operand of wgmma (m64nNk32), in registers; tokens are N,
//   in shared memory.
// Grid: one persistent block per SM. A work tile is kRows weight rows x kN tokens; the blocks of a cluster
//   take adjacent token tiles of the same rows, and each loads a part of the weights for all.
// Roles: one thread of the producer warpgroup issues all TMA loads; two consumer warpgroups compute half of
//   the rows each (streaming_wgmma.cuh). setmaxnreg gives them its registers.
// Pipeline: kStages stages of 128 columns, x with the 128-byte swizzle, which run on across work tiles.
// Arithmetic: the tensor cores add 128 columns of an m64 tile (wgmma_e4m3 has about 14 bits). Those sums are
//   added in fp32, times the scale of a block of 128 x 128 where weights have such, while the other warpgroup
//   multiplies. Scales of rows and tokens multiply the sums at the end.
// PDL: the weights of the first stages are loaded while the rows are quantized.
// Wins: prompts, wherever the activations may be quantized.
// `in` is a multiple of 128, `out` of 8. Source: DeepGEMM (DeepSeek) and CUTLASS, fp8 GEMM of sm_90.
#include "kernels/linear/packed_weights.cuh"
#include "kernels/linear/quantized_rows.cuh"
#include "kernels/linear/streaming_wgmma.cuh"

namespace warptune {

template <class S>
class Fp8Mainloop;
template <class S>
struct Fp8Schedule;

template <class T_, int kIn_, int kOut_, int kBias_, int kEpilogue_, int kGroup_, int kN_, int kRows_,
          int kStages_, int kCluster_>
struct Fp8Wgmma {
  using Mainloop = Fp8Mainloop<Fp8Wgmma>;
  using Schedule = Fp8Schedule<Fp8Wgmma>;
  using T = T_;
  using Args = QuantizedLinearArgs;
  using State = PipelineState<kStages_>;
  static constexpr int kTokens = 0, kIn = kIn_, kOut = kOut_, kBias = kBias_, kEpilogue = kEpilogue_,
                       kGroup = kGroup_, kN = kN_, kRows = kRows_, kTileK = 128, kStages = kStages_,
                       kWarpgroups = 2, kClusterM = kCluster_, kSteps = kIn / kTileK;
  static constexpr bool kRmsScale = false, kScalesTokens = true, kSwiglu = kEpilogue == kEpilogueSwiglu,
                        kAdd = kAddsResidual<kEpilogue>, kAddRms = false, kArgmax = false;
  static constexpr int kMatrices = kSwiglu ? 2 : 1;              // gate and up
  static constexpr int kOutputs = kRows / kMatrices;             // per work tile
  static constexpr int kSubtiles = kOutputs / 64 / kWarpgroups;  // per warpgroup and matrix
  static constexpr int kConsumers = 128 * kWarpgroups, kThreads = kConsumers + 128;
  static constexpr int kSlots = kRows / kBlockRows, kTileBlocks = 2, kSlotBytes = kTileBlocks * kBlockBytes;
  static constexpr int kXOffset = 0, kWeightOffset = kN * 128,
                       kStageBytes = kWeightOffset + kSlots * kSlotBytes;

  static_assert(kOutputs % (64 * kWarpgroups) == 0 && kIn % kTileK == 0 && kOut % 8 == 0);
  static_assert(kN % 16 == 0 && kClusterM <= 2);

  static __device__ __forceinline__ const float* token_scales(const Args& args, int first_token) {
    return quantized_scales(args, kIn) + first_token;
  }

  struct Storage {
    unsigned char stages[kStages * kStageBytes];
    Mbarrier full[kStages], empty[kStages];
  };
};

/// Work tiles along the tokens first.
template <class S>
struct Fp8Schedule {
  static constexpr int kRowTiles = ceil_div(S::kOut, S::kOutputs), rank_k = 0;
  const int token_clusters, rank;
  int index, tile = 0;

  __device__ __forceinline__ explicit Fp8Schedule(int tokens)
      : token_clusters(ceil_div(tokens, S::kN * S::kClusterM)),
        rank(blockIdx.x % S::kClusterM),
        index(blockIdx.x / S::kClusterM),
        tile(index / token_clusters) {}
  __device__ __forceinline__ bool has_work() const { return tile < kRowTiles; }
  __device__ __forceinline__ void advance() {
    index += static_cast<int>(gridDim.x) / S::kClusterM;
    tile = index / token_clusters;
  }
  __device__ __forceinline__ int first_token() const {
    return ((index - tile * token_clusters) * S::kClusterM + rank) * S::kN;
  }
};

/// One thread.
template <class S>
struct Fp8Producer {
  const TensorMap &weight_map, &x_map;
  typename S::Storage& shared;
  typename S::Schedule work;
  typename S::State state;

  /// Begins a stage and loads this block's part of its weights.
  __device__ __forceinline__ void load_weight(int step) {
    constexpr int kHalf = S::kSlots / 2;
    Mbarrier* const full = &shared.full[state.index];
    mbarrier_wait(&shared.empty[state.index], state.phase ^ 1);
    mbarrier_arrive_expect_tx(full, S::kStageBytes);
    const int line = step * (S::kSlotBytes / 128);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      unsigned char* const to =
          shared.stages + state.index * S::kStageBytes + S::kWeightOffset + half * kHalf * S::kSlotBytes;
      const int slot = S::kSwiglu ? work.tile * kHalf + half * (S::kOut / kBlockRows)
                                  : work.tile * S::kSlots + half * kHalf;
      if constexpr (S::kClusterM == 1)
        tma_load_3d(to, weight_map, 0, line, slot, full);
      else if (half == work.rank)
        tma_load_3d_multicast(to, weight_map, 0, line, slot, full, 3);
    }
  }
  __device__ __forceinline__ void load_x(int step) {
    tma_load_2d(shared.stages + state.index * S::kStageBytes + S::kXOffset, x_map, step * S::kTileK / 2,
                work.first_token(), &shared.full[state.index]);
    state.advance();
  }
  __device__ __forceinline__ void run() {
    constexpr int kFirst = min_of(S::kStages, S::kSteps);
    const auto first = state;
    for (int step = 0; step < kFirst; ++step, state.advance()) load_weight(step);
    pdl_wait();
    state = first;
    for (int step = 0; step < kFirst; ++step) load_x(step);
    for (int step = kFirst;; step = 0) {
      for (; step < S::kSteps; ++step) {
        load_weight(step);
        load_x(step);
      }
      work.advance();
      if (!work.has_work()) return;
    }
  }
};

/// The main loop of a consumer warpgroup. A warp has row lane / 4 of two slots of each m64 tile.
template <class S>
class Fp8Mainloop {
 public:
  /// Returns the last stage, which is not released.
  static __device__ __forceinline__ int run(StreamingConsumer<S>& consumer, const QuantizedLinearArgs& args) {
    return Fp8Mainloop(consumer, args).run();
  }

 private:
  static constexpr int kTiles = S::kMatrices * S::kSubtiles;  // m64 tiles
  /// The scales of a lane's rows, or those of the blocks that they are in.
  struct Scales {
    float values[kTiles][2];
  };

  __device__ __forceinline__ Fp8Mainloop(StreamingConsumer<S>& consumer, const QuantizedLinearArgs& args)
      : consumer_(consumer), args_(args) {}

  __device__ __forceinline__ int run() {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int i = 0; i < S::kN / 2; ++i) sum_of(tile)[i] = 0;
    Scales scales;
    load_scales(scales, 0);
    int last = 0;
    for (int step = 0; step < S::kSteps; ++step) last = multiply_stage(step, scales);
    if constexpr (S::kGroup == 0)
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
        for (int i = 0; i < S::kN / 2; ++i) sum_of(tile)[i] *= scales.values[tile][i / 2 % 2];
    return last;
  }
  __device__ __forceinline__ float (&sum_of(int tile))[S::kN / 2] {
    return consumer_.sum[tile / S::kSubtiles][tile % S::kSubtiles];
  }
  __device__ __forceinline__ void load_scales(Scales& to, int column) const {
#pragma unroll
    for (int i = 0; i < kTiles * 2; ++i) {
      const int tile = i / 2, output = consumer_.work.tile * S::kOutputs +
                                       consumer_.first_output(tile % S::kSubtiles) + i % 2 * 8 +
                                       consumer_.lane / 4;
      const long long row = tile / S::kSubtiles * S::kOut + min_of(output, S::kOut - 1);
      to.values[tile][i % 2] = weight_scale<S::kIn, kWeightsFp8, S::kGroup>(args_.scales, row, column);
    }
  }
  /// The operands of an m64 tile of a stage, each of 32 columns.
  __device__ __forceinline__ void load_operands(unsigned (&a)[4][4], const unsigned char* stage,
                                                int tile) const {
    constexpr int kMatrixSlots = S::kSlots / S::kMatrices;
    const int slot =
        tile / S::kSubtiles * kMatrixSlots + consumer_.first_output(tile % S::kSubtiles) / kBlockRows;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int block = 0; block < S::kTileBlocks; ++block) {
        // A slot is 8 lines of 128 bytes, each with its own swizzle of 16 bytes.
        const int line = block * 4 + consumer_.lane / 8;
        const uint4 v =
            *reinterpret_cast<const uint4*>(stage + S::kWeightOffset + (slot + half) * S::kSlotBytes +
                                            line * 128 + (consumer_.lane % 8 ^ line) * 16);
        a[2 * block][half] = v.x, a[2 * block][2 + half] = v.y;
        a[2 * block + 1][half] = v.z, a[2 * block + 1][2 + half] = v.w;
      }
  }
  /// Returns the stage; the last of a work tile is not released.
  __device__ __forceinline__ int multiply_stage(int step, Scales& scales) {
    const int index = consumer_.state.index;
    const unsigned char* const stage = consumer_.shared.stages + index * S::kStageBytes;
    const bool is_last = step + 1 == S::kSteps;
    mbarrier_wait(&consumer_.shared.full[index], consumer_.state.phase);
    consumer_.state.advance();
    Scales next;
    if (S::kGroup != 0 && !is_last) load_scales(next, (step + 1) * S::kTileK);
    const unsigned long long x = wgmma_descriptor_swizzle_128b(shared_address(stage) + S::kXOffset);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      unsigned a[4][4];
      float sum[S::kN / 2] = {};
      load_operands(a, stage, tile);
      warpgroup_fence_operand(sum);
      warpgroup_fence_operand(a);
      warpgroup_arrive();
#pragma unroll
      for (int k = 0; k < 4; ++k) wgmma_e4m3<S::kN>(sum, a[k], wgmma_descriptor_advance(x, k * 32), k > 0);
      warpgroup_commit_batch();
      warpgroup_wait<0>();
      warpgroup_fence_operand(sum);
      warpgroup_fence_operand(a);  // wgmma reads it until then
#pragma unroll
      for (int i = 0; i < S::kN / 2; ++i) {
        if constexpr (S::kGroup == 0)
          sum_of(tile)[i] += sum[i];
        else
          sum_of(tile)[i] = fmaf(scales.values[tile][i / 2 % 2], sum[i], sum_of(tile)[i]);
      }
    }
    if (S::kGroup != 0) scales = next;
    if (!is_last) consumer_.release(index);
    return index;
  }

  StreamingConsumer<S>& consumer_;
  const QuantizedLinearArgs& args_;
};

template <class T, int kIn, int kOut, int kBias, int kEpilogue, int kGroup, int kTileTokens, int kRows,
          int kStages, int kCluster>
__global__ void __launch_bounds__(384, 1)
    linear_wgmma_fp8(QuantizedLinearArgs args, const __grid_constant__ TensorMap weight,
                     const __grid_constant__ TensorMap x) {
  using S = Fp8Wgmma<T, kIn, kOut, kBias, kEpilogue, kGroup, kTileTokens, kRows, kStages, kCluster>;
  [[maybe_unused]] static constexpr int kSharedBytes = sizeof(typename S::Storage);
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<typename S::Storage*>(memory);
  const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
  if (threadIdx.x == S::kConsumers) {
    tma_prefetch_descriptor(weight);
    tma_prefetch_descriptor(x);
    for (int i = 0; i < kStages; ++i)
      mbarrier_init(&shared.full[i], 1), mbarrier_init(&shared.empty[i], 4 * S::kWarpgroups * kCluster);
    mbarrier_init_fence();
  }
  if constexpr (kCluster > 1)
    cluster_barrier();
  else
    __syncthreads();
  pdl_launch_dependents();
  if (warpgroup == S::kWarpgroups) {
    warpgroup_reg_dealloc<40>();
    if (threadIdx.x == S::kConsumers)
      Fp8Producer<S>{weight, x, shared, typename S::Schedule(args.tokens)}.run();
    else
      pdl_wait();
    __syncwarp();
  } else {
    warpgroup_reg_alloc<232>();
    pdl_wait();
    StreamingConsumer<S>(shared, warpgroup, args.tokens).run(args);
  }
  // No block exits while another writes to its shared memory or arrives at its barriers.
  if constexpr (kCluster > 1) cluster_barrier();
}

}  // namespace warptune
