// Split-KV P.V on CUDA cores.
// Grid: (kSplits, groups of kHeads query heads, sequences); a block reduces over kSplitKeys keys, so that
//   one sequence uses all SMs. The kHeads query heads of a KV head share the rows of V
//   (pv_accumulator.cuh).
// Loads: kLanes threads per row of V, 16-byte read-only loads, kUnroll rows in flight per thread group.
// Combine: last-block reduction (barrier.cuh) of fp32 partial rows, in the order of the splits.
// Source: Flash-Decoding (split-KV).
#include "kernels/common/barrier.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/pv_accumulator.cuh"
#include "kernels/logits_dot_v/args.h"

namespace warptune {

template <class T, int kQHeads, int kKvHeads, int kHeadDim, int kBlock, int kSplits, int kSplitKeys,
          int kLanes, int kUnroll, int kHeads>
__global__ void __launch_bounds__(kBlock) logits_dot_v_split_kv(LogitsDotVArgs args) {
  using Accumulator = PvAccumulator<T, kHeadDim, kBlock, kLanes, kHeads>;
  constexpr int kGroup = kQHeads / kKvHeads, kRow = kHeads * kHeadDim;
  static_assert(kGroup % kHeads == 0);
  __shared__ float rows[Accumulator::kWarps * kRow];
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

  Accumulator accumulator;
  for (int key0 = first + accumulator.group; key0 < end; key0 += Accumulator::kGroups * kUnroll) {
    Vec<T, Accumulator::kX> values[kUnroll][Accumulator::kPerLane];
    float weight[kUnroll][kHeads];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int key = key0 + u * Accumulator::kGroups, at = min_of(key, end - 1);
#pragma unroll
      for (int j = 0; j < Accumulator::kPerLane; ++j)
        if (accumulator.has(j))
          values[u][j] = load_vec_nc<Accumulator::kX>(v + static_cast<long long>(at) * kHeadDim +
                                                      accumulator.vector(j) * Accumulator::kX);
#pragma unroll
      for (int h = 0; h < kHeads; ++h)
        weight[u][h] = key < end ? to_float(logits[static_cast<long long>(h) * args.capacity + key]) : 0.0f;
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
#pragma unroll
      for (int j = 0; j < Accumulator::kPerLane; ++j)
        if (accumulator.has(j)) accumulator.add(j, values[u][j], weight[u]);
  }

  T* out = static_cast<T*>(args.out) + row * kHeadDim;
  if (kSplits == 1 || active == 1) {
    accumulator.reduce(rows, [&](int i, float value) { out[i] = from_float<T>(value); });
    return;
  }
  // Workspace: float partial[batch * q_heads / kHeads][kSplits][kRow], then unsigned
  // counters[batch * q_heads / kHeads].
  const long long group = static_cast<long long>(b) * (kQHeads / kHeads) + blockIdx.y,
                  groups = static_cast<long long>(args.batch) * (kQHeads / kHeads);
  using Offset = typename Conditional<(1ll * kSplits * kRow < 1ll << 31), int, long long>::type;
  float* partial = static_cast<float*>(args.workspace) + group * kSplits * kRow;
  unsigned* counter =
      reinterpret_cast<unsigned*>(static_cast<float*>(args.workspace) + groups * kSplits * kRow) + group;
  accumulator.reduce(rows, [&](int i, float value) { partial[Offset{split} * kRow + i] = value; });
  if (!is_last_block<kBlock>(counter, active)) return;
  for (int i = threadIdx.x; i < kRow; i += kBlock) {
    float value = 0.0f;
    for (Offset s = 0; s < active; ++s) value += __ldcg(partial + s * kRow + i);
    out[i] = from_float<T>(value);
  }
}

}  // namespace warptune
