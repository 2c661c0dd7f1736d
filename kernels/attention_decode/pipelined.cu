// Split-KV decode attention on CUDA cores with a bulk-copy pipeline per warp (sm_90).
// Grid: [splits, q_heads / kHeads, batch]. A block computes kHeads query heads of one KV head; the tiles of
//   kTileKv keys of its split are assigned round-robin to its kWarps warps.
// Roles: lane 0 of each warp loads that warp's tiles, kStages deep (warp_pipeline.cuh); all lanes compute.
//   Q.K^T: four lanes share a key, so that two shuffles reduce eight scores. P.V: lanes divide head_dim.
// Sync: a full mbarrier per stage; __syncwarp() frees a stage, so there is no empty barrier. The block
//   synchronizes in the epilogue, and before the main loop with append.
// Shared memory: K and V tiles (contiguous rows), full barriers, then the append's rotation and new rows;
//   partial rows reuse all of it.
// Combine: last block, cluster or LL packets (combine.cuh). Append: overlapped with the first loads.
// PDL: KV rows of earlier steps are loaded before pdl_wait(); WarpPipeline decides when the next kernel may
//   launch.
// Wins (H200): MHA below batch 16; from batch 16 on, below about 400 keys.
// Source: Dao et al., "Flash-Decoding", 2023.
#include "kernels/attention_decode/append_overlapped.cuh"
#include "kernels/attention_decode/combine.cuh"
#include "kernels/attention_decode/warp_pipeline.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

/// kCount vectors of kVec elements of each of kRows rows, in the element type of memory.
template <class T, int kRows, int kCount, int kVec>
struct RowVectors {
  Vec<T, kVec> x[kRows][kCount] = {};

  /// at(row, i) is the offset of a vector from `from`.
  template <class At>
  __device__ __forceinline__ void load(const T* from, At at) {
#pragma unroll
    for (int row = 0; row < kRows; ++row)
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        if (at(row, i) >= 0) x[row][i] = load_vec<kVec>(from + at(row, i));
  }
};

/// Attention of one warp to kHeads query heads. In Q.K^T four lanes share a key: the score of key i of a tile
/// is in register i / 8 of lanes i % 8 * 4 and the next three. In P.V a lane has kVec elements of head_dim.
template <class P, int kHeads, int kTileKv>
struct WarpAttention {
  using T = typename P::T;
  static constexpr int kHeadDim = P::kHeadDim, kVec = kVec16<T>;
  static constexpr int kVectors = kHeadDim / kVec;   // 16-byte vectors of a row: 8, 16 or 32
  static constexpr int kLaneVectors = kVectors / 4;  // of them, those of a lane in q.k
  static constexpr int kScores = kTileKv / 8;        // scores of a tile per lane

  using QueryRows = RowVectors<T, kHeads, kLaneVectors, kVec>;
  using Queries = float[kHeads][kLaneVectors][kVec];
  using Scores = float[kHeads][kScores];
  using RowState = float[kHeads];  // a maximum, or this lane's part of a sum
  using Output = float[kHeads][kVec];

  /// The queries times `scale`, with append after bias and rotation. Vector j of a lane begins at column(j).
  template <class Append, class Column>
  static __device__ __forceinline__ void load_q(const QueryRows& rows, const QueryRows& bias,
                                                const Append& append, Column column, float scale,
                                                Queries& q) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      Vec<float, kVec> x[kLaneVectors];
#pragma unroll
      for (int j = 0; j < kLaneVectors; ++j) x[j] = to_float(rows.x[h][j]);
      if constexpr (P::kAppend) append.rotate_fragment(x, bias.x[h], column);
#pragma unroll
      for (int j = 0; j < kLaneVectors; ++j)
#pragma unroll
        for (int i = 0; i < kVec; ++i) q[h][j][i] = x[j][i] * scale;
    }
  }

  /// The state of an online softmax before the first tile.
  static __device__ __forceinline__ void clear(RowState& max, RowState& sum, Output& out) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      max[h] = -WARPTUNE_INFINITY;
      sum[h] = 0;
