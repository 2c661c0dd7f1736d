// Multistage bulk-copy GEMV (cp.async.bulk, sm_90), persistent blocks, for few tokens.
// Grid: persistent; the warps of all blocks split the output rows into equal contiguous ranges. A warp
//   computes kRows output rows at once, in tiles of kTileK elements.
// Roles: every warp has a pipeline of its own of kStages stages of kRows x kTileK weights; lane 0 issues
//   the copies, all lanes consume. x lies in shared memory and is the only thing that warps share.
// Registers hold the last kRegisterTiles tiles of a warp's last rows: as many bytes are in flight with less
//   shared memory, so that blocks of attention fit beside those of o.
// Prefetch: memory idles while o waits for attention, so o prefetches a part of gate_up to the L2. Memory
//   also idles between down and qkv, so an extra warp of down prefetches a part of qkv after pdl_wait().
// Sync: a full mbarrier per stage; __syncwarp() before lane 0 refills a stage. No block barrier after the
//   start, except at the end of argmax (argmax.cuh).
// Wins: qkv and gate_up in steps of 1B models; rows of a length that gemv_mma does not take. The weights of
//   the first kStages stages, which no kernel writes, are loaded before pdl_wait() and stream while the
//   kernels before still run; and shared memory holds more bytes in flight than registers can.
// Fused: every block normalizes x for itself (BlockNorm); with SwiGLU half of the kRows rows are gates, half
//   their ups.
// Shared memory: stages [kWarps][kStages][kRows][kTileK], x [kTokens][kIn], full barriers [kWarps][kStages];
//   static: keys of argmax.
#include "kernels/common/pdl.cuh"
#include "kernels/common/tma.cuh"
#include "kernels/linear/argmax.cuh"
#include "kernels/linear/fused.cuh"

namespace warptune {

/// Epilogue of a group of kRows rows: a lane per output. `scales`: of the tokens; `residual`: those of the
/// lane's output.
template <class T, int kOut, int kBias, int kEpilogue, int kTokens, int kRows, class Args>
__device__ __forceinline__ void store_rows(const Args& args, const float (&sum)[kTokens][kRows],
                                           const float (&scales)[kTokens], const float (&residual)[kTokens],
                                           int group, int lane) {
  using Keys = BlockKeys<T, kOut, kEpilogue, kTokens>;
#pragma unroll
  for (int t = 0; t < kTokens; ++t) {
    if constexpr (kEpilogue == kEpilogueSwiglu) {
#pragma unroll
      for (int r = 0; r < kRows / 2; ++r) {
        const float gate = scales[t] * warp_reduce<Sum>(sum[t][r]),
                    up = scales[t] * warp_reduce<Sum>(sum[t][r + kRows / 2]);
        if (lane == r)
          store_output<T, kOut, kBias, kEpilogue>(args, t, group * (kRows / 2) + r, silu(gate) * up, 0);
      }
    } else {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float y = scales[t] * warp_reduce<Sum>(sum[t][r]);
        const int o = group * kRows + r;
        if (lane == r) Keys::add(t, store_output<T, kOut, kBias, kEpilogue>(args, t, o, y, residual[t]), o);
      }
    }
  }
}

/// Copies x to shared memory. The first kThreads threads of the block call; kWholeBlock: they are all.
template <class T, int kElements, int kThreads, bool kWholeBlock>
__device__ __forceinline__ void load_x(T* x, const T* from) {
  constexpr int kVec = kVec16<T>;
  for (int i = threadIdx.x; i < kElements / kVec; i += kThreads)
    store_vec<kVec>(x + i * kVec, load_vec<kVec>(from + i * kVec));
  if constexpr (kWholeBlock)
    __syncthreads();
  else
    named_barrier_sync<kThreads>();
}

/// The i-th tile of a row that a warp reads: adjacent warps begin kStagger tiles apart and wrap around. All
/// rows have the same pitch, and reading the same columns in all warps at a time is up to 3 % slower.
template <int kTiles, int kStagger>
__device__ __forceinline__ int rotated_tile(int i, int warp) {
  if constexpr (kStagger == 0) return i;
  i += warp * kStagger % kTiles;
  return i < kTiles ? i : i - kTiles;
}

