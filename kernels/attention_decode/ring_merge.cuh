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

/// What the merge needs: the partials of the warps and those of the block.
template <int kWarps, int kHeads, int kHeadDim, int kSplits>
struct RingMerge {
  static constexpr int kBlock = kWarps * 32, kColumns = kHeads * kHeadDim / 4;

  RingPartials<kWarps, kHeads, kHeadDim> warps;
  RingPartials<1, kHeads, kHeadDim> block;
  float weights[kHeads * kSplits];  // of combine_splits, as are the sums
  alignas(16) float sums[kCombineFloats<kBlock>];

  /// Elements [4 * column, 4 * column + 4) of the merged rows of kParts parts, unnormalised, and the state
  /// over all of them. `state(part, head)`, `row(part, column)`: what a part left.
  template <int kParts, class State, class Row>
  static __device__ __forceinline__ Vec<float, 4> merge(int column, State state, Row row, SoftmaxState& all) {
    const int head = column / (kHeadDim / 4);
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

  /// Merges the warps of every split into `out` ([kHeads][kHeadDim]), rows first_row on of the op's output.
  /// All threads call, after a barrier; for a sequence without keys nobody does.
  template <class T, int kQHeads, bool kCluster>
  __device__ __forceinline__ void finish(const AttentionDecodeArgs& args, long long first_row, T* out) {
    const int split = blockIdx.x;
    const auto of_warps = [&](int column, SoftmaxState& all) {
      return merge<kWarps>(
          column, [&](int part, int head) { return warps.states[part][head]; },
          [&](int part, int at) { return load_vec<4>(&warps.rows[part][0][0] + at * 4); }, all);
    };
    const auto store = [&](int column, Vec<float, 4> x, float sum) {
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] /= sum;
      store_vec<4>(out + column * 4, from_float<T>(x));
    };
    const SplitWorkspace<kQHeads, kHeadDim, kSplits> workspace(args);
    for (int column = threadIdx.x; column < kColumns; column += kBlock) {
      SoftmaxState all;
      const Vec<float, 4> x = of_warps(column, all);
      const int head = column / (kHeadDim / 4);
      const bool first = column % (kHeadDim / 4) == 0;
      if constexpr (kSplits == 1) {
        store(column, x, all.sum);
      } else if constexpr (kCluster) {
        store_vec<4>(&block.rows[0][0][0] + column * 4, x);
        if (first) block.states[0][head] = all;
      } else {
        const long long piece = (first_row + head) * kSplits + split;
        store_vec<4>(workspace.rows + piece * kHeadDim + column % (kHeadDim / 4) * 4, x);
        if (first) workspace.states[piece] = all;
      }
    }
    if constexpr (kSplits > 1 && kCluster) {
      cluster_barrier();
      for (int column = split * kBlock + threadIdx.x; column < kColumns; column += kSplits * kBlock) {
        SoftmaxState all;
        const Vec<float, 4> x = merge<kSplits>(
            column,
            [&](int part, int head) { return cluster_load<SoftmaxState>(&block.states[0][head], part); },
            [&](int part, int at) {
              return cluster_load<Vec<float, 4>>(&block.rows[0][0][0] + at * 4, part);
            },
            all);
        store(column, x, all.sum);
      }
      cluster_barrier();  // no block ends while another reads it
    } else if constexpr (kSplits > 1) {
      if (last_to_arrive(workspace.arrivals + first_row, kSplits))
        combine_splits<T, kQHeads, kHeadDim, kSplits, kHeads, kBlock>(workspace, first_row, kSplits, out,
                                                                      weights, sums);
    }
  }
};

}  // namespace warptune
