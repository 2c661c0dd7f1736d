// Warp-specialized persistent fp8 GEMM on Hopper (TMA, wgmma, sm_90a), for prompts: both operands in shared
// memory, fp8 weights as they are packed (packed_weights.h), activations quantized per token to e4m3.
// quantize_rows.cu runs first: columns of x have the order of packed weights, which the sums do not see. A
//   packed block, 8 rows of 64 bytes, is the K-major atom of wgmma with the 64-byte swizzle.
// Grid: one persistent block per SM. A work tile is 128 tokens x kTileN rows of weight. The kCluster blocks
//   of a cluster take adjacent token tiles of the same rows (grouped_scheduler.cuh).
// Roles: one thread of the producer warpgroup issues all TMA loads; two consumer warpgroups compute 64 tokens
//   each (m64nNk32). setmaxnreg gives them its registers.
// Pipeline: kStages stages of 128 columns, which run on across work tiles. Each block of a cluster loads half
//   of the weight tile and multicasts it. Full/empty mbarrier per stage, as in wgmma.cu.
// Split K: with few work tiles kClusterK blocks of a cluster share one, each with its part of the columns.
//   Each owns a part of its outputs, and gets the sums of the others (split_k_reduction.cuh).
// Arithmetic: the tensor cores add kPromote columns, with 0 all of a row (wgmma_e4m3 has about 14 bits).
//   Promotion adds these partial sums in fp32, times the scale of a block of 128 x 128 where weights have
//   such. While one warpgroup promotes, the other multiplies (kPingpong: they take turns to issue); up to 128
//   rows a second set of partial sums lets a warpgroup do both.
// Epilogue: by TMA stores (fp8_epilogue.cuh), which overlap the next work tile.
// Floor: 1979 TFLOP/s, 768 cycles for a stage of 128 x 192. Promotion of a warpgroup takes 96 cycles of its
//   scheduler beside them, and multicast leaves 28 KB of the L2, 37 bytes per cycle and SM.
// PDL: the weights of the first stages are loaded while the rows are quantized.
// `in` is a multiple of 128, `out` of 8. Source: DeepGEMM (DeepSeek) and CUTLASS, fp8 GEMM of sm_90.
#include "kernels/common/cluster.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/pipeline_state.cuh"
#include "kernels/common/tma.cuh"
#include "kernels/common/wgmma.cuh"
#include "kernels/linear/packed/fp8_epilogue.cuh"
#include "kernels/linear/split_k_reduction.cuh"

namespace warptune {

/// S with the outputs of a work tile that a block owns, where kClusterK blocks split K.
template <class S>
struct OwnedRows : S {
  static constexpr int kTileN = S::kTileN / S::kClusterK, kTileOut = kTileN;
};

template <class T_, int kIn_, int kOut_, int kBias_, int kEpilogue, int kGroup_, int kTileN_, int kStages_,
          int kCluster_, int kClusterK_, int kGroupM, int kPromote, int kPingpong_>
struct Fp8Gemm {
  using T = T_;
  static constexpr int kIn = kIn_, kOut = kOut_, kBias = kBias_, kGroup = kGroup_, kTileN = kTileN_,
                       kStages = kStages_, kCluster = kCluster_, kClusterK = kClusterK_;
  static constexpr bool kPingpong = kPingpong_ != 0, kSwiglu = kEpilogue == kEpilogueSwiglu,
                        kAdd = kEpilogue == kEpilogueAdd;
  static constexpr int kParts = kSwiglu ? 2 : 1, kWeightRows = kParts * kOut, kTileOut = kTileN / kParts;
  static constexpr int kConsumers = 2, kTileM = 64 * kConsumers, kTileK = 128, kRowSteps = kIn / kTileK,
                       kSteps = kRowSteps / kClusterK;
  static constexpr int kXBytes = kTileM * kTileK, kWeightBytes = kTileN * kTileK;  // of a stage
  static constexpr int kPromoteSteps = kPromote == 0 ? kSteps : kPromote / kTileK,
                       kPromotions = ceil_div(kSteps, kPromoteSteps);
  static constexpr bool kPromotes = kPromote != 0;
  /// Promotions between waits for all wgmma: two sets of partial sums fit the registers up to 128 rows. No
  /// wgmma is in flight from one iteration of a loop to the next: ptxas would serialize all (C7514).
  static constexpr int kBatch = min_of(kTileN <= 128 && kPromoteSteps == 1 ? 8 : 1, kPromotions);
  using Scheduler = GroupedScheduler<kOut, kTileM, kTileOut, kCluster, kGroupM, kClusterK>;
  using State = PipelineState<kStages>;
  using Epilogue = Fp8Epilogue<typename Conditional<(kClusterK > 1), OwnedRows<Fp8Gemm>, Fp8Gemm>::type>;
  /// The 64 tokens of a warpgroup are its m64 tile; each block of a cluster owns a part of the columns.
  struct SplitK {
    static constexpr int kClusterK = kClusterK_, kCluster = kClusterK, kClusterM = 1, kWarpgroupsM = 2,
                         kWarpgroupsK = 1, kN = kTileN, kSumMatrices = 1, kSubtiles = 1, kConsumers = 256;
  };
  using Reduction = SplitKReduction<SplitK>;
  static_assert(kIn % kTileK == 0 && kTileN % 16 == 0 && kOut % 8 == 0 && kCluster <= 2);
  static_assert(kPromote % kTileK == 0 && (kGroup == 0 || kPromote == kGroup));
  static_assert(kClusterK == 1 ||
                (kCluster == 1 && !kSwiglu && kRowSteps % kClusterK == 0 && Reduction::kOwners == kClusterK));

