// Idea: flash decoding on tensor cores. The query heads of one KV head are the 16 rows of m16n8k16 (the rest
// are zeros), so that a group costs what one head costs. Each warp streams its own tiles of K and V through
// its own ring of shared memory with cp.async, several tiles ahead: no barrier between warps until their
// merge at the end. Scores stay in registers, become probabilities there and are the A operand of P.V. Rows
// in shared memory are padded to an odd number of 16-byte pieces, so that ldmatrix meets no bank conflict.
#include "kernels/attention_decode/cache.cuh"
#include "kernels/attention_decode/combine.cuh"
#include "kernels/common/mma.cuh"
#include "kernels/common/pdl.cuh"

namespace warptune {

template <class T, int kQHeads, int kKvHeads, int kHeadDim, int kTile, int kWarps, int kStages, int kSplits,
          bool kLastBlock>
__global__ void __launch_bounds__(kWarps * 32) attention_decode_mma(AttentionDecodeArgs args) {
  constexpr int kBlock = kWarps * 32, kGroup = kQHeads / kKvHeads;
  constexpr int kChunks = kHeadDim / 8, kPitch = (kChunks | 1) * 8;     // of a row; elements
  constexpr int kStage = 2 * kTile * kPitch, kRing = kStages * kStage;  // elements: K tile, then V tile
  constexpr int kHalves = kGroup > 8 ? 2 : 1;  // a thread holds rows g and g + 8; the second only if needed
  static_assert(kGroup <= 16 && kHeadDim % 16 == 0 && kTile % 16 == 0 && kStages >= 2);
  static_assert(kRing * 2 >= kGroup * kHeadDim * 4 && kWarps * kRing * 2 >= kCombineFloats<kBlock> * 4);
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ SoftmaxState states[kWarps * kGroup];
  pdl_launch_dependents();
  pdl_wait();

  const int split = blockIdx.x, kv_head = blockIdx.y, b = blockIdx.z, length = args.lengths[b];
  const SplitRange range = split_range<kSplits>(length, split);
  const long long first_row = static_cast<long long>(b) * kQHeads + kv_head * kGroup;
  T* out = static_cast<T*>(args.out) + first_row * kHeadDim;
  if (split >= range.active) {
    if (length == 0 && split == 0) store_zeros<T, kGroup, kHeadDim, kBlock>(out);
    return;
  }

  const HeadCache<T, kHeadDim, false> cache(args, static_cast<long long>(b) * kKvHeads + kv_head);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  T* ring = reinterpret_cast<T*>(shared) + warp * kRing;
  const auto load_tile = [&](int turn) {
    const int first = range.first + (warp + turn * kWarps) * kTile;
    if (first < range.end) {
      T* to = ring + turn % kStages * kStage;
#pragma unroll
      for (int i = 0; i < kTile * kChunks / 32; ++i) {
        const int item = lane + i * 32, row = item / kChunks, at = item % kChunks * 8;
        const int key = min_of(first + row, range.end - 1);
        const bool valid = first + row < range.end;
        cp_async_16(to + row * kPitch + at, cache.k_at(key, at), valid);
        cp_async_16(to + (kTile + row) * kPitch + at, cache.v_at(key, at), valid);
      }
    }
    cp_async_commit();
  };
#pragma unroll
  for (int turn = 0; turn < kStages - 1; ++turn) load_tile(turn);

  unsigned q[kHeadDim / 16][4];
  const T* q_rows = static_cast<const T*>(args.q) + first_row * kHeadDim;
#pragma unroll
  for (int step = 0; step < kHeadDim / 16; ++step)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = g + i % 2 * 8, at = step * 16 + t * 2 + i / 2 * 8;
      q[step][i] = row < kGroup ? *reinterpret_cast<const unsigned*>(q_rows + row * kHeadDim + at) : 0u;
    }

