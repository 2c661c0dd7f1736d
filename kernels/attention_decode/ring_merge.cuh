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

/// What the merge needs: the partials of the warps, those of the block, and weights.
template <int kWarps, int kHeads, int kHeadDim, int kSplits>
struct RingMerge {
  static constexpr int kBlock = kWarps * 32, kColumns = kHeads * kHeadDim / 4;
  static constexpr int kMost = max_of(kWarps, kSplits);

  RingPartials<kWarps, kHeads, kHeadDim> warps;
  RingPartials<1, kHeads, kHeadDim> block;
  float weights[kMost][kHeads];
  alignas(16) float sums[kCombineFloats<kBlock>];  // of combine_splits

  /// Weights of n parts, whose states `state(part, head)` gives, for head threadIdx.x / 32 and every kWarps
  /// further ones: relative to their common maximum; returns maximum and sum to `put(head, state)`.
  template <class State, class Put>
  __device__ __forceinline__ void weigh(int n, State state, Put put) {
    const int lane = threadIdx.x % 32;
    for (int head = threadIdx.x / 32; head < kHeads; head += kWarps) {
      const SoftmaxState mine = lane < n ? state(lane, head) : SoftmaxState::none();
      const float max = warp_reduce<Max>(mine.max);
      const float weight = exp2_fast(mine.max - max);
      if (lane < n) weights[lane][head] = weight;
      const float sum = warp_reduce<Sum>(weight * mine.sum);
      if (lane == 0) put(head, SoftmaxState{max, sum});
    }
  }

  /// Element group `column` (4 elements) of the weighted sum over n parts.
  template <int kParts, class Load>
  __device__ __forceinline__ Vec<float, 4> add(int column, Load load) const {
    const int head = column / (kHeadDim / 4);
    Vec<float, 4> sum = {};
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const Vec<float, 4> row = load(part, column);
      const float weight = weights[part][head];
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i] = fmaf(weight, row[i], sum[i]);
    }
    return sum;
  }

  /// Merges the warps of every split into `out` ([kHeads][kHeadDim]), rows first_row on of the op's output.
  /// All threads call, after a barrier; for a sequence without keys nobody does.
  template <class T, int kQHeads, bool kCluster>
  __device__ __forceinline__ void finish(const AttentionDecodeArgs& args, long long first_row, T* out) {
    static_assert(kWarps <= 32);
    const int split = blockIdx.x;
    weigh(
        kWarps, [&](int part, int head) { return warps.states[part][head]; },
        [&](int head, SoftmaxState all) { block.states[0][head] = all; });
    __syncthreads();
    const auto of_warp = [&](int part, int column) {
      return load_vec<4>(&warps.rows[part][0][0] + column * 4);
    };
    const auto store = [&](int column, Vec<float, 4> x, float sum) {
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] /= sum;
      store_vec<4>(out + column * 4, from_float<T>(x));
    };
    if constexpr (kSplits == 1) {
      for (int column = threadIdx.x; column < kColumns; column += kBlock)
        store(column, add<kWarps>(column, of_warp), block.states[0][column / (kHeadDim / 4)].sum);
    } else if constexpr (kCluster) {
      static_assert(kSplits <= 32);
      for (int column = threadIdx.x; column < kColumns; column += kBlock)
        store_vec<4>(&block.rows[0][0][0] + column * 4, add<kWarps>(column, of_warp));
      cluster_barrier();
      weigh(
          kSplits,
          [&](int part, int head) {
            return SoftmaxState{cluster_load(&block.states[0][head].max, part),
                                cluster_load(&block.states[0][head].sum, part)};
          },
          [&](int head, SoftmaxState all) { warps.states[0][head] = all; });
      __syncthreads();
      for (int column = split * kBlock + threadIdx.x; column < kColumns; column += kSplits * kBlock)
        store(
            column,
            add<kSplits>(
                column, [&](int part, int at) { return cluster_load4(&block.rows[0][0][0] + at * 4, part); }),
            warps.states[0][column / (kHeadDim / 4)].sum);
      cluster_barrier();  // no block ends while another reads it
    } else {
      const SplitWorkspace<kQHeads, kHeadDim, kSplits> workspace(args);
      for (int column = threadIdx.x; column < kColumns; column += kBlock) {
        const int head = column / (kHeadDim / 4);
        const long long piece = (first_row + head) * kSplits + split;
        store_vec<4>(workspace.rows + piece * kHeadDim + column % (kHeadDim / 4) * 4,
                     add<kWarps>(column, of_warp));
        if (column % (kHeadDim / 4) == 0) workspace.states[piece] = block.states[0][head];
      }
      if (last_to_arrive(workspace.arrivals + first_row, kSplits))
        combine_splits<T, kQHeads, kHeadDim, kSplits, kHeads, kBlock>(workspace, first_row, kSplits, out,
                                                                      &weights[0][0], sums);
    }
  }
};

}  // namespace warptune
