#pragma once
// Attention on CUDA cores by groups of lanes: kThreadsPerKey lanes compute one score with loads of
// kKeyLoadBytes and q in fp32 registers, so that the main loop has shuffles but no barrier. With 4-byte loads
// four lanes read a 16-byte vector of a key together, as in the masked MHA of FasterTransformer. A warp
// processes a tile of kTileKv keys at a time: kUnroll keys per key_group are loaded before the first is used,
// or kStages - 1 tiles in a cp.async pipeline (cp_async_pipeline.cuh). kHeads query heads share every byte
// that is loaded.
//
// P.V: with kThreadsPerValue == kThreadsPerKey the key_group that scored a key adds its value, from registers
// and with an online softmax of its own. Otherwise the warp has one maximum, the weights of a tile pass
// through shared memory, and groups of kThreadsPerValue lanes process the rows of V: more lanes per row mean
// fewer accumulators per lane and longer contiguous loads, independent of what suits K.
#include "kernels/attention_decode/append.cuh"
#include "kernels/attention_decode/cp_async_pipeline.cuh"
#include "kernels/common/reduce.cuh"

namespace warptune {

template <class P, int kHeads, int kThreadsPerKey, int kThreadsPerValue, int kUnroll, int kStages = 1,
          int kKeyLoadBytes = 16>
struct CudaCoreAttention {
  using C = typename P::C;
  static constexpr int kX = kVec16<C>, kHeadDim = P::kHeadDim;
  static constexpr int kRowVectors = kHeadDim / kX;                          // 16-byte vectors of a row
  static constexpr int kKeyX = kKeyLoadBytes / static_cast<int>(sizeof(C));  // elements of a load of K
  static constexpr int kKeyVectors = ceil_div(kHeadDim / kKeyX, kThreadsPerKey);
  static constexpr int kKeyGroups = 32 / kThreadsPerKey;
  static constexpr int kTileKv = kKeyGroups * kUnroll;  // keys of a warp's tile
  static constexpr bool kSharedWeights = kThreadsPerValue != kThreadsPerKey;
  static constexpr int kValueVectors = ceil_div(kRowVectors, kThreadsPerValue);
  static constexpr int kValueGroups = 32 / kThreadsPerValue;
  static constexpr int kValueRows = kTileKv / kValueGroups;  // rows of V per value group and tile
  static constexpr int kTileKeyVectors = kUnroll * kKeyVectors;
  static constexpr int kScales = P::kRowScales ? kUnroll + kValueRows : 0;
  using Tile = LaneTile<C, kKeyX, kTileKeyVectors, kValueRows * kValueVectors, kScales>;
  using Pipeline = LanePipeline<C, kTileKeyVectors, kValueRows * kValueVectors, kScales, kStages>;
  static_assert(kKeyLoadBytes == 16 || (kKeyLoadBytes == 4 && kStages == 1));
  static_assert(kHeadDim % kX == 0 && 32 % kThreadsPerKey == 0);
  static_assert(32 % kThreadsPerValue == 0 && kTileKv % kValueGroups == 0);
  static_assert(!kSharedWeights || kTileKv <= kHeadDim);  // weights and partial rows of a warp share memory

  float q[kHeads][kKeyVectors * kKeyX];  // times scale * log2e, and the scale of a quantized head
  float out[kHeads][kValueVectors * kX];
  SoftmaxState state[kHeads];
  int key_group, key_lane;      // the group of this lane for keys, and its index in the group
  int value_group, value_lane;  // for values

