#pragma once
// Attention on CUDA cores by groups of kLanes lanes: a group takes one key at a time with 16-byte loads and
// holds q in fp32 registers, so that the key loop has shuffles but no barrier. kUnroll keys of K and V per
// group are in flight before the first is used, or, with kStages above 1, so many strips less one in shared
// memory (lane_strips.cuh). kHeads query heads share every byte read.
//
// P.V, with kValueLanes == kLanes: the group that scored a key adds its value, from registers and with an
// online softmax of its own. Otherwise the warp has one maximum, the weights of its strip of keys pass
// through shared memory, and groups of kValueLanes lanes take the rows of V: more lanes per row mean fewer
// partial sums per lane and longer runs of memory per load, whatever suits the keys.
#include "kernels/attention_decode/append.cuh"
#include "kernels/attention_decode/lane_strips.cuh"
#include "kernels/attention_decode/scores.cuh"
#include "kernels/common/online_softmax.cuh"
#include "kernels/common/reduce.cuh"

namespace warptune {

template <class P, int kHeads, int kLanes, int kValueLanes, int kUnroll, int kStages = 1>
struct LaneGroups {
  using C = typename P::C;
  static constexpr int kX = kVec16<C>, kHeadDim = P::kHeadDim;
  static constexpr int kChunks = kHeadDim / kX;  // 16-byte pieces of a row
  static constexpr int kPerLane = ceil_div(kChunks, kLanes);
  static constexpr int kGroups = 32 / kLanes;
  static constexpr int kStrip = kGroups * kUnroll;  // keys a warp takes at once
  static constexpr bool kShared = kValueLanes != kLanes;
  static constexpr int kPerValueLane = ceil_div(kChunks, kValueLanes);
  static constexpr int kValueGroups = 32 / kValueLanes;
  static constexpr int kRows = kStrip / kValueGroups;  // of V per value group and strip
  static constexpr int kKeyPieces = kUnroll * kPerLane, kPieces = kKeyPieces + kRows * kPerValueLane;
  static constexpr int kScales = P::kRowScales ? kUnroll + kRows : 0;
  using Strip = LaneStrip<C, kPieces, kScales>;
  using Ring = LaneRing<C, kPieces, kScales, kStages>;
  static_assert(kHeadDim % kX == 0 && 32 % kLanes == 0);
  static_assert(32 % kValueLanes == 0 && kStrip % kValueGroups == 0);
  static_assert(!kShared || kStrip <= kHeadDim);  // a warp's weights lie where its rows will

  float q[kHeads][kPerLane * kX];  // times scale * log2e, and the scale of a quantised head
  float out[kHeads][kPerValueLane * kX];
  SoftmaxState state[kHeads];
  int group, part;              // of this lane, for keys
  int value_group, value_part;  // and for values

  __device__ __forceinline__ LaneGroups()
      : group(threadIdx.x % 32 / kLanes),
        part(threadIdx.x % kLanes),
        value_group(threadIdx.x % 32 / kValueLanes),
        value_part(threadIdx.x % kValueLanes) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      state[h] = SoftmaxState::none();
#pragma unroll
      for (int i = 0; i < kPerLane * kX; ++i) q[h][i] = 0.0f;
#pragma unroll
      for (int i = 0; i < kPerValueLane * kX; ++i) out[h][i] = 0.0f;
    }
  }
  __device__ __forceinline__ int chunk(int j) const { return part + j * kLanes; }
  __device__ __forceinline__ bool has(int j) const { return kChunks % kLanes == 0 || chunk(j) < kChunks; }
  __device__ __forceinline__ int value_chunk(int j) const { return value_part + j * kValueLanes; }
  __device__ __forceinline__ bool has_value(int j) const {
    return kChunks % kValueLanes == 0 || value_chunk(j) < kChunks;
  }

  /// From kHeads rows of dtype T (global) or float (shared).
  template <class S>
  __device__ __forceinline__ void load_q(const S* rows, float scale) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h)
