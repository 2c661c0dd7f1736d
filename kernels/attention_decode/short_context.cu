// Decode attention for contexts that fit in shared memory: one load, one softmax, nothing to combine.
// Grid: [q_heads / kHeads, batch]; a block computes kHeads query heads of one KV head.
// Load: all of K, then all of V, with cp.async, so that the loads cost one round trip to memory.
// Compute: groups of kThreadsPerKey lanes per key; one softmax over all scores, a warp per head, without
//   rescaling; P.V starts when V has arrived.
// Append: new rows are computed while the cached rows arrive, then stored after them in shared memory.
// Sync: __syncthreads() between load, Q.K^T, softmax and P.V.
// Shared memory: K rows (later the partial sums of the warps), V rows, scores.
// Wins: nothing on an H200 (5.4 us against 3.0 at 256 keys, docs/lessons/attention_decode.md).
#include "kernels/attention_decode/append.cuh"
#include "kernels/common/cp_async.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/pv_accumulator.cuh"

namespace warptune {

/// K, V and scores of `keys` keys in dynamic shared memory: K rows, which partial sums of the warps
/// overwrite; V rows; scores [kHeads][keys]. Rows are padded against bank conflicts of lanes of several keys.
template <class P, int kBlock, int kThreadsPerKey, int kHeads>
struct ShortContext : ThreadGroups<typename P::C, P::kHeadDim, kBlock, kThreadsPerKey> {
  using C = typename P::C;
  using Lanes = ThreadGroups<C, P::kHeadDim, kBlock, kThreadsPerKey>;
  using Lanes::kX, Lanes::kVectors, Lanes::kPerLane, Lanes::kGroups, Lanes::kWarps;
  using Lanes::vector, Lanes::group, Lanes::has, Lanes::part;
  static constexpr int kHeadDim = P::kHeadDim;
  static constexpr int kStride = kHeadDim * sizeof(C) + (kThreadsPerKey < 8 ? 16 * kThreadsPerKey : 0);

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

  __device__ __forceinline__ Vec<C, kX> shared_vector(const unsigned char* rows, int key, int j) const {
    return load_vec<kX>(reinterpret_cast<const C*>(rows + key * kStride) + vector(j) * kX);
  }

  /// Issues the loads of `count` rows of K, then of V, as one cp.async group each.
  __device__ __forceinline__ void issue_loads(const KvCache<P>& cache, int count) {
    for (int item = threadIdx.x; item < count * kVectors; item += kBlock)
      cp_async_16(k + offset(item), cache.k_at(cache.row(first + item / kVectors), item % kVectors * kX));
    cp_async_commit();
    for (int item = threadIdx.x; item < count * kVectors; item += kBlock)
      cp_async_16(v + offset(item), cache.v_at(cache.row(first + item / kVectors), item % kVectors * kX));
    cp_async_commit();
  }
  static __device__ __forceinline__ int offset(int item) {
    return item / kVectors * kStride + item % kVectors * 16;
  }
  /// Places the new key after the cached ones.
  __device__ __forceinline__ void put_new_key(const NewRows<kHeads, kHeadDim>& new_rows) {
    C* to[2] = {reinterpret_cast<C*>(k + (keys - 1) * kStride),
                reinterpret_cast<C*>(v + (keys - 1) * kStride)};
    for (int i = threadIdx.x; i < 2 * kHeadDim; i += kBlock)
      to[i / kHeadDim][i % kHeadDim] = from_float<C>(new_rows.kv[i / kHeadDim][i % kHeadDim]);
  }

  /// Q.K^T from kHeads rows of q (dtype or fp32); k_scale(key) multiplies the scores of a key.
  template <class S, class Scale>
  __device__ __forceinline__ void compute_scores(const S* q_rows, float scale,
                                                 const ScoreBiasTerm<P, kHeads>& bias, Scale k_scale) {
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
    for (int tile = 0; tile < keys; tile += kGroups) {  // all lanes of a warp reduce together
      const int key = min_of(tile + group, keys - 1);
      float sum[kHeads] = {};
#pragma unroll
      for (int j = 0; j < kPerLane; ++j)
        if (has(j)) {
          const auto x = to_float(shared_vector(k, key, j));
#pragma unroll
          for (int h = 0; h < kHeads; ++h)
#pragma unroll
            for (int i = 0; i < kX; ++i) sum[h] += q[h][j * kX + i] * x[i];
        }
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float s = warp_reduce<Sum, kThreadsPerKey>(sum[h]);
        if (part == 0 && tile + group < keys) scores[h * keys + key] = bias(s * k_scale(key), h, first + key);
      }
    }
  }