  float acc[kHeadDim / 8][4] = {};
  SoftmaxState state[2] = {SoftmaxState::none(), SoftmaxState::none()};  // sums: this thread's columns only
  const float scale = args.scale * kLog2e;
  for (int turn = 0;; ++turn) {
    const int first = range.first + (warp + turn * kWarps) * kTile;
    if (first >= range.end) break;
    cp_async_wait<kStages - 2>();
    __syncwarp();  // this tile is here for all lanes, and all have done with the one before
    load_tile(turn + kStages - 1);
    const T* k = ring + turn % kStages * kStage;
    const T* v = k + kTile * kPitch;

    float s[kTile / 8][4] = {};
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step)
#pragma unroll
      for (int n = 0; n < kTile / 16; ++n) {
        unsigned r[4];
        ldmatrix_x4(r, k + (n * 16 + lane / 16 * 8 + lane % 8) * kPitch + step * 16 + lane / 8 % 2 * 8);
        mma_m16n8k16<T>(s[2 * n], q[step], r[0], r[1]);
        mma_m16n8k16<T>(s[2 * n + 1], q[step], r[2], r[3]);
      }
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      float max = -WARPTUNE_INFINITY;
#pragma unroll
      for (int n = 0; n < kTile / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& x = s[n][half * 2 + i];
          x = first + n * 8 + t * 2 + i < range.end ? x * scale : -WARPTUNE_INFINITY;
          max = fmaxf(max, x);
        }
      const float factor = state[half].raise(warp_reduce<Max, 4>(max));
#pragma unroll
      for (int n = 0; n < kTile / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& x = s[n][half * 2 + i];
          state[half].sum += x = state[half].weight(x);
        }
#pragma unroll
      for (int n = 0; n < kHeadDim / 8; ++n) {
        acc[n][half * 2] *= factor;
        acc[n][half * 2 + 1] *= factor;
      }
    }
#pragma unroll
    for (int n = 0; n < kTile / 16; ++n) {
      const float *low = s[2 * n], *high = s[2 * n + 1];
      const unsigned p[4] = {pack2<T>(low[0], low[1]), kHalves == 2 ? pack2<T>(low[2], low[3]) : 0u,
                             pack2<T>(high[0], high[1]), kHalves == 2 ? pack2<T>(high[2], high[3]) : 0u};
#pragma unroll
      for (int step = 0; step < kHeadDim / 16; ++step) {
        unsigned r[4];
        ldmatrix_x4_trans(r, v + (n * 16 + lane / 8 % 2 * 8 + lane % 8) * kPitch + step * 16 + lane / 16 * 8);
        mma_m16n8k16<T>(acc[2 * step], p, r[0], r[1]);
        mma_m16n8k16<T>(acc[2 * step + 1], p, r[2], r[3]);
      }
    }
  }

  // Every warp's rows into its own ring, which nothing reads or fills any more; then the merge.
  cp_async_wait<0>();
  __syncwarp();
  float* rows = reinterpret_cast<float*>(ring);
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    const int row = g + half * 8;
    const float sum = warp_reduce<Sum, 4>(state[half].sum);
    if (row < kGroup) {
      if (t == 0) states[warp * kGroup + row] = {state[half].max, sum};
#pragma unroll
      for (int n = 0; n < kHeadDim / 8; ++n) {
        rows[row * kHeadDim + n * 8 + t * 2] = acc[n][half * 2];
        rows[row * kHeadDim + n * 8 + t * 2 + 1] = acc[n][half * 2 + 1];
      }
    }
  }
  __syncthreads();

  const float* all_rows = reinterpret_cast<const float*>(shared);
  if (kSplits == 1 || range.active == 1) {
    merge_warps<kWarps, kGroup, kHeadDim, kRing / 2>(
        all_rows, states, [&](int head, int i, float value, SoftmaxState all) {
          out[head * kHeadDim + i] = from_float<T>(value / all.sum);
        });
    return;
  }
  const SplitWorkspace<kQHeads, kHeadDim, kSplits> workspace(args);
  merge_warps<kWarps, kGroup, kHeadDim, kRing / 2>(
      all_rows, states, [&](int head, int i, float value, SoftmaxState all) {
        const long long piece = (first_row + head) * kSplits + split;
        workspace.rows[piece * kHeadDim + i] = value;
        if (i == 0) workspace.states[piece] = all;
      });
  if constexpr (kLastBlock) {
    __shared__ float weights[kGroup * kSplits];
    if (is_last_block<kBlock>(workspace.arrivals + first_row, range.active))
      combine_splits<T, kQHeads, kHeadDim, kSplits, kGroup, kBlock>(
          workspace, first_row, range.active, out, weights, reinterpret_cast<float*>(shared));
  }
}

}  // namespace warptune