#pragma unroll
      for (int j = 0; j < kPerLane; ++j)
        if (has(j)) {
          const auto x = to_float(load_vec<kX>(rows + h * kHeadDim + chunk(j) * kX));
#pragma unroll
          for (int i = 0; i < kX; ++i) q[h][j * kX + i] = x[i] * scale;
        }
  }

  /// Keys [first, end) of a sequence of `length` for the query heads from first_head on. A problem with
  /// append makes the new rows before, and the block that owns the last key attends to them and writes them.
  template <int kWarps>
  __device__ __forceinline__ void attend_sequence(const AttentionDecodeArgs& args, int b, int first_head,
                                                  int first, int end, int length, float* rows) {
    const KvCache<P> cache(args, b, first_head / P::kGroup);
    const AddedScores<P, kHeads> added(args, b, first_head, length);
    const float scale = args.scale * kLog2e * cache.head_k_scale();
    const bool owner = P::kAppend && end == length;  // of the new key
    if (owner) end = length - 1;
    Ring ring;
    if constexpr (kStages > 1) {
#pragma unroll
      for (int ahead = 0; ahead < kStages - 1; ++ahead)
        ask(cache, ring, ahead, first_strip(first) + ahead * kWarps * kStrip, end);
    }
    if constexpr (P::kAppend) {
      __shared__ __align__(64) NewRows<kHeads, kHeadDim> fresh;
      make_new_rows<P, kHeads, kWarps * 32>(args, cache, b, first_head, length - 1, fresh);
      __syncthreads();
      if (owner && first_head % P::kGroup == 0) write_new_row<kWarps * 32>(cache, length - 1, fresh);
      load_q(&fresh.q[0][0], scale);
      attend<kWarps>(cache, added, ring, first, end, rows);
      if (owner && threadIdx.x < 32) attend_row(fresh, added, length - 1);
    } else {
      load_q(static_cast<const typename P::T*>(args.q) +
                 (static_cast<long long>(b) * P::kQHeads + first_head) * kHeadDim,
             scale);
      attend<kWarps>(cache, added, ring, first, end, rows);
    }
  }

  /// Keys [first, end), the kWarps warps of the block taking turns; of a ring the first strips have been
  /// asked for. `rows`: shared memory as store() takes it.
  template <int kWarps>
  __device__ __forceinline__ void attend(const KvCache<P>& cache, const AddedScores<P, kHeads>& added,
                                         Ring& ring, int first, int end, float* rows) {
    for (int strip = first_strip(first); strip < end; strip += kWarps * kStrip) {
      Strip kv;
      if constexpr (kStages > 1) {
        ask(cache, ring, kStages - 1, strip + (kStages - 1) * kWarps * kStrip, end);
        kv = ring.take();
      } else {
        fetch(cache, strip, end, kv);
      }

      float score[kHeads][kUnroll] = {};
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
        for (int j = 0; j < kPerLane; ++j)
          if (has(j)) {
            const auto x = to_float(kv.pieces[u * kPerLane + j]);
#pragma unroll
            for (int h = 0; h < kHeads; ++h)
#pragma unroll
              for (int i = 0; i < kX; ++i) score[h][u] += q[h][j * kX + i] * x[i];
          }
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
          const float s = warp_reduce<Sum, kLanes>(score[h][u]) * (P::kRowScales ? kv.scales[u] : 1.0f);
          const int key = key_of(strip, u);
          score[h][u] = key < end ? added(s, h, key) : -WARPTUNE_INFINITY;
        }
      }
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        float max = score[h][0];
#pragma unroll
        for (int u = 1; u < kUnroll; ++u) max = fmaxf(max, score[h][u]);
        if constexpr (kShared) max = over_groups<Max, kLanes>(max);
        const float factor = state[h].raise(max);
#pragma unroll
        for (int i = 0; i < kPerValueLane * kX; ++i) out[h][i] *= factor;
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) state[h].sum += score[h][u] = state[h].weight(score[h][u]);
      }
      if constexpr (kShared) {
        if (part == 0) {
#pragma unroll
          for (int h = 0; h < kHeads; ++h)
#pragma unroll
            for (int u = 0; u < kUnroll; ++u) weight_at(rows, h, u * kGroups + group) = score[h][u];
        }
        __syncwarp();
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        float weight[kHeads];
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
          if constexpr (kShared)
            weight[h] = weight_at(rows, h, row_of(r));
          else
            weight[h] = score[h][r];
          if constexpr (P::kRowScales) weight[h] *= kv.scales[kUnroll + r];
        }