  /// Softmax: scores become weights, times v_scale(key); returns the state of each head. A warp per head.
  template <class Scale>
  __device__ __forceinline__ void softmax(SoftmaxState* states, Scale v_scale) {
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

  /// P.V: calls put(element of the heads' rows, value) for each element.
  template <class Put>
  __device__ __forceinline__ void compute_pv(Put put) const {
    PvAccumulator<C, kHeadDim, kBlock, kThreadsPerKey, kHeads> of_values;
    for (int key = group; key < keys; key += kGroups) {
      float weight[kHeads];
#pragma unroll
      for (int h = 0; h < kHeads; ++h) weight[h] = scores[h * keys + key];
#pragma unroll
      for (int j = 0; j < kPerLane; ++j)
        if (has(j)) of_values.add(j, shared_vector(v, key, j), weight);
    }
    of_values.reduce(sums, put);
  }
};

template <class P, int kBlock, int kThreadsPerKey, int kHeads>
__global__ void __launch_bounds__(kBlock) attention_decode_short_context(typename P::Args args) {
  constexpr int kHeadDim = P::kHeadDim;
  static_assert(P::kGroup % kHeads == 0);
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ SoftmaxState states[kHeads];
  pdl_launch_dependents();
  pdl_wait();
  const int first_head = blockIdx.x * kHeads, b = blockIdx.y, length = args.lengths[b];
  const Output<P> out(args, b, first_head);
  if (length == 0) {
    out.template put_empty<kHeads, kBlock>();
    return;
  }
  const int first = P::first_key(length), keys = length - first;
  const KvCache<P> cache(args, b, first_head / P::kGroup);
  const ScoreBiasTerm<P, kHeads> bias(args, b, first_head, length);
  const float scale = args.scale * kLog2e * cache.head_k_scale();
  ShortContext<P, kBlock, kThreadsPerKey, kHeads> context(shared, first, keys);
  context.issue_loads(cache, keys - P::kAppend);
  if constexpr (P::kAppend) {
    __shared__ __align__(64) NewRows<kHeads, kHeadDim> new_rows;
    make_new_rows<P, kHeads, kBlock>(args, cache, b, first_head, length - 1, new_rows);
    __syncthreads();
    if (first_head % P::kGroup == 0) write_new_row<kBlock>(cache, length - 1, new_rows);
    context.put_new_key(new_rows);
    cp_async_wait<1>();
    __syncthreads();
    const auto scale_of = [&](int which, int key) {
      if (!P::kRowScales) return 1.0f;
      if (key == keys - 1) return new_rows.scales[which];
      return which == 0 ? cache.k_scale(cache.row(first + key)) : cache.v_scale(cache.row(first + key));
    };
    context.compute_scores(&new_rows.q[0][0], scale, bias, [&](int key) { return scale_of(0, key); });
    __syncthreads();
    context.softmax(states, [&](int key) { return scale_of(1, key); });
  } else {
    cp_async_wait<1>();
    __syncthreads();
    context.compute_scores(
        static_cast<const typename P::T*>(args.q) +
            (static_cast<long long>(b) * P::kQHeads + first_head) * kHeadDim,
        scale, bias, [&](int key) { return P::kRowScales ? cache.k_scale(cache.row(first + key)) : 1.0f; });
    __syncthreads();
    context.softmax(states,
                    [&](int key) { return P::kRowScales ? cache.v_scale(cache.row(first + key)) : 1.0f; });
  }
  cp_async_wait<0>();
  __syncthreads();
  context.compute_pv([&](int item, float value) {
    out.put(item / kHeadDim, item % kHeadDim, value, states[item / kHeadDim]);
  });
}

}  // namespace warptune