/// The last kCount tiles of a group of rows, in the registers of a warp.
template <class T, int kIn, int kTileK, int kRows, int kCount>
class RegisterTiles {
 public:
  /// Loads tile `tile` as tile j of these; row(r): where row r of the group begins.
  template <class Row>
  __device__ __forceinline__ void load_tile(int j, int tile, int lane, Row row) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int k = tile * kTileK + (i * 32 + lane) * kVec;
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        if (kIn % kTileK == 0 || k < kIn) weights_[j][i][r] = load_vec_nc<kVec>(row(r) + k);
    }
  }
  /// Adds the products of tile j, which is tile `tile` of the rows, with x [kTokens, kIn].
  template <int kTokens>
  __device__ __forceinline__ void multiply_tile(float (&sum)[kTokens][kRows], int j, int tile, int lane,
                                                const T* x) const {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int k = tile * kTileK + (i * 32 + lane) * kVec;
      if (kIn % kTileK == 0 || k < kIn) {
        Vec<float, kVec> w[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r) w[r] = to_float(still_packed(weights_[j][i][r]));
#pragma unroll
        for (int t = 0; t < kTokens; ++t) {
          const auto v = to_float(load_vec<kVec>(x + t * kIn + k));
#pragma unroll
          for (int r = 0; r < kRows; ++r)
#pragma unroll
            for (int e = 0; e < kVec; ++e) sum[t][r] = fmaf(w[r][e], v[e], sum[t][r]);
        }
      }
    }
  }

 private:
  static constexpr int kVec = kVec16<T>, kVectors = kTileK / (32 * kVec);  // of a lane in a row

  /// x itself. The compiler would convert weights that wait in registers to fp32 when they arrive, which
  /// takes twice the registers.
  static __device__ __forceinline__ Vec<T, kVec> still_packed(Vec<T, kVec> x) {
    unsigned(&words)[4] = reinterpret_cast<unsigned(&)[4]>(x);
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(words[i]));
    return x;
  }

  Vec<T, kVec> weights_[kCount][kVectors][kRows];
};
template <class T, int kIn, int kTileK, int kRows>
class RegisterTiles<T, kIn, kTileK, kRows, 0> {};

template <class T, int kTokens, int kIn, int kOut, int kBias, int kPrologue, int kEpilogue, int kWarps,
          int kRows, int kTileK, int kStages, int kRegisterTiles, int kStagger, int kPrefetch,
          int kLatePrefetch>