#pragma unroll
        for (int j = 0; j < kPerValueLane; ++j)
          if (has_value(j)) {
            const auto x = to_float(kv.pieces[kKeyPieces + r * kPerValueLane + j]);
#pragma unroll
            for (int h = 0; h < kHeads; ++h)
#pragma unroll
              for (int i = 0; i < kX; ++i) out[h][j * kX + i] += weight[h] * x[i];
          }
      }
      if constexpr (kShared) __syncwarp();  // the weights are read before the next strip's, or rows, come
    }
  }

  /// One more key whose rows are in shared memory, for the first group of the warp. The whole warp calls it.
  __device__ __forceinline__ void attend_row(const NewRows<kHeads, kHeadDim>& rows,
                                             const AddedScores<P, kHeads>& added, int key) {
    const float* k = rows.kv[0];
    const float* v = rows.kv[1];
    const float k_scale = P::kRowScales ? rows.scales[0] : 1.0f,
                v_scale = P::kRowScales ? rows.scales[1] : 1.0f;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      float score = 0.0f;
#pragma unroll
      for (int j = 0; j < kPerLane; ++j)
        if (has(j))
#pragma unroll
          for (int i = 0; i < kX; ++i) score += q[h][j * kX + i] * k[chunk(j) * kX + i];
      score = added(warp_reduce<Sum, kLanes>(score) * k_scale, h, key);
      const float factor = state[h].raise(score), weight = state[h].weight(score);  // the same in all lanes
      if (group == 0) state[h].sum += weight;
      const float value_weight = value_group == 0 ? weight * v_scale : 0.0f;
#pragma unroll
      for (int j = 0; j < kPerValueLane; ++j)
        if (has_value(j))
#pragma unroll
          for (int i = 0; i < kX; ++i)
            out[h][j * kX + i] = out[h][j * kX + i] * factor + value_weight * v[value_chunk(j) * kX + i];
    }
  }

  /// Merges the groups of each warp and puts its result into shared memory: rows [kWarps][kHeads][kHeadDim],
  /// states [kWarps][kHeads].
  __device__ __forceinline__ void store(float* rows, SoftmaxState* states) {
    rows += threadIdx.x / 32 * (kHeads * kHeadDim);
    states += threadIdx.x / 32 * kHeads;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const float max = over_groups<Max, kLanes>(state[h].max);
      const float factor = state[h].raise(max);
      const float sum = over_groups<Sum, kLanes>(state[h].sum);
      if (threadIdx.x % 32 == 0) {
        states[h].max = max;
        states[h].sum = sum;
      }
#pragma unroll
      for (int j = 0; j < kPerValueLane; ++j)
#pragma unroll
        for (int i = 0; i < kX; ++i) {
          const float x = over_groups<Sum, kValueLanes>(out[h][j * kX + i] * factor);
          if (value_group == 0 && has_value(j)) rows[h * kHeadDim + value_chunk(j) * kX + i] = x;
        }
    }
  }

 private:
  /// Brings the pieces of this lane of a strip to a LaneStrip or a LaneSlot.
  template <class To>
  __device__ __forceinline__ void fetch(const KvCache<P>& cache, int strip, int end, To& to) const {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const long long row = cache.row(min_of(key_of(strip, u), end - 1));
      if constexpr (P::kRowScales) to.scale(u, cache.k_scales + row);
#pragma unroll
      for (int j = 0; j < kPerLane; ++j)
        if (has(j)) to.piece(u * kPerLane + j, cache.k_at(row, chunk(j) * kX));
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const long long row = cache.row(min_of(strip + row_of(r), end - 1));
      if constexpr (P::kRowScales) to.scale(kUnroll + r, cache.v_scales + row);
#pragma unroll
      for (int j = 0; j < kPerValueLane; ++j)
        if (has_value(j)) to.piece(kKeyPieces + r * kPerValueLane + j, cache.v_at(row, value_chunk(j) * kX));
    }
  }
  /// Asks for a strip, if there is one, into the slot `ahead` strips behind the next one. That slot's strip
  /// has been used.
  __device__ __forceinline__ void ask(const KvCache<P>& cache, const Ring& ring, int ahead, int strip,
                                      int end) const {
    if (strip < end) {
      LaneSlot<C> slot = ring.slot(ahead);
      fetch(cache, strip, end, slot);
    }
    cp_async_commit();
  }
  /// Of this warp.
  static __device__ __forceinline__ int first_strip(int first) {
    return first + static_cast<int>(threadIdx.x) / 32 * kStrip;
  }
  /// The weight of key `key` of the strip, where the warp's rows will lie.
  static __device__ __forceinline__ float& weight_at(float* rows, int h, int key) {
    return rows[threadIdx.x / 32 * (kHeads * kHeadDim) + h * kStrip + key];
  }
  __device__ __forceinline__ int key_of(int strip, int u) const { return strip + u * kGroups + group; }
  /// Row r of V of this lane's value group, within the strip.
  __device__ __forceinline__ int row_of(int r) const { return r * kValueGroups + value_group; }
  /// Over the lanes of a warp that have the same place in their groups of kWidth.
  template <class Op, int kWidth>
  static __device__ __forceinline__ float over_groups(float x) {
#pragma unroll
    for (int offset = kWidth; offset < 32; offset *= 2)
      x = Op::combine(x, __shfl_xor_sync(0xffffffffu, x, offset));
    return x;
  }
};

}  // namespace warptune