  /// The weight row of a column of a work tile. With SwiGLU half of them are gates, half the ups of the same
  /// outputs.
  static __device__ __forceinline__ int weight_row(const WorkTile& work, int column) {
    return work.out + (column < kTileOut ? column : kOut + column - kTileOut);
  }
  /// The part of the columns that this block has.
  static __device__ __forceinline__ int rank_k() { return static_cast<int>(blockIdx.x) % kClusterK; }
};

template <class S>
struct Fp8Storage {
  unsigned char x[S::kStages][S::kXBytes], weight[S::kStages][S::kWeightBytes];
  typename S::Epilogue::Storage epilogue[S::kConsumers];
  [[no_unique_address]] typename S::Reduction::OptionalBuffer received;
  Mbarrier full[S::kStages], empty[S::kStages];
};

/// One thread.
template <class S>
struct Fp8Producer {
  const TensorMap &weight_map, &x_map;
  Fp8Storage<S>& shared;
  typename S::Scheduler scheduler;
  typename S::State state;

  /// Begins a stage and loads this block's part of its weights.
  __device__ __forceinline__ void load_weight(const WorkTile& work, int step) {
    constexpr int kHalf = S::kTileN / 2, kLines = 2 * kBlockRows;  // of 64 bytes, of a slot and stage
    Mbarrier* const full = &shared.full[state.index];
    mbarrier_wait(&shared.empty[state.index], state.phase ^ 1);
    mbarrier_arrive_expect_tx(full, S::kXBytes + S::kWeightBytes);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      unsigned char* const to = shared.weight[state.index] + half * kHalf * S::kTileK;
      const int slot = S::weight_row(work, half * kHalf) / kBlockRows;
      if constexpr (S::kCluster == 1)
        tma_load_3d(to, weight_map, 0, step * kLines, slot, full);
      else if (half == scheduler.rank)
        tma_load_3d_multicast(to, weight_map, 0, step * kLines, slot, full, 3);
    }
  }
  __device__ __forceinline__ void load_x(const WorkTile& work, int step) {
    tma_load_2d(shared.x[state.index], x_map, step * (S::kTileK / 2), work.token, &shared.full[state.index]);
    state.advance();
  }
  __device__ __forceinline__ void run() {
    constexpr int kFirst = min_of(S::kStages, S::kSteps);
    const int first_step = S::rank_k() * S::kSteps;
    WorkTile work = scheduler.work_tile();  // the grid has no more clusters than work tiles
    const auto first = state;
    for (int step = 0; step < kFirst; ++step, state.advance()) load_weight(work, first_step + step);
    pdl_wait();
    state = first;
    for (int step = 0; step < kFirst; ++step) load_x(work, first_step + step);
    for (int step = kFirst;; step = 0) {
      for (; step < S::kSteps; ++step) {
        load_weight(work, first_step + step);
        load_x(work, first_step + step);
      }
      scheduler.advance();
      if (!scheduler.has_work()) return;
      work = scheduler.work_tile();
    }
  }
};

/// The scales of blocks of 128 x 128 by which the partial sums of a work tile are multiplied. The columns of
/// an operand, or with SwiGLU its gates and its ups, are rows of at most two blocks.
template <class S>
class BlockScales128 {
  static constexpr int kLastBlock = ceil_div(S::kWeightRows, kFp8ScaleRows) - 1;

 public:
  struct Values {
    float of_blocks[S::kParts][2];
  };