  __device__ __forceinline__ CudaCoreAttention()
      : key_group(threadIdx.x % 32 / kThreadsPerKey),
        key_lane(threadIdx.x % kThreadsPerKey),
        value_group(threadIdx.x % 32 / kThreadsPerValue),
        value_lane(threadIdx.x % kThreadsPerValue) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      state[h] = SoftmaxState::none();
#pragma unroll
      for (int i = 0; i < kKeyVectors * kKeyX; ++i) q[h][i] = 0.0f;
#pragma unroll
      for (int i = 0; i < kValueVectors * kX; ++i) out[h][i] = 0.0f;
    }
  }
  __device__ __forceinline__ int key_vector(int j) const { return key_lane + j * kThreadsPerKey; }
  __device__ __forceinline__ bool has_key_vector(int j) const {
    return kHeadDim / kKeyX % kThreadsPerKey == 0 || key_vector(j) < kHeadDim / kKeyX;
  }
  __device__ __forceinline__ int value_vector(int j) const { return value_lane + j * kThreadsPerValue; }
  __device__ __forceinline__ bool has_value_vector(int j) const {
    return kRowVectors % kThreadsPerValue == 0 || value_vector(j) < kRowVectors;
  }

  /// Loads q from kHeads rows of dtype T (global) or float (shared).
  template <class S>
  __device__ __forceinline__ void load_q(const S* rows, float scale) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h)
