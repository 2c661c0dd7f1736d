// Idea: a context that is short enough stays in shared memory whole. One block per sequence and share of a
// group's heads asks for all of K and V at once with cp.async, so that the copies are one round trip to
// memory; scores, one softmax over all of them (nothing is rescaled) and the sum over V follow in place,
// while V may still be under way. One launch, no splits to merge.
#include "kernels/attention_decode/append.cuh"
#include "kernels/attention_decode/combine.cuh"
#include "kernels/attention_decode/scores.cuh"
#include "kernels/common/cp_async.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/pv_accumulator.cuh"

namespace warptune {

/// Dynamic shared memory, for `keys` keys: rows of K, where the warps' sums lie later; rows of V; scores
/// [kHeads][keys]. Rows are apart so that lanes of several keys meet in few banks.
template <class P, int kBlock, int kLanes, int kHeads>
struct ShortContext : ThreadGroups<typename P::C, P::kHeadDim, kBlock, kLanes> {
  using C = typename P::C;
  using Lanes = ThreadGroups<C, P::kHeadDim, kBlock, kLanes>;
  using Lanes::kX, Lanes::kVectors, Lanes::kPerLane, Lanes::kGroups, Lanes::kWarps;
  using Lanes::vector, Lanes::group, Lanes::has, Lanes::part;
  static constexpr int kHeadDim = P::kHeadDim;
  static constexpr int kStride = kHeadDim * sizeof(C) + (kLanes < 8 ? 16 * kLanes : 0);

  unsigned char *k, *v;
  float *scores, *sums;
  int first, keys;

  __device__ __forceinline__ ShortContext(unsigned char* shared, int first, int keys)
      : k(shared),
        v(shared + max_of(keys * kStride, kWarps * kHeads * kHeadDim * 4)),
        scores(reinterpret_cast<float*>(v + keys * kStride)),
        sums(reinterpret_cast<float*>(shared)),
        first(first),
        keys(keys) {}

  __device__ __forceinline__ Vec<C, kX> piece(const unsigned char* rows, int key, int j) const {
    return load_vec<kX>(reinterpret_cast<const C*>(rows + key * kStride) + vector(j) * kX);
  }

  /// Asks for `count` rows of K, then of V: a group of copies each.
  __device__ __forceinline__ void copy(const KvCache<P>& cache, int count) {
    for (int item = threadIdx.x; item < count * kVectors; item += kBlock)
      cp_async_16(k + place(item), cache.k_at(cache.row(first + item / kVectors), item % kVectors * kX));
    cp_async_commit();
    for (int item = threadIdx.x; item < count * kVectors; item += kBlock)
      cp_async_16(v + place(item), cache.v_at(cache.row(first + item / kVectors), item % kVectors * kX));
    cp_async_commit();
  }
  static __device__ __forceinline__ int place(int item) {
    return item / kVectors * kStride + item % kVectors * 16;
  }
  /// The last key, which this step makes.
  __device__ __forceinline__ void put_last(const NewRows<kHeads, kHeadDim>& fresh) {
    C* to[2] = {reinterpret_cast<C*>(k + (keys - 1) * kStride),
                reinterpret_cast<C*>(v + (keys - 1) * kStride)};
    for (int i = threadIdx.x; i < 2 * kHeadDim; i += kBlock)
      to[i / kHeadDim][i % kHeadDim] = from_float<C>(fresh.kv[i / kHeadDim][i % kHeadDim]);
  }

  /// Scores from kHeads rows of q (dtype or fp32); `k_scale(key)` multiplies those of a key.
  template <class S, class Scale>
  __device__ __forceinline__ void score(const S* q_rows, float scale, const AddedScores<P, kHeads>& added,
                                        Scale k_scale) {
    float q[kHeads][kPerLane * kX] = {};
#pragma unroll
    for (int h = 0; h < kHeads; ++h)
#pragma unroll
      for (int j = 0; j < kPerLane; ++j)
        if (has(j)) {
          const auto x = to_float(load_vec<kX>(q_rows + h * kHeadDim + vector(j) * kX));
#pragma unroll
          for (int i = 0; i < kX; ++i) q[h][j * kX + i] = x[i] * scale;
        }
    for (int strip = 0; strip < keys; strip += kGroups) {  // whole warps: lanes of a warp reduce together
      const int key = min_of(strip + group, keys - 1);
      float sum[kHeads] = {};
#pragma unroll
      for (int j = 0; j < kPerLane; ++j)
        if (has(j)) {
          const auto x = to_float(piece(k, key, j));
#pragma unroll
          for (int h = 0; h < kHeads; ++h)
#pragma unroll
            for (int i = 0; i < kX; ++i) sum[h] += q[h][j * kX + i] * x[i];
        }
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float s = warp_reduce<Sum, kLanes>(sum[h]);
        if (part == 0 && strip + group < keys)
          scores[h * keys + key] = added(s * k_scale(key), h, first + key);
      }
    }
  }