  __device__ __forceinline__ BlockScales128(const QuantizedLinearArgs& args, const WorkTile& work)
      : scales_(static_cast<const float*>(args.scales) + S::rank_k() * S::kSteps) {
    if constexpr (S::kGroup != 0)
#pragma unroll
      for (int part = 0; part < S::kParts; ++part) rows_[part] = S::weight_row(work, part * S::kTileOut);
  }
  __device__ __forceinline__ Values load(int step) const {
    Values values = {};
    if constexpr (S::kGroup != 0)
#pragma unroll
      for (int part = 0; part < S::kParts; ++part)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          values.of_blocks[part][i] =
              scales_[min(rows_[part] / kFp8ScaleRows + i, kLastBlock) * S::kRowSteps + step];
    return values;
  }
  /// Of columns 8 * octet and following.
  __device__ __forceinline__ float scale(const Values& values, int octet) const {
    const int part = 8 * octet / S::kTileOut, column = 8 * octet % S::kTileOut;
    const bool is_second = rows_[part] % kFp8ScaleRows + column >= kFp8ScaleRows;
    return is_second ? values.of_blocks[part][1] : values.of_blocks[part][0];
  }

 private:
  const float* const scales_;
  int rows_[S::kParts];  // the first of each part
};

/// A consumer warpgroup: tokens 64 * index and following of each work tile.
template <class S>
struct Fp8Consumer {
  using Sums = float[S::kTileN / 2];
  using Scales = BlockScales128<S>;

  const QuantizedLinearArgs& args;
  Fp8Storage<S>& shared;
  const int index, lane;
  const unsigned x, weight;
  typename S::Epilogue epilogue;
  typename S::Scheduler scheduler;
  typename S::State state;
  int in_flight = -1;  // the stage that wgmma in flight read
  Sums sum;

  __device__ __forceinline__ Fp8Consumer(const QuantizedLinearArgs& args, Fp8Storage<S>& shared,
                                         const TensorMap& y_map, const TensorMap& residual_map, int index)
      : args(args),
        shared(shared),
        index(index),
        lane(threadIdx.x % 32),
        x(shared_address(shared.x) + index * 64 * S::kTileK),
        weight(shared_address(shared.weight)),
        epilogue(args, y_map, residual_map, shared.epilogue[index], index),
        scheduler(args.tokens) {}

  __device__ __forceinline__ void run() {
    if (index == 1) end_turn();  // the first is that of warpgroup 0
    for (; scheduler.has_work(); scheduler.advance()) {
      const WorkTile work = scheduler.work_tile();
      if constexpr (S::kClusterK == 1) {
        epilogue.load(work);
        mainloop(Scales(args, work));
        epilogue.store(sum);
      } else {
        run_split(work);
      }
    }
    epilogue.wait();
  }