#pragma unroll
      for (int j = 0; j < kKeyVectors; ++j)
        if (has_key_vector(j)) {
          const auto x = to_float(load_vec<kKeyX>(rows + h * kHeadDim + key_vector(j) * kKeyX));
#pragma unroll
          for (int i = 0; i < kKeyX; ++i) q[h][j * kKeyX + i] = x[i] * scale;
        }
  }

  /// Attends to keys [first, end) of a sequence of `length` for the query heads from first_head on. With
  /// append, every block computes the new rows after it has issued its first pipeline loads (kStages > 1). In
  /// the split of the last key, warp 0 adds the new key after the main loop, and the block of the group's
  /// first head writes it to the cache.
  template <int kWarps, AppendStore kAppendStore = AppendStore::element>
  __device__ __forceinline__ void attend_sequence(const typename P::Args& args, int b, int first_head,
                                                  int first, int end, int length, float* rows) {
    const KvCache<P> cache(args, b, first_head / P::kGroup);
    const ScoreBiasTerm<P, kHeads> bias(args, b, first_head, length);
    const float scale = args.scale * kLog2e * cache.head_k_scale();
    const bool has_new_key = P::kAppend && end == length;
    if (has_new_key) end = length - 1;
    Pipeline pipeline;
    if constexpr (kStages > 1) {
#pragma unroll
      for (int ahead = 0; ahead < kStages - 1; ++ahead)
        issue_load(cache, pipeline, ahead, first_tile(first) + ahead * kWarps * kTileKv, end);
    }
    if constexpr (P::kAppend) {
      __shared__ __align__(64) NewRows<kHeads, kHeadDim> new_rows;
      make_new_rows<P, kHeads, kWarps * 32>(args, cache, b, first_head, length - 1, new_rows);
      __syncthreads();
      if (has_new_key && first_head % P::kGroup == 0)
        write_new_row<kWarps * 32, kAppendStore>(cache, length - 1, new_rows);
      load_q(&new_rows.q[0][0], scale);
      attend<kWarps>(cache, bias, pipeline, first, end, rows);
      if (has_new_key && threadIdx.x < 32) attend_row(new_rows, bias, length - 1);
    } else {
      load_q(static_cast<const typename P::T*>(args.q) +
                 (static_cast<long long>(b) * P::kQHeads + first_head) * kHeadDim,
             scale);
      attend<kWarps>(cache, bias, pipeline, first, end, rows);
    }
  }

  /// Main loop over keys [first, end), tiles assigned round-robin to the kWarps warps of the block. The first
  /// kStages - 1 loads of a pipeline were issued. `rows`: shared memory as in store().
  template <int kWarps>
  __device__ __forceinline__ void attend(const KvCache<P>& cache, const ScoreBiasTerm<P, kHeads>& bias,
                                         Pipeline& pipeline, int first, int end, float* rows) {
    for (int tile = first_tile(first); tile < end; tile += kWarps * kTileKv) {
      Tile kv;
      if constexpr (kStages > 1) {
        issue_load(cache, pipeline, kStages - 1, tile + (kStages - 1) * kWarps * kTileKv, end);
        kv = pipeline.consume();
      } else {
        load(cache, tile, end, kv);
      }

      float score[kHeads][kUnroll] = {};
      compute_scores(kv, bias, tile, end, score);
      online_softmax(rows, score);
      accumulate_pv(kv, rows, score);
      if constexpr (kSharedWeights) __syncwarp();  // all weights are read before they are overwritten
    }
  }

  /// Attends to one more key whose rows are in shared memory; its weight is counted in group 0. The warp
  /// calls.
  __device__ __forceinline__ void attend_row(const NewRows<kHeads, kHeadDim>& rows,
                                             const ScoreBiasTerm<P, kHeads>& bias, int key) {
    const float* k = rows.kv[0];
    const float* v = rows.kv[1];
    const float k_scale = P::kRowScales ? rows.scales[0] : 1.0f,
                v_scale = P::kRowScales ? rows.scales[1] : 1.0f;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      float score = 0.0f;
#pragma unroll
      for (int j = 0; j < kKeyVectors; ++j)
        if (has_key_vector(j))
#pragma unroll
          for (int i = 0; i < kKeyX; ++i) score += q[h][j * kKeyX + i] * k[key_vector(j) * kKeyX + i];
      score = bias(warp_reduce<Sum, kThreadsPerKey>(score) * k_scale, h, key);
      const float factor = state[h].raise(score), weight = state[h].weight(score);  // uniform in the warp
      if (key_group == 0) state[h].sum += weight;
      const float value_weight = value_group == 0 ? weight * v_scale : 0.0f;
#pragma unroll
      for (int j = 0; j < kValueVectors; ++j)
        if (has_value_vector(j))
#pragma unroll
          for (int i = 0; i < kX; ++i)
            out[h][j * kX + i] = out[h][j * kX + i] * factor + value_weight * v[value_vector(j) * kX + i];
    }
  }

  /// Combines the groups of each warp and stores its partial result in shared memory: rows
  /// [kWarps][kHeads][kHeadDim], states [kWarps][kHeads].
  __device__ __forceinline__ void store(float* rows, SoftmaxState* states) {
    rows += threadIdx.x / 32 * (kHeads * kHeadDim);
    states += threadIdx.x / 32 * kHeads;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const float max = over_groups<Max, kThreadsPerKey>(state[h].max);
      const float factor = state[h].raise(max);
      const float sum = over_groups<Sum, kThreadsPerKey>(state[h].sum);
      if (threadIdx.x % 32 == 0) {
        states[h].max = max;
        states[h].sum = sum;
      }
#pragma unroll
      for (int j = 0; j < kValueVectors; ++j)
#pragma unroll
        for (int i = 0; i < kX; ++i) {
          const float x = over_groups<Sum, kThreadsPerValue>(out[h][j * kX + i] * factor);
          if (value_group == 0 && has_value_vector(j)) rows[h * kHeadDim + value_vector(j) * kX + i] = x;
        }
    }
  }

 private:
  /// Q.K^T, bias and mask.
  __device__ __forceinline__ void compute_scores(const Tile& kv, const ScoreBiasTerm<P, kHeads>& bias,
                                                 int tile, int end, float (&score)[kHeads][kUnroll]) const {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
      for (int j = 0; j < kKeyVectors; ++j)
        if (has_key_vector(j)) {
          const auto x = to_float(kv.keys[u * kKeyVectors + j]);
#pragma unroll
          for (int h = 0; h < kHeads; ++h)
#pragma unroll
            for (int i = 0; i < kKeyX; ++i) score[h][u] += q[h][j * kKeyX + i] * x[i];
        }
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float s = warp_reduce<Sum, kThreadsPerKey>(score[h][u]) * (P::kRowScales ? kv.scales[u] : 1.0f);
        const int key = key_of(tile, u);
        score[h][u] = key < end ? bias(s, h, key) : -WARPTUNE_INFINITY;
      }
    }
  }
  /// Scores become weights; with kSharedWeights they are also stored for the value groups.
  __device__ __forceinline__ void online_softmax(float* rows, float (&score)[kHeads][kUnroll]) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      float max = score[h][0];
#pragma unroll
      for (int u = 1; u < kUnroll; ++u) max = fmaxf(max, score[h][u]);
      if constexpr (kSharedWeights) max = over_groups<Max, kThreadsPerKey>(max);
      const float factor = state[h].raise(max);
