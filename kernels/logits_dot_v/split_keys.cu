// Idea: the keys of a sequence are split over blocks, kSplitKeys each, so that one sequence keeps all
// multiprocessors loading; kLanes lanes per row of V with 16-byte loads, kUnroll rows in flight per group of
// lanes, kHeads query heads of a group sharing each row. The block that arrives last sums the splits.
#include "kernels/attention_decode/combine.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/pv_accumulator.cuh"
#include "kernels/logits_dot_v/args.h"

namespace warptune {

template <class T, int kQHeads, int kKvHeads, int kHeadDim, int kBlock, int kSplits, int kSplitKeys,
          int kLanes, int kUnroll, int kHeads>
__global__ void __launch_bounds__(kBlock) logits_dot_v_split_keys(LogitsDotVArgs args) {
  using Sums = PvAccumulator<T, kHeadDim, kBlock, kLanes, kHeads>;
  constexpr int kGroup = kQHeads / kKvHeads, kRow = kHeads * kHeadDim;
  static_assert(kGroup % kHeads == 0);
  __shared__ float rows[Sums::kWarps * kRow];
  pdl_launch_dependents();
  pdl_wait();
  const int split = blockIdx.x, first_head = blockIdx.y * kHeads, b = blockIdx.z, length = args.lengths[b];
  const int active = max_of(1, ceil_div(length, kSplitKeys));  // without keys, split 0 writes zeros
  if (split >= active) return;
  const int first = split * kSplitKeys, end = min_of(length, first + kSplitKeys);
  const long long row = static_cast<long long>(b) * kQHeads + first_head,
                  kv_row = static_cast<long long>(b) * kKvHeads + first_head / kGroup;
  const T* logits = static_cast<const T*>(args.logits) + row * args.capacity;
  const T* v = static_cast<const T*>(args.v_cache) + kv_row * args.capacity * kHeadDim;

  Sums sums;
  for (int strip = first + sums.group; strip < end; strip += Sums::kGroups * kUnroll) {
    Vec<T, Sums::kX> piece[kUnroll][Sums::kPerLane];
    float weight[kUnroll][kHeads];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int key = strip + u * Sums::kGroups, at = min_of(key, end - 1);
#pragma unroll
      for (int j = 0; j < Sums::kPerLane; ++j)
        if (sums.has(j))
          piece[u][j] =
              load_vec_nc<Sums::kX>(v + static_cast<long long>(at) * kHeadDim + sums.vector(j) * Sums::kX);
#pragma unroll
      for (int h = 0; h < kHeads; ++h)
        weight[u][h] = key < end ? to_float(logits[static_cast<long long>(h) * args.capacity + key]) : 0.0f;
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
#pragma unroll
      for (int j = 0; j < Sums::kPerLane; ++j)
        if (sums.has(j)) sums.add(j, piece[u][j], weight[u]);
  }

  T* out = static_cast<T*>(args.out) + row * kHeadDim;
  if (kSplits == 1 || active == 1) {
    sums.reduce(rows, [&](int i, float value) { out[i] = from_float<T>(value); });
    return;
  }
  // Partial rows [batch * q_heads / kHeads][kSplits][kRow] fp32, then an arrival counter for each of the
  // former.
  const long long piece = static_cast<long long>(b) * (kQHeads / kHeads) + blockIdx.y,
                  pieces = static_cast<long long>(args.batch) * (kQHeads / kHeads);
  float* partial = static_cast<float*>(args.workspace) + piece * kSplits * kRow;
  unsigned* arrivals =
      reinterpret_cast<unsigned*>(static_cast<float*>(args.workspace) + pieces * kSplits * kRow) + piece;
  sums.reduce(rows, [&](int i, float value) { partial[split * kRow + i] = value; });
  if (!is_last_block<kBlock>(arrivals, active)) return;
  for (int i = threadIdx.x; i < kRow; i += kBlock) {
    float value = 0.0f;
    for (int s = 0; s < active; ++s) value += __ldcg(partial + s * kRow + i);
    out[i] = from_float<T>(value);
  }
}

}  // namespace warptune
