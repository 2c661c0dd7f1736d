// Split-KV decode attention on tensor cores with a cp.async multistage pipeline per warp (sm_80).
// Grid: [splits, kv_heads, batch]. A block computes all query heads of a KV head as the 16 rows of m16n8k16
//   (packed GQA, unused rows are zeros). Tiles of kTileKv keys are assigned round-robin to its warps.
// Roles: each warp loads its own tiles, kStages - 1 ahead, and computes them. P stays in registers, as the A
//   operand of P.V.
// Sync: cp.async groups and __syncwarp(); the block synchronizes only in the epilogue.
// Shared memory: K and V tiles per warp, rows padded to an odd number of 16-byte vectors (no ldmatrix bank
//   conflicts); partial rows reuse it.
// Combine: a second kernel (combine.cu) or the last block; a split with all keys writes the output itself.
// PDL: no load before pdl_wait(). No append, quantized or paged caches, windows or score bias.
// Wins: nothing on an H200. Meant for GQA on sm_80, where nothing was measured.
// Source: Dao et al., "Flash-Decoding", 2023; FlashAttention-2.
#include "kernels/attention_decode/combine.cuh"
#include "kernels/common/mma.cuh"
#include "kernels/common/pdl.cuh"

namespace warptune {

/// Shapes and steps of the kernel. A thread of a warp is (g, t) = (lane / 4, lane % 4): in S = Q.K^T and in O
/// it has query heads g and g + 8, in S keys 2t and 2t + 1 of each n8 tile.
template <class T, int kQHeads, int kKvHeads, int kHeadDim, int kTileKv, int kWarps, int kStages, int kSplits>
struct DecodeMma {
  static constexpr int kBlock = kWarps * 32, kGroup = kQHeads / kKvHeads;
  static constexpr int kVectors = kHeadDim / 8, kPitch = (kVectors | 1) * 8;  // of a row; elements
  static constexpr int kStage = 2 * kTileKv * kPitch;                         // elements: K tile, then V tile
  static constexpr int kPipeline = kStages * kStage;
  static constexpr int kHalves = kGroup > 8 ? 2 : 1;  // rows g, and g + 8 if needed
  static constexpr int kSteps = kHeadDim / 16, kKeyTiles = kTileKv / 8;
  static_assert(kGroup <= 16 && kHeadDim % 16 == 0 && kTileKv % 16 == 0 && kStages >= 2);
  static_assert(kPipeline * 2 >= kGroup * kHeadDim * 4 &&
                kWarps * kPipeline * 2 >= kCombineFloats<kBlock> * 4);

  using Cache = KvCache<DecodeProblem<T, 1, 1, kHeadDim>>;
  using Workspace = SplitWorkspace<kQHeads, kHeadDim, kSplits>;
  using QFragments = unsigned[kSteps][4];
  using Scores = float[kKeyTiles][4];
  using Output = float[kHeadDim / 8][4];

  /// Starts the copies of a tile of K and V, whose first key is `first`; keys from `end` on become zeros.
  static __device__ __forceinline__ void copy_tile(T* to, const Cache& cache, int first, int end, int lane) {
#pragma unroll
    for (int i = 0; i < kTileKv * kVectors / 32; ++i) {
      const int item = lane + i * 32, row = item / kVectors, at = item % kVectors * 8;
      const int key = min_of(first + row, end - 1);
      const bool valid = first + row < end;
      cp_async_16(to + row * kPitch + at, cache.k_at(key, at), valid);
      cp_async_16(to + (kTileKv + row) * kPitch + at, cache.v_at(key, at), valid);
    }
  }

