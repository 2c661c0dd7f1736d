#pragma once
// Splits of the keys of a sequence, and how their results become one. A split that holds keys leaves, per
// query head, an unnormalised row and its softmax state in the workspace: rows [batch * q_heads, splits,
// head_dim] fp32, states [batch * q_heads, splits], arrivals [batch * q_heads].
#include "kernels/attention_decode/output.cuh"
#include "kernels/common/barrier.cuh"
#include "kernels/common/reduce.cuh"

namespace warptune {

/// Keys [first, end) of one split; `active` splits hold keys, the ones after them none.
struct SplitRange {
  int first, end, active;
};
/// The keys per split are given (kKeys), or follow their number at run time, in steps of 16, so that one
/// launch geometry serves every length.
template <int kSplits, int kKeys = 0>
__device__ __forceinline__ SplitRange split_range(int begin, int length, int split) {
  const int count = length - begin;
  const int keys = kKeys ? kKeys : max_of(16, ceil_div(ceil_div(count, kSplits), 16) * 16);
  const long long first = begin + static_cast<long long>(split) * keys;
  const int from = first < length ? static_cast<int>(first) : length;
  return {from, length - from < keys ? length : from + keys, ceil_div(count, keys)};
}
template <int kSplits>
__device__ __forceinline__ SplitRange split_range(int length, int split) {
  return split_range<kSplits>(0, length, split);
}

template <int kQHeads, int kHeadDim, int kSplits>
struct SplitWorkspace {
  float* rows;
  SoftmaxState* states;
  unsigned* arrivals;

  __device__ __forceinline__ explicit SplitWorkspace(const AttentionDecodeArgs& args) {
    const long long pieces = static_cast<long long>(args.batch) * kQHeads * kSplits;
    rows = static_cast<float*>(args.workspace);
    states = reinterpret_cast<SoftmaxState*>(rows + pieces * kHeadDim);
    arrivals = reinterpret_cast<unsigned*>(states + pieces);
  }
};

/// Zeros for kHeads rows of a finished sequence.
template <class T, int kHeads, int kHeadDim, int kBlock>
__device__ __forceinline__ void store_zeros(T* out) {
  for (int i = threadIdx.x; i < kHeads * kHeadDim; i += kBlock) out[i] = from_float<T>(0.0f);
}

/// Merges the warps of a block (shared memory: the rows [kHeads][kHeadDim] of warp w at w * kStride, states
/// [kWarps][kHeads]) and hands each element with its state to `put(head, i, value, state)`.
template <int kWarps, int kHeads, int kHeadDim, int kStride, class Put>
__device__ __forceinline__ void merge_warps(const float* rows, const SoftmaxState* states, Put put) {
  for (int item = threadIdx.x; item < kHeads * kHeadDim; item += kWarps * 32) {
    const int head = item / kHeadDim;
    SoftmaxState all = SoftmaxState::none();
#pragma unroll
    for (int w = 0; w < kWarps; ++w) all.max = fmaxf(all.max, states[w * kHeads + head].max);
    float value = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float factor = all.weight(states[w * kHeads + head].max);
      all.sum += factor * states[w * kHeads + head].sum;
      value += factor * rows[w * kStride + item];
    }
    put(head, item % kHeadDim, value, all);
  }
}

/// Floats of shared memory that combine_splits needs besides the weights.
template <int kBlock>
inline constexpr int kCombineFloats = kBlock * 4;

/// Merges the active splits of kHeads rows, from row `first` (sequence * q_heads + head) on, into
/// `out`. Shared memory: weights [kHeads][kSplits], sums [kCombineFloats<kBlock>].
template <class P, int kSplits, int kHeads, int kBlock>
__device__ __forceinline__ void combine_splits(
    const SplitWorkspace<P::kQHeads, P::kHeadDim, kSplits>& workspace, long long first, int active,
    const Output<P>& out, float* weights, float* sums) {
  constexpr int kHeadDim = P::kHeadDim;
  constexpr int kWarps = kBlock / 32, kColumns = kHeads * kHeadDim / 4, kPerRow = kHeadDim / 4;
  constexpr int kTeams = max_of(1, kBlock / kColumns);  // how many threads share the splits of a column
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int h = warp; h < kHeads; h += kWarps) {
    const float2* states = reinterpret_cast<const float2*>(workspace.states + (first + h) * kSplits);
    float max = kNoScore, sum = 0.0f;
    for (int s = lane; s < active; s += 32) max = fmaxf(max, __ldcg(states + s).x);
    max = warp_reduce<Max>(max);
    for (int s = lane; s < active; s += 32) {
      const float2 state = __ldcg(states + s);
      const float weight = exp2_fast(state.x - max);
      weights[h * kSplits + s] = weight;
      sum += weight * state.y;
    }
    sum = warp_reduce<Sum>(sum);
    for (int s = lane; s < active; s += 32) weights[h * kSplits + s] *= sum > 0.0f ? 1.0f / sum : 0.0f;
    if (lane == 0) out.put_lse(h, {max, sum});
  }
  named_barrier_sync<kBlock>();

  const auto sum_column = [&](int column, int team) {
    const int head = column / kPerRow;
    const float4* rows =
        reinterpret_cast<const float4*>(workspace.rows + (first + head) * kSplits * kHeadDim) +
        column % kPerRow;
    Vec<float, 4> x = {};
#pragma unroll 4
    for (int s = team; s < active; s += kTeams) {
      const float4 row = __ldcg(rows + s * kPerRow);
      const float weight = weights[head * kSplits + s];
      x[0] += weight * row.x;
      x[1] += weight * row.y;
      x[2] += weight * row.z;
      x[3] += weight * row.w;
    }
    return x;
  };
  if constexpr (kTeams == 1) {
    for (int column = threadIdx.x; column < kColumns; column += kBlock)
      out.template put<4>(column / kPerRow, column % kPerRow * 4, sum_column(column, 0));
  } else {
    const int column = threadIdx.x % kColumns, team = threadIdx.x / kColumns;
    if (team < kTeams) store_vec<4>(sums + threadIdx.x * 4, sum_column(column, team));
    named_barrier_sync<kBlock>();
    if (threadIdx.x < kColumns) {
      Vec<float, 4> x = {};
#pragma unroll
      for (int t = 0; t < kTeams; ++t) {
        const auto part = load_vec<4>(sums + (t * kColumns + column) * 4);
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] += part[i];
      }
      out.template put<4>(column / kPerRow, column % kPerRow * 4, x);
    }
  }
}
/// The same without features.
template <class T, int kQHeads, int kHeadDim, int kSplits, int kHeads, int kBlock>
__device__ __forceinline__ void combine_splits(const SplitWorkspace<kQHeads, kHeadDim, kSplits>& workspace,
                                               long long first, int active, T* out, float* weights,
                                               float* sums) {
  using P = DecodeProblem<T, kQHeads, 1, kHeadDim>;
  AttentionDecodeArgs args{};
  args.out = out;
  combine_splits<P, kSplits, kHeads, kBlock>(workspace, first, active, Output<P>(args, 0, 0), weights, sums);
}

}  // namespace warptune
