// Idea: one block per sequence and query head; groups of lanes take keys with 16-byte loads, no barrier in
// the loop over keys, one merge through shared memory at the end. The classic fused masked multi-head
// attention; with kAppend it also adds the bias, rotates, and appends k and v.
#include "attention_decode/append.cuh"
#include "attention_decode/combine.cuh"
#include "attention_decode/lane_groups.cuh"
#include "common/pdl.cuh"

namespace warptune {

template <class T, int kQHeads, int kKvHeads, int kHeadDim, bool kDsx, bool kAppend, int kBlock, int kLanes,
          int kValueLanes, int kUnroll>
__global__ void __launch_bounds__(kBlock) attention_decode_vectorized(AttentionDecodeArgs args) {
  constexpr int kWarps = kBlock / 32, kGroup = kQHeads / kKvHeads;
  __shared__ __align__(16) float rows[kWarps * kHeadDim];
  __shared__ SoftmaxState states[kWarps];
  pdl_launch_next();
  pdl_wait();
  const int head = blockIdx.x, b = blockIdx.y, length = args.lengths[b];
  T* out = static_cast<T*>(args.out) + (static_cast<long long>(b) * kQHeads + head) * kHeadDim;
  if (length == 0) {
    store_zeros<T, 1, kHeadDim, kBlock>(out);
    return;
  }
  const HeadCache<T, kHeadDim, kDsx> cache(args, static_cast<long long>(b) * kKvHeads + head / kGroup);
  LaneGroups<T, kHeadDim, kDsx, 1, kLanes, kValueLanes, kUnroll> groups;
  if constexpr (kAppend) {
    __shared__ __align__(32) NewRows<1, kHeadDim> fresh;
    make_new_rows<T, kQHeads, kKvHeads, kHeadDim, 1, kBlock>(args, b, head, length - 1, fresh);
    __syncthreads();
    if (head % kGroup == 0) write_new_row<kBlock>(cache, length - 1, fresh.k, fresh.v);
    groups.load_q(&fresh.q[0][0], args.scale * kLog2e);
    groups.template attend<kWarps>(cache, 0, length - 1, rows);
    if (threadIdx.x < 32) groups.attend_row(fresh.k, fresh.v);
  } else {
    groups.load_q(static_cast<const T*>(args.q) + (static_cast<long long>(b) * kQHeads + head) * kHeadDim,
                  args.scale * kLog2e);
    groups.template attend<kWarps>(cache, 0, length, rows);
  }
  groups.store(rows, states);
  __syncthreads();
  merge_warps<kWarps, 1, kHeadDim, kHeadDim>(rows, states, [&](int, int i, float value, SoftmaxState all) {
    out[i] = from_float<T>(value / all.sum);
  });
}

}  // namespace warptune