  /// Scores become weights, times `v_scale(key)`; leaves the softmax state of each head. A warp per head.
  template <class Scale>
  __device__ __forceinline__ void weigh(SoftmaxState* states, Scale v_scale) {
    for (int h = threadIdx.x / 32; h < kHeads; h += kWarps) {
      float* row = scores + h * keys;
      SoftmaxState state = SoftmaxState::none();
      for (int key = threadIdx.x % 32; key < keys; key += 32) state.max = fmaxf(state.max, row[key]);
      state.max = warp_reduce<Max>(state.max);
      for (int key = threadIdx.x % 32; key < keys; key += 32) {
        const float weight = state.weight(row[key]);
        state.sum += weight;
        row[key] = weight * v_scale(key);
      }
      state.sum = warp_reduce<Sum>(state.sum);
      if (threadIdx.x % 32 == 0) states[h] = state;
    }
  }

  /// The sums over V, element by element, to put(element of the heads' rows, value).
  template <class Put>
  __device__ __forceinline__ void sum_values(Put put) const {
    PvAccumulator<C, kHeadDim, kBlock, kLanes, kHeads> of_values;
    for (int key = group; key < keys; key += kGroups) {
      float weight[kHeads];
#pragma unroll
      for (int h = 0; h < kHeads; ++h) weight[h] = scores[h * keys + key];
#pragma unroll
      for (int j = 0; j < kPerLane; ++j)
        if (has(j)) of_values.add(j, piece(v, key, j), weight);
    }
    of_values.reduce(sums, put);
  }
};

template <class P, int kBlock, int kLanes, int kHeads>
__global__ void __launch_bounds__(kBlock) attention_decode_short_context(AttentionDecodeArgs args) {
  constexpr int kHeadDim = P::kHeadDim;
  static_assert(P::kGroup % kHeads == 0);
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ SoftmaxState states[kHeads];
  pdl_launch_dependents();
  pdl_wait();
  const int first_head = blockIdx.x * kHeads, b = blockIdx.y, length = args.lengths[b];
  const Output<P> out(args, b, first_head);
  if (length == 0) {
    out.template put_nothing<kHeads, kBlock>();
    return;
  }
  const int first = P::first_key(length), keys = length - first;
  const KvCache<P> cache(args, b, first_head / P::kGroup);
  const AddedScores<P, kHeads> added(args, b, first_head, length);
  const float scale = args.scale * kLog2e * cache.head_k_scale();
  ShortContext<P, kBlock, kLanes, kHeads> context(shared, first, keys);
  context.copy(cache, keys - P::kAppend);
  if constexpr (P::kAppend) {
    __shared__ __align__(64) NewRows<kHeads, kHeadDim> fresh;
    make_new_rows<P, kHeads, kBlock>(args, cache, b, first_head, length - 1, fresh);
    __syncthreads();
    if (first_head % P::kGroup == 0) write_new_row<kBlock>(cache, length - 1, fresh);
    context.put_last(fresh);
    cp_async_wait<1>();
    __syncthreads();
    const auto of = [&](int which, int key) {
      if (!P::kRowScales) return 1.0f;
      if (key == keys - 1) return fresh.scales[which];
      return which == 0 ? cache.k_scale(cache.row(first + key)) : cache.v_scale(cache.row(first + key));
    };
    context.score(&fresh.q[0][0], scale, added, [&](int key) { return of(0, key); });
    __syncthreads();
    context.weigh(states, [&](int key) { return of(1, key); });
  } else {
    cp_async_wait<1>();
    __syncthreads();
    context.score(static_cast<const typename P::T*>(args.q) +
                      (static_cast<long long>(b) * P::kQHeads + first_head) * kHeadDim,
                  scale, added,
                  [&](int key) { return P::kRowScales ? cache.k_scale(cache.row(first + key)) : 1.0f; });
    __syncthreads();
    context.weigh(states,
                  [&](int key) { return P::kRowScales ? cache.v_scale(cache.row(first + key)) : 1.0f; });
  }
  cp_async_wait<0>();
  __syncthreads();
  context.sum_values([&](int item, float value) {
    out.put(item / kHeadDim, item % kHeadDim, value, states[item / kHeadDim]);
  });
}

}  // namespace warptune