#pragma unroll
      for (int i = 0; i < kVec; ++i) out[h][i] = 0;
    }
  }

  /// Attends to the first `valid` keys of a KV tile.
  template <class Column>
  static __device__ __forceinline__ void attend(const T* k, const T* v, int valid, const Queries& q,
                                                Column column, int lane, RowState& max, RowState& sum,
                                                Output& out) {
    Scores p;
    multiply_qk(k, valid, q, column, lane, p);
    online_softmax(p, max, sum, out);
    if (valid >= kTileKv)
      multiply_pv<true>(v, valid, p, out);
    else
      multiply_pv<false>(v, valid, p, out);
  }

  /// S = Q.K^T. Keys from `valid` on get -infinity.
  template <class Column>
  static __device__ __forceinline__ void multiply_qk(const T* k, int valid, const Queries& q, Column column,
                                                     int lane, Scores& p) {
#pragma unroll
    for (int r = 0; r < kScores; ++r) {
      const int key = r * 8 + lane / 4;
#pragma unroll
      for (int h = 0; h < kHeads; ++h) p[h][r] = 0;
#pragma unroll
      for (int j = 0; j < kLaneVectors; ++j) {
        const auto x = to_float(load_vec<kVec>(k + key * kHeadDim + column(j)));
#pragma unroll
        for (int h = 0; h < kHeads; ++h)
#pragma unroll
          for (int i = 0; i < kVec; ++i) p[h][r] = fmaf(q[h][j][i], x[i], p[h][r]);
      }
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        p[h][r] += __shfl_xor_sync(0xffffffffu, p[h][r], 1);
        p[h][r] += __shfl_xor_sync(0xffffffffu, p[h][r], 2);
        if (key >= valid) p[h][r] = -WARPTUNE_INFINITY;
      }
    }
  }

  /// Scores become weights; where a maximum rises, sum and output are rescaled.
  static __device__ __forceinline__ void online_softmax(Scores& p, RowState& max, RowState& sum,
                                                        Output& out) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      float high = p[h][0];
#pragma unroll
      for (int r = 1; r < kScores; ++r) high = fmaxf(high, p[h][r]);
#pragma unroll
      for (int offset = 4; offset < 32; offset *= 2)
        high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, offset));
      if (high > max[h]) {  // uniform in the warp
        const float rescale = exp2_fast(max[h] - high);
        sum[h] *= rescale;
#pragma unroll
        for (int i = 0; i < kVec; ++i) out[h][i] *= rescale;
        max[h] = high;
      }
#pragma unroll
      for (int r = 0; r < kScores; ++r) {
        p[h][r] = exp2_fast(p[h][r] - max[h]);
        sum[h] += p[h][r];
      }
    }
  }

  /// O += P.V. Rows of v from `valid` on are not read, unless kFull.
  template <bool kFull>
  static __device__ __forceinline__ void multiply_pv(const T* v, int valid, const Scores& p, Output& out) {
    constexpr int kKeysAtOnce = 32 / kVectors;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int step = 0; step < kScores * 8 / kKeysAtOnce; ++step) {
      const int key = step * kKeysAtOnce + lane / kVectors;
      Vec<float, kVec> x{};
      if (kFull || key < valid) x = to_float(load_vec<kVec>(v + key * kHeadDim + lane % kVectors * kVec));
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float weight = __shfl_sync(0xffffffffu, p[h][step * kKeysAtOnce / 8], key % 8 * 4);
#pragma unroll
        for (int i = 0; i < kVec; ++i) out[h][i] = fmaf(weight, x[i], out[h][i]);
      }
    }
  }

  /// Epilogue: stores the warp's partial rows and softmax states for BlockCombine.
  template <class Block>
  static __device__ __forceinline__ void store(Block& block, const RowState& max, const RowState& sum,
                                               Output& out, int warp, int lane) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const float total = warp_reduce<Sum>(sum[h]) * 0.25f;  // four lanes hold the same p
#pragma unroll
      for (int i = 0; i < kVec; ++i) {
#pragma unroll
        for (int offset = kVectors; offset < 32; offset *= 2)
          out[h][i] += __shfl_xor_sync(0xffffffffu, out[h][i], offset);
        if (lane < kVectors) block.warps.rows[warp][h][lane * kVec + i] = out[h][i];
      }
      if (lane == 0) block.warps.states[warp][h] = {fmaxf(max[h], kNoScore), total};
    }
  }
};