  static __device__ __forceinline__ void load_q(const T* rows, QFragments& q, int g, int t) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = g + i % 2 * 8, at = step * 16 + t * 2 + i / 2 * 8;
        q[step][i] = row < kGroup ? *reinterpret_cast<const unsigned*>(rows + row * kHeadDim + at) : 0u;
      }
  }

  /// S = Q.K^T
  static __device__ __forceinline__ void multiply_qk(const QFragments& q, const T* k, Scores& s, int lane) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int n = 0; n < kTileKv / 16; ++n) {
        unsigned r[4];
        ldmatrix_x4(r, k + (n * 16 + lane / 16 * 8 + lane % 8) * kPitch + step * 16 + lane / 8 % 2 * 8);
        mma_m16n8k16<T>(s[2 * n], q[step], r[0], r[1]);
        mma_m16n8k16<T>(s[2 * n + 1], q[step], r[2], r[3]);
      }
  }

  /// Scores become probabilities; the output is rescaled. Keys from `end` on are masked.
  static __device__ __forceinline__ void online_softmax(int first, int end, int t, float scale,
                                                        SoftmaxState (&state)[2], Scores& s, Output& out) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      float max = -WARPTUNE_INFINITY;
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& x = s[n][half * 2 + i];
          x = first + n * 8 + t * 2 + i < end ? x * scale : -WARPTUNE_INFINITY;
          max = fmaxf(max, x);
        }
      const float factor = state[half].raise(warp_reduce<Max, 4>(max));
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& x = s[n][half * 2 + i];
          state[half].sum += x = state[half].weight(x);
        }
#pragma unroll
      for (int n = 0; n < kHeadDim / 8; ++n) {
        out[n][half * 2] *= factor;
        out[n][half * 2 + 1] *= factor;
      }
    }
  }

  /// O += P.V
  static __device__ __forceinline__ void multiply_pv(const Scores& s, const T* v, Output& out, int lane) {
#pragma unroll
    for (int n = 0; n < kTileKv / 16; ++n) {
      const float *low = s[2 * n], *high = s[2 * n + 1];
      const unsigned p[4] = {pack2<T>(low[0], low[1]), kHalves == 2 ? pack2<T>(low[2], low[3]) : 0u,
                             pack2<T>(high[0], high[1]), kHalves == 2 ? pack2<T>(high[2], high[3]) : 0u};
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        unsigned r[4];
        ldmatrix_x4_trans(r, v + (n * 16 + lane / 8 % 2 * 8 + lane % 8) * kPitch + step * 16 + lane / 16 * 8);
        mma_m16n8k16<T>(out[2 * step], p, r[0], r[1]);
        mma_m16n8k16<T>(out[2 * step + 1], p, r[2], r[3]);
      }
    }
  }

  /// Stores the warp's partial rows and softmax states in shared memory.
  static __device__ __forceinline__ void store_partials(const Output& out, const SoftmaxState (&state)[2],
                                                        float* rows, SoftmaxState* states, int warp, int g,
                                                        int t) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const int row = g + half * 8;
      const float sum = warp_reduce<Sum, 4>(state[half].sum);
      if (row < kGroup) {
        if (t == 0) states[warp * kGroup + row] = {state[half].max, sum};
#pragma unroll
        for (int n = 0; n < kHeadDim / 8; ++n) {
          rows[row * kHeadDim + n * 8 + t * 2] = out[n][half * 2];
          rows[row * kHeadDim + n * 8 + t * 2 + 1] = out[n][half * 2 + 1];
        }
      }
    }
  }

  /// Combines the warps of the only split with keys into the output.
  static __device__ __forceinline__ void store_output(const float* all_rows, const SoftmaxState* states,
                                                      T* out) {
    combine_warps<kWarps, kGroup, kHeadDim, kPipeline / 2>(
        all_rows, states, [&](int head, int i, float value, SoftmaxState all) {
          out[head * kHeadDim + i] = from_float<T>(value / all.sum);
        });
  }
  /// Combines the warps of a split into its partial rows in the workspace.
  static __device__ __forceinline__ void store_split(const float* all_rows, const SoftmaxState* states,
                                                     const Workspace& workspace, long long first_row,
                                                     int split) {
    combine_warps<kWarps, kGroup, kHeadDim, kPipeline / 2>(
        all_rows, states, [&](int head, int i, float value, SoftmaxState all) {
          const long long partial = (first_row + head) * kSplits + split;
          workspace.rows[partial * kHeadDim + i] = value;
          if (i == 0) workspace.states[partial] = all;
        });
  }
  /// Last-block reduction of all splits into the output.
  static __device__ __forceinline__ void combine_in_last_block(const Workspace& workspace,
                                                               long long first_row, int active, T* out,
                                                               float* sums) {
    __shared__ float weights[kGroup * kSplits];
    if (!is_last_block<kBlock>(workspace.arrivals + first_row, active)) return;
    using P = DecodeProblem<T, kQHeads, 1, kHeadDim>;
    // combine_splits() needs only `out`, which already points to the first row of this group.
    AttentionDecodeArgs of_group{};
    of_group.out = out;
    combine_splits<P, kSplits, kGroup, kBlock>(workspace, first_row, active,
                                               warptune::Output<P>(of_group, 0, 0), weights, sums);
  }
};