#pragma unroll
      for (int i = 0; i < kValueVectors * kX; ++i) out[h][i] *= factor;
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) state[h].sum += score[h][u] = state[h].weight(score[h][u]);
    }
    if constexpr (kSharedWeights) {
      if (key_lane == 0) {
#pragma unroll
        for (int h = 0; h < kHeads; ++h)
#pragma unroll
          for (int u = 0; u < kUnroll; ++u) weight_at(rows, h, u * kKeyGroups + key_group) = score[h][u];
      }
      __syncwarp();
    }
  }
  __device__ __forceinline__ void accumulate_pv(const Tile& kv, float* rows,
                                                const float (&score)[kHeads][kUnroll]) {
#pragma unroll
    for (int r = 0; r < kValueRows; ++r) {
      float weight[kHeads];
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        if constexpr (kSharedWeights)
          weight[h] = weight_at(rows, h, row_of(r));
        else
          weight[h] = score[h][r];
        if constexpr (P::kRowScales) weight[h] *= kv.scales[kUnroll + r];
      }
#pragma unroll
      for (int j = 0; j < kValueVectors; ++j)
        if (has_value_vector(j)) {
          const auto x = to_float(kv.values[r * kValueVectors + j]);
#pragma unroll
          for (int h = 0; h < kHeads; ++h)
#pragma unroll
            for (int i = 0; i < kX; ++i) out[h][j * kX + i] += weight[h] * x[i];
        }
    }
  }
  /// Loads this lane's vectors of a tile to a LaneTile or a LaneStage. Keys from `end` on load the last key.
  template <class To>
  __device__ __forceinline__ void load(const KvCache<P>& cache, int tile, int end, To& to) const {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const long long row = cache.row(min_of(key_of(tile, u), end - 1));
      if constexpr (P::kRowScales) to.load_scale(u, cache.k_scales + row);
#pragma unroll
      for (int j = 0; j < kKeyVectors; ++j)
        if (has_key_vector(j)) to.load_key(u * kKeyVectors + j, cache.k_at(row, key_vector(j) * kKeyX));
    }
#pragma unroll
    for (int r = 0; r < kValueRows; ++r) {
      const long long row = cache.row(min_of(tile + row_of(r), end - 1));
      if constexpr (P::kRowScales) to.load_scale(kUnroll + r, cache.v_scales + row);
#pragma unroll
      for (int j = 0; j < kValueVectors; ++j)
        if (has_value_vector(j)) to.load_value(r * kValueVectors + j, cache.v_at(row, value_vector(j) * kX));
    }
  }
  /// Issues the load of a tile, if it exists, to the stage `ahead` tiles after the next one, which is free.
  __device__ __forceinline__ void issue_load(const KvCache<P>& cache, const Pipeline& pipeline, int ahead,
                                             int tile, int end) const {
    if (tile < end) {
      auto stage = pipeline.stage(ahead);
      load(cache, tile, end, stage);
    }
    cp_async_commit();
  }
  /// The first tile of this warp.
  static __device__ __forceinline__ int first_tile(int first) {
    return first + static_cast<int>(threadIdx.x) / 32 * kTileKv;
  }
  /// The weight of a key of the tile, in the memory of the warp's partial rows.
  static __device__ __forceinline__ float& weight_at(float* rows, int h, int key) {
    return rows[threadIdx.x / 32 * (kHeads * kHeadDim) + h * kTileKv + key];
  }
  __device__ __forceinline__ int key_of(int tile, int u) const { return tile + u * kKeyGroups + key_group; }
  /// Row r of V of this lane's value group, within the tile.
  __device__ __forceinline__ int row_of(int r) const { return r * kValueGroups + value_group; }
  /// Reduces over the groups of kWidth lanes of a warp, lane by lane.
  template <class Op, int kWidth>
  static __device__ __forceinline__ float over_groups(float x) {
#pragma unroll
    for (int offset = kWidth; offset < 32; offset *= 2)
      x = Op::combine(x, __shfl_xor_sync(0xffffffffu, x, offset));
    return x;
  }
};

}  // namespace warptune