template <class P, int kHeads, int kWarps, int kTileKv, int kStages, int kL2Prefetch, int kSplits,
          int kCombine>
__global__ void __launch_bounds__(kWarps * 32) attention_decode_pipelined(typename P::Args args) {
  using T = typename P::T;
  using Pipeline = WarpPipeline<P, kTileKv, kWarps, kStages, kL2Prefetch, kSplits>;
  using Append = OverlappedAppend<P, 0, kWarps * 32, float>;
  using Attention = WarpAttention<P, kHeads, kTileKv>;
  using Block = BlockCombine<P, kWarps, kHeads, kSplits, static_cast<Combine>(kCombine)>;
  constexpr int kHeadDim = P::kHeadDim;
  [[maybe_unused]] static constexpr int kSharedBytes =
      max_of(Pipeline::kEnd + (P::kAppend ? sizeof(Append) : 0), sizeof(Block));
  extern __shared__ __align__(128) unsigned char shared[];
  [[maybe_unused]] Append& append = *reinterpret_cast<Append*>(shared + Pipeline::kEnd);

  // Load prologue
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int split = blockIdx.x, batch = blockIdx.z;
  const int kv_head = blockIdx.y / (P::kGroup / kHeads);
  const int q_head = kv_head * P::kGroup + blockIdx.y % (P::kGroup / kHeads) * kHeads;
  const bool has_new_key = split == kSplits - 1;
  // Lanes of odd keys use their vectors in another order, so that a quarter warp touches all banks once.
  const int flip = lane / 4 % 2;
  const auto column = [&](int j) { return ((j ^ flip) * 4 + lane % 4) * Attention::kVec; };
  const auto at = [&](int h, int j) { return h * kHeadDim + column(j); };
  [[maybe_unused]] const typename Append::Constants constants(args, q_head, has_new_key);
  [[maybe_unused]] typename Attention::QueryRows bias;
  if (P::kAppend && args.bias) bias.load(static_cast<const T*>(args.bias) + q_head * kHeadDim, at);
  Pipeline pipeline(args, batch, kv_head, split, shared);
  pipeline.issue_early_loads();
  if (pipeline.launches_next_at_start()) pdl_launch_dependents();
  if constexpr (P::kAppend) append.compute_angles(args, pipeline.tiles.length - 1, constants);
  pdl_wait();
  const int length = pipeline.tiles.length;
  const Output<P> output(args, batch, q_head);
  if (length == 0) {
    if (split == 0) output.template put_empty<kHeads, kWarps * 32>();
    return;
  }
  pipeline.issue_late_loads();
  typename Attention::QueryRows queries;
  queries.load(query_row<P>(args, batch, q_head), at);
  if constexpr (P::kAppend) {
    append.template append<true>(args, pipeline.cache, batch, q_head, length - 1, constants, has_new_key,
                                 has_new_key && q_head % P::kGroup == 0);
  }
  typename Attention::Queries q;
  Attention::load_q(queries, bias, append, column, args.scale * kLog2e, q);

  // Main loop
  typename Attention::RowState sum, max;
  typename Attention::Output out;
  Attention::clear(max, sum, out);
  const long long first_row = static_cast<long long>(batch) * P::kQHeads + q_head;
  unsigned arrival = 0;
  if (pipeline.holds_all_tiles()) arrival = Block::arrive(args, first_row);
  for (int tile = pipeline.tiles.first; tile < pipeline.tiles.end; tile += kWarps) {
    pipeline.wait();
    const int valid = pipeline.tiles.valid(tile), cached = pipeline.tiles.cached(tile);
    if constexpr (P::kAppend)
      if (cached < valid)
        append.copy_to_tile(pipeline.keys() + cached * kHeadDim, pipeline.values() + cached * kHeadDim);
    Attention::attend(pipeline.keys(), pipeline.values(), valid, q, column, lane, max, sum, out);
    if (pipeline.release(tile)) arrival = Block::arrive(args, first_row);
    if (pipeline.launches_next_after(tile)) pdl_launch_dependents();
  }

  // Epilogue
  __syncthreads();  // all warps have read the pipeline's buffers
  Block& block = *reinterpret_cast<Block*>(shared);
  Attention::store(block, max, sum, out, warp, lane);
  block.finish(args, first_row, split, output, arrival);
}

}  // namespace warptune