  /// The block's only work tile, with split K.
  __device__ __forceinline__ void run_split(const WorkTile& work) {
    using Reduction = typename S::Reduction;
    const int rank = S::rank_k();
    epilogue.load({work.token, work.out + rank * (S::kTileN / S::kClusterK)});
    mainloop(Scales(args, work));
    auto& sums = reinterpret_cast<typename Reduction::Sums&>(sum);
    Reduction::send(sums, shared.received, rank, index, 0);
    typename Reduction::OwnSums total;
    Reduction::receive(total, sums, shared.received, rank,
                       index * 128 + static_cast<unsigned>(threadIdx.x) % 128);
    epilogue.store(total[0][0]);
  }
  __device__ __forceinline__ void begin_turn() const {
    if constexpr (S::kPingpong) named_barrier_sync(3 + index, 128 * S::kConsumers);
  }
  __device__ __forceinline__ void end_turn() const {
    if constexpr (S::kPingpong) named_barrier_arrive(4 - index, 128 * S::kConsumers);
  }
  /// partial (+)= x . weight^T of the next stage. What was issued before has ended then.
  __device__ __forceinline__ void multiply(Sums& partial, bool accumulate) {
    mbarrier_wait(&shared.full[state.index], state.phase);
    const unsigned long long a = wgmma_descriptor_swizzle_128b(x + state.index * S::kXBytes),
                             b = wgmma_descriptor_swizzle_64b(weight + state.index * S::kWeightBytes,
                                                              2 * kBlockBytes);
    begin_turn();
    warpgroup_fence_operand(partial);
    warpgroup_arrive();
#pragma unroll
    for (int k = 0; k < S::kTileK / 32; ++k)
      wgmma_e4m3<S::kTileN>(partial, wgmma_descriptor_advance(a, k * 32),
                            wgmma_descriptor_advance(b, k / 2 * kBlockBytes + k % 2 * 32),
                            accumulate || k > 0);
    warpgroup_commit_batch();
    end_turn();
    warpgroup_wait<1>();
    release();
    in_flight = state.index;
    state.advance();
  }
  __device__ __forceinline__ void wait_multiply() {
    warpgroup_wait<0>();
    release();
    in_flight = -1;
  }
  /// Releases the stage whose wgmma have ended.
  __device__ __forceinline__ void release() const {
    if (in_flight < 0) return;
    __syncwarp();
    if constexpr (S::kCluster == 1) {
      if (lane == 0) mbarrier_arrive(&shared.empty[in_flight]);
    } else {
      if (lane < S::kCluster) mbarrier_arrive_remote(&shared.empty[in_flight], lane);
    }
  }
  __device__ __forceinline__ void promote(Sums& partial, const Scales& scales,
                                          const typename Scales::Values& values) {
    warpgroup_fence_operand(partial);
#pragma unroll
    for (int octet = 0; octet < S::kTileN / 8; ++octet) {
      const float scale = S::kGroup == 0 ? 1 : scales.scale(values, octet);
#pragma unroll
      for (int i = octet * 4; i < octet * 4 + 4; ++i)
        sum[i] = S::kGroup == 0 ? sum[i] + partial[i] : fmaf(scale, partial[i], sum[i]);
    }
  }
  __device__ __forceinline__ void mainloop(const Scales& scales) {
    if constexpr (!S::kPromotes) {
      for (int step = 0; step < S::kSteps; ++step) multiply(sum, step > 0);
      wait_multiply();
      warpgroup_fence_operand(sum);
      return;
    }
#pragma unroll
    for (float& value : sum) value = 0;
    constexpr int kRest = S::kPromotions % S::kBatch;
    for (int promotion = 0; promotion < S::kPromotions - kRest; promotion += S::kBatch)
      multiply_batch<S::kBatch>(promotion, scales);
    if constexpr (kRest != 0) multiply_batch<kRest>(S::kPromotions - kRest, scales);
  }
  /// kCount promotions; each but the last while the columns after it are multiplied.
  template <int kCount>
  __device__ __forceinline__ void multiply_batch(int first, const Scales& scales) {
    constexpr int kSets = min_of(kCount, 2), kLast = (kCount - 1) % 2;
    Sums partial[kSets];
    typename Scales::Values values[kSets];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int set = i % 2, before = (i + 1) % 2;
      values[set] = scales.load(first + i);
      multiply(partial[set], false);
      if (i > 0) promote(partial[before], scales, values[before]);
      const int end = min(S::kPromoteSteps, S::kSteps - (first + i) * S::kPromoteSteps);
      for (int step = 1; step < end; ++step) multiply(partial[set], true);
    }
    wait_multiply();
    promote(partial[kLast], scales, values[kLast]);
  }
};

template <class T, int kIn, int kOut, int kBias, int kEpilogue, int kGroup, int kTileN, int kStages,
          int kCluster, int kClusterK, int kGroupM, int kPromote, int kPingpong>
__global__ void __launch_bounds__(384, 1)
    linear_wgmma_fp8(QuantizedLinearArgs args, const __grid_constant__ TensorMap weight,
                     const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap y,
                     const __grid_constant__ TensorMap residual) {
  using S = Fp8Gemm<T, kIn, kOut, kBias, kEpilogue, kGroup, kTileN, kStages, kCluster, kClusterK, kGroupM,
                    kPromote, kPingpong>;
  [[maybe_unused]] static constexpr int kSharedBytes = sizeof(Fp8Storage<S>);
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<Fp8Storage<S>*>(memory);
  const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
  if (threadIdx.x == 0) {
    tma_prefetch_descriptor(weight);
    tma_prefetch_descriptor(x);
    tma_prefetch_descriptor(y);
    for (auto& of_consumer : shared.epilogue) mbarrier_init(&of_consumer.residual, S::Epilogue::kWarps);
    for (int i = 0; i < kStages; ++i)
      mbarrier_init(&shared.full[i], 1), mbarrier_init(&shared.empty[i], 4 * S::kConsumers * kCluster);
    shared.received.init();
    mbarrier_init_fence();
  }
  if constexpr (kCluster * kClusterK > 1)
    cluster_barrier();
  else
    __syncthreads();
  pdl_launch_dependents();
  if (warpgroup == 0) {
    warpgroup_reg_dealloc<40>();
    if (threadIdx.x == 0)
      Fp8Producer<S>{weight, x, shared, typename S::Scheduler(args.tokens)}.run();
    else
      pdl_wait();
    __syncwarp();
  } else {
    warpgroup_reg_alloc<232>();
    pdl_wait();
    Fp8Consumer<S>(args, shared, y, residual, warpgroup - 1).run();
  }
  // No block exits while another writes to its shared memory or arrives at its barriers.
  if constexpr (kCluster * kClusterK > 1) cluster_barrier();
}

}  // namespace warptune
