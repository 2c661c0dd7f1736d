#pragma once
// What leaves: results of query heads through the epilogue, and the logarithms of their sums.
#include "kernels/attention_decode/cache.cuh"
#include "kernels/common/online_softmax.cuh"

namespace warptune {

template <class P>
struct Output {
  using T = typename P::T;
  typename P::Out* out;  // of the first head
  float* lse;
  const T* shift;
  const T* smooth;
  float out_scale;
  float v_scale;  // of the KV head

  __device__ __forceinline__ Output(const AttentionDecodeArgs& args, long long b, int first_head)
      : out(static_cast<typename P::Out*>(args.out) + (b * P::kQHeads + first_head) * P::kHeadDim),
        lse(args.lse + b * P::kQHeads + first_head),
        shift(static_cast<const T*>(args.shift) + first_head * P::kHeadDim),
        smooth(static_cast<const T*>(args.smooth) + first_head * P::kHeadDim),
        out_scale(args.out_scale),
        v_scale(KvCache<P>(args, b, first_head / P::kGroup).head_v_scale()) {}

  /// Elements from i on of head h: the weighted mean of codes of V.
  template <int N>
  __device__ __forceinline__ void put(int h, int i, Vec<float, N> x) const {
    const int at = h * P::kHeadDim + i;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      if constexpr (P::kQuantized && !P::kRowScales) x[j] *= v_scale;
      if constexpr (P::kEpilogue != kEpilogueNone)
        x[j] = (x[j] + to_float(shift[at + j])) * to_float(smooth[at + j]);
      if constexpr (P::kEpilogue == kEpilogueQuantize) x[j] *= out_scale;
    }
    store_vec<N>(out + at, from_float<typename P::Out>(x));
  }
  /// Element i of head h from sums over keys; the first also leaves the logarithm.
  __device__ __forceinline__ void put(int h, int i, float value, SoftmaxState all) const {
    put<1>(h, i, {all.sum > 0.0f ? value / all.sum : 0.0f});
    if (i == 0) put_lse(h, all);
  }
  __device__ __forceinline__ void put_lse(int h, SoftmaxState all) const {
    if constexpr (P::kLse) lse[h] = all.sum > 0.0f ? (all.max + log2f(all.sum)) / kLog2e : -WARPTUNE_INFINITY;
  }
  /// kHeads heads of a sequence without keys.
  template <int kHeads, int kBlock>
  __device__ __forceinline__ void put_nothing() const {
    for (int i = threadIdx.x; i < kHeads * P::kHeadDim; i += kBlock)
      put(i / P::kHeadDim, i % P::kHeadDim, 0.0f, SoftmaxState::none());
  }
};

}  // namespace warptune