__global__ void __launch_bounds__((kWarps + (kLatePrefetch != 0)) * 32)
    linear_gemv_bulk_copy(LinearArgsOf<kPrologue, kEpilogue, kPrefetch + kLatePrefetch> args) {
  static_assert(kLatePrefetch == 0 || (kPrologue == kPrologueNone && kEpilogue == kEpilogueAdd));
  constexpr bool kNorm = kPrologue == kPrologueRmsNorm;
  constexpr int kVec = kVec16<T>, kOutputs = kEpilogue == kEpilogueSwiglu ? kRows / 2 : kRows;  // of a group
  constexpr int kTiles = ceil_div(kIn, kTileK);                                                 // per row
  constexpr int kLastTileK = kIn - (kTiles - 1) * kTileK;
  [[maybe_unused]] static constexpr int kSharedBytes =
      (kWarps * kStages * kRows * kTileK + kTokens * kIn) * sizeof(T) + kWarps * kStages * sizeof(Mbarrier);
  extern __shared__ __align__(128) unsigned char shared[];
  T* stages = reinterpret_cast<T*>(shared) + (threadIdx.x / 32) * (kStages * kRows * kTileK);
  T* x = reinterpret_cast<T*>(shared) + kWarps * kStages * kRows * kTileK;  // [kTokens, kIn]
  Mbarrier* full_barrier = reinterpret_cast<Mbarrier*>(x + kTokens * kIn) + (threadIdx.x / 32) * kStages;

  const int lane = threadIdx.x % 32;  // `warp`: its index in the grid
  const int groups = kOut / kOutputs, warps = gridDim.x * kWarps,
            warp = blockIdx.x * kWarps + threadIdx.x / 32;
  const int first = static_cast<int>(static_cast<long long>(groups) * warp / warps);
  const int last = static_cast<int>(static_cast<long long>(groups) * (warp + 1) / warps);
  const int steps = (last - first) * kTiles - (first < last ? kRegisterTiles : 0);  // through the stages
  const T* weight = static_cast<const T*>(args.weight) + static_cast<long long>(first) * kOutputs * kIn;

  int load_group = 0, loads = 0, load_stage = 0;
  const auto load = [&] {  // lane 0: the next tile
    const int load_tile = rotated_tile<kTiles, kStagger>(loads, warp),
              elements = load_tile == kTiles - 1 ? kLastTileK : kTileK;
    mbarrier_arrive_expect_tx(full_barrier + load_stage, kRows * elements * static_cast<int>(sizeof(T)));
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      bulk_copy_evict_first(
          stages + (load_stage * kRows + r) * kTileK,
          weight +
              weight_row<kOut, kEpilogue, kRows>(static_cast<long long>(load_group) * kOutputs, r) * kIn +
              load_tile * kTileK,
          elements * static_cast<int>(sizeof(T)), full_barrier + load_stage);
    if (++loads == kTiles) {
      loads = 0;
      ++load_group;
    }
    if (++load_stage == kStages) load_stage = 0;
  };

  if constexpr (kLatePrefetch != 0) {
    if (threadIdx.x >= kWarps * 32) {
      pdl_wait();
      if (lane == 0) prefetch_next_weight<kLatePrefetch>(args);
      return;
    }
  }
  // Load prologue: weights before the dependency, x after it.
  if (lane == 0) {
    for (int s = 0; s < kStages; ++s) mbarrier_init(full_barrier + s);
    mbarrier_init_fence();
    for (int s = 0; s < min_of(kStages, steps); ++s) load();
  }
  // What the load prologue leaves in registers.
  struct Registers : BlockNorm<T, kTokens, kIn, kWarps * 32>,
                     RegisterTiles<T, kIn, kTileK, kRows, kRegisterTiles> {};
  Registers registers;
  if constexpr (kRegisterTiles > 0) {
    const long long output = static_cast<long long>(last - first - 1) * kOutputs;
#pragma unroll
    for (int j = 0; j < kRegisterTiles; ++j)
      if (first < last)
        registers.load_tile(
            j, rotated_tile<kTiles, kStagger>(kTiles - kRegisterTiles + j, warp), lane,
            [&](int r) { return weight + weight_row<kOut, kEpilogue, kRows>(output, r) * kIn; });
  }
  if constexpr (kNorm) registers.load_weights(args.norm_weight);
  using Keys = BlockKeys<T, kOut, kEpilogue, kTokens>;
  Keys::clear();
  pdl_launch_dependents();
  if (threadIdx.x == 0) prefetch_next_weight<kPrefetch>(args);
  pdl_wait();
  if constexpr (kNorm) {
    registers.load_x(x, args.x, args.eps);
  } else {
    load_x<T, kTokens * kIn, kWarps * 32, kLatePrefetch == 0>(x, static_cast<const T*>(args.x));
#pragma unroll
    for (int t = 0; t < kTokens; ++t) registers.scales[t] = 1;
  }

  // Main loop.
  unsigned phase = 0;
  int step = 0, stage = 0;
  for (int group = first; group < last; ++group) {
    float sum[kTokens][kRows] = {};
    float residual[kTokens] = {};
#pragma unroll
    for (int t = 0; t < kTokens; ++t)
      if (lane < kRows) residual[t] = load_residual<T, kOut, kEpilogue>(args, t, group * kRows + lane);
    const int staged = kRegisterTiles > 0 && group == last - 1 ? kTiles - kRegisterTiles : kTiles;
    for (int n = 0; n < staged; ++n, ++step) {
      const int tile = rotated_tile<kTiles, kStagger>(n, warp);
      mbarrier_wait(full_barrier + stage, phase);
      const T* weights = stages + stage * kRows * kTileK;
#pragma unroll
      for (int i = 0; i < kTileK / (32 * kVec); ++i) {
        const int k = (i * 32 + lane) * kVec;
        if (kLastTileK == kTileK || k + tile * kTileK < kIn) {
          Vec<float, kVec> w[kRows];
#pragma unroll
          for (int r = 0; r < kRows; ++r) w[r] = to_float(load_vec<kVec>(weights + r * kTileK + k));
#pragma unroll
          for (int t = 0; t < kTokens; ++t) {
            const auto v = to_float(load_vec<kVec>(x + t * kIn + tile * kTileK + k));
#pragma unroll
            for (int r = 0; r < kRows; ++r)
#pragma unroll
              for (int j = 0; j < kVec; ++j) sum[t][r] = fmaf(w[r][j], v[j], sum[t][r]);
          }
        }
      }
      fence_proxy_async();  // the stage is overwritten by the next bulk copy
      __syncwarp();
      if (lane == 0 && step + kStages < steps) load();
      if (++stage == kStages) {
        stage = 0;
        phase ^= 1;
      }
    }
    if constexpr (kRegisterTiles > 0) {
#pragma unroll
      for (int j = 0; j < kRegisterTiles; ++j)
        if (group == last - 1)
          registers.multiply_tile(sum, j, rotated_tile<kTiles, kStagger>(kTiles - kRegisterTiles + j, warp),
                                  lane, x);
    }
    store_rows<T, kOut, kBias, kEpilogue>(args, sum, registers.scales, residual, group, lane);
  }
  Keys::template write<kWarps * 32>(args);
}

}  // namespace warptune
