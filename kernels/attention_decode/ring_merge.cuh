#pragma once
// The end of the ring variants: warps of a block merge through shared memory, splits through the shared
// memory of a cluster, or through the workspace by the block that comes last (combine.cuh).
#include "attention_decode/combine.cuh"
#include "common/cluster.cuh"

namespace warptune {

/// The results of kParts parts (warps or blocks) for kHeads rows, unnormalised, in shared memory.
template <int kParts, int kHeads, int kHeadDim>
struct alignas(16) RingPartials {
  float rows[kParts][kHeads][kHeadDim];
  SoftmaxState states[kParts][kHeads];  // maximum in base-2 units, kNoScore where a part had no key
};

/// Merges the warps of every split of kHeads rows into the output; shared memory as it lies.
template <class P, int kWarps, int kHeads, int kSplits, bool kCluster>
struct RingMerge {
  static constexpr int kHeadDim = P::kHeadDim, kPerRow = kHeadDim / 4;  // columns are of four elements
  static constexpr int kBlock = kWarps * 32, kColumns = kHeads * kPerRow;

  RingPartials<kWarps, kHeads, kHeadDim> warps;
  RingPartials<1, kHeads, kHeadDim> block;
  float weights[kHeads * kSplits];  // of combine_splits, as are the sums
  alignas(16) float sums[kCombineFloats<kBlock>];

  /// A column of the merged rows of kParts parts, unnormalised, and the state over all of them. `state(part,
  /// head)`, `row(part, column)`: what a part left.
  template <int kParts, class State, class Row>
  static __device__ __forceinline__ Vec<float, 4> merge(int column, State state, Row row, SoftmaxState& all) {
    const int head = column / kPerRow;
    SoftmaxState states[kParts];
    all = SoftmaxState::none();
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      states[part] = state(part, head);
      all.max = fmaxf(all.max, states[part].max);
    }
    Vec<float, 4> sum = {};
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const float weight = all.weight(states[part].max);
      const Vec<float, 4> x = row(part, column);
      all.sum = fmaf(weight, states[part].sum, all.sum);
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i] = fmaf(weight, x[i], sum[i]);
    }
    return sum;
  }

  static __device__ __forceinline__ void put(const Output<P>& out, int column, Vec<float, 4> x,
                                             SoftmaxState all) {
    const float inverse = all.sum > 0.0f ? 1.0f / all.sum : 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] *= inverse;
    out.template put<4>(column / kPerRow, column % kPerRow * 4, x);
    if (column % kPerRow == 0) out.put_lse(column / kPerRow, all);
  }

  /// Rows first_row on of the op's output. All threads call, after a barrier; for a sequence without keys
  /// nobody does.
  __device__ __forceinline__ void finish(const AttentionDecodeArgs& args, long long first_row,
                                         const Output<P>& out) {
    const int split = blockIdx.x;
    const SplitWorkspace<P::kQHeads, kHeadDim, kSplits> workspace(args);
    for (int column = threadIdx.x; column < kColumns; column += kBlock) {
      SoftmaxState all;
      const Vec<float, 4> x = merge<kWarps>(
          column, [&](int part, int head) { return warps.states[part][head]; },
          [&](int part, int at) { return load_vec<4>(&warps.rows[part][0][0] + at * 4); }, all);
      const int head = column / kPerRow;
      if constexpr (kSplits == 1) {
        put(out, column, x, all);
      } else if constexpr (kCluster) {
        store_vec<4>(&block.rows[0][0][0] + column * 4, x);
        if (column % kPerRow == 0) block.states[0][head] = all;
      } else {
        const long long piece = (first_row + head) * kSplits + split;
        store_vec<4>(workspace.rows + piece * kHeadDim + column % kPerRow * 4, x);
        if (column % kPerRow == 0) workspace.states[piece] = all;
      }
    }
    if constexpr (kSplits > 1 && kCluster) {
      cluster_barrier();
      for (int column = split * kBlock + threadIdx.x; column < kColumns; column += kSplits * kBlock) {
        SoftmaxState all;
        const Vec<float, 4> x = merge<kSplits>(
            column, [&](int part, int head) { return cluster_load(&block.states[0][head], part); },
            [&](int part, int at) {
              return cluster_load(reinterpret_cast<const Vec<float, 4>*>(&block.rows[0][0][0]) + at, part);
            },
            all);
        put(out, column, x, all);
      }
      cluster_barrier_relaxed();  // no block ends while another reads it
    } else if constexpr (kSplits > 1) {
      if (!last_to_arrive(workspace.arrivals + first_row, kSplits)) return;
      if constexpr (kSplits > 16) {
        combine_splits<P, kSplits, kHeads, kBlock>(workspace, first_row, kSplits, out, weights, sums);
      } else {  // few enough that a thread asks for all of a column at once
        for (int column = threadIdx.x; column < kColumns; column += kBlock) {
          SoftmaxState all;
          const long long piece = (first_row + column / kPerRow) * kSplits;
          const Vec<float, 4> x = merge<kSplits>(
              column,
              [&](int part, int) {
                const float2 state = __ldcg(reinterpret_cast<const float2*>(workspace.states + piece) + part);
                return SoftmaxState{state.x, state.y};
              },
              [&](int part, int) {
                const float4 row =
                    __ldcg(reinterpret_cast<const float4*>(workspace.rows + (piece + part) * kHeadDim) +
                           column % kPerRow);
                return Vec<float, 4>{{row.x, row.y, row.z, row.w}};
              },
              all);
          put(out, column, x, all);
        }
      }
    }
  }
};

}  // namespace warptune