template <class T, int kQHeads, int kKvHeads, int kHeadDim, int kTileKv, int kWarps, int kStages, int kSplits,
          bool kLastBlock>
__global__ void __launch_bounds__(kWarps * 32) attention_decode_mma(AttentionDecodeArgs args) {
  using Decode = DecodeMma<T, kQHeads, kKvHeads, kHeadDim, kTileKv, kWarps, kStages, kSplits>;
  constexpr int kGroup = Decode::kGroup;
  [[maybe_unused]] static constexpr int kSharedBytes = kWarps * Decode::kPipeline * sizeof(T);
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ SoftmaxState states[kWarps * kGroup];
  pdl_launch_dependents();
  pdl_wait();

  const int split = blockIdx.x, kv_head = blockIdx.y, b = blockIdx.z, length = args.lengths[b];
  const SplitRange range = split_range<kSplits>(0, length, split);
  const long long first_row = static_cast<long long>(b) * kQHeads + kv_head * kGroup;
  T* out = static_cast<T*>(args.out) + first_row * kHeadDim;
  if (split >= range.active) {
    if (length == 0 && split == 0)
      for (int i = threadIdx.x; i < kGroup * kHeadDim; i += Decode::kBlock) out[i] = from_float<T>(0.0f);
    return;
  }

  // Load prologue
  // (sequence, KV head) is one batch index of a cache with one KV head.
  const typename Decode::Cache cache(args, static_cast<long long>(b) * kKvHeads + kv_head, 0);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  T* buffers = reinterpret_cast<T*>(shared) + warp * Decode::kPipeline;
  const auto load_tile = [&](int round) {
    const int first = range.first + (warp + round * kWarps) * kTileKv;
    if (first < range.end)
      Decode::copy_tile(buffers + round % kStages * Decode::kStage, cache, first, range.end, lane);
    cp_async_commit();
  };
#pragma unroll
  for (int round = 0; round < kStages - 1; ++round) load_tile(round);
  typename Decode::QFragments q;
  Decode::load_q(static_cast<const T*>(args.q) + first_row * kHeadDim, q, g, t);

  // Main loop
  typename Decode::Output acc = {};
  SoftmaxState state[2] = {SoftmaxState::none(), SoftmaxState::none()};  // sums: this thread's columns only
  const float scale = args.scale * kLog2e;
  for (int round = 0;; ++round) {
    const int first = range.first + (warp + round * kWarps) * kTileKv;
    if (first >= range.end) break;
    cp_async_wait<kStages - 2>();
    __syncwarp();  // this tile has arrived for all lanes, and the one before is free
    load_tile(round + kStages - 1);
    const T* k = buffers + round % kStages * Decode::kStage;
    const T* v = k + kTileKv * Decode::kPitch;
    typename Decode::Scores s = {};
    Decode::multiply_qk(q, k, s, lane);
    Decode::online_softmax(first, range.end, t, scale, state, s, acc);
    Decode::multiply_pv(s, v, acc, lane);
  }

  // Epilogue: every warp stores its partial rows in its own buffers, which are free now; then they are
  // combined.
  cp_async_wait<0>();
  __syncwarp();
  Decode::store_partials(acc, state, reinterpret_cast<float*>(buffers), states, warp, g, t);
  __syncthreads();
  float* all_rows = reinterpret_cast<float*>(shared);
  if (kSplits == 1 || range.active == 1) {
    Decode::store_output(all_rows, states, out);
    return;
  }
  const typename Decode::Workspace workspace(args);
  Decode::store_split(all_rows, states, workspace, first_row, split);
  if constexpr (kLastBlock) Decode::combine_in_last_block(workspace, first_row, range.active, out, all_rows);
}

}  // namespace warptune
