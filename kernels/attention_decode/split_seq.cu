// Idea: flash decoding on CUDA cores. The keys of a sequence are split over blocks, so that one sequence
// keeps all multiprocessors loading; a block serves kHeads query heads of one KV head, so that a group shares
// what it reads. The splits merge in an extra kernel (combine.cu), in the block that arrives last, or in the
// shared memory of a cluster.
#include "kernels/attention_decode/combine.cuh"
#include "kernels/attention_decode/lane_groups.cuh"
#include "kernels/common/cluster.cuh"
#include "kernels/common/pdl.cuh"

namespace warptune {

inline constexpr int kCombineKernel = 0, kCombineLastBlock = 1, kCombineCluster = 2;

template <class P, int kBlock, int kSplits, int kSplitKeys, int kLanes, int kValueLanes, int kUnroll,
          int kStages, int kHeads, int kCombine>
__global__ void __launch_bounds__(kBlock) attention_decode_split_seq(AttentionDecodeArgs args) {
  constexpr int kWarps = kBlock / 32, kHeadDim = P::kHeadDim, kRow = kHeads * kHeadDim;
  constexpr bool kCluster = kCombine == kCombineCluster;
  static_assert(P::kGroup % kHeads == 0);
  __shared__ __align__(16) float rows[max_of(kWarps * kRow, kCombineFloats<kBlock>)];
  __shared__ SoftmaxState states[kWarps * kHeads];
  pdl_launch_dependents();
  pdl_wait();
  const int split = blockIdx.x, first_head = blockIdx.y * kHeads, b = blockIdx.z, length = args.lengths[b];
  const SplitRange range = split_range<kSplits, kSplitKeys>(P::first_key(length), length, split);
  const Output<P> out(args, b, first_head);
  if (length == 0 && split == 0) out.template put_nothing<kHeads, kBlock>();
  if (length == 0 || (split >= range.active && !(kCluster && range.active > 1))) return;

  LaneGroups<P, kHeads, kLanes, kValueLanes, kUnroll, kStages> groups;
  if (!kCluster || split < range.active)
    groups.template attend_sequence<kWarps>(args, b, first_head, range.first, range.end, length, rows);
  groups.store(rows, states);
  __syncthreads();

  if (kSplits == 1 || range.active == 1) {
    merge_warps<kWarps, kHeads, kHeadDim, kRow>(
        rows, states, [&](int h, int i, float value, SoftmaxState all) { out.put(h, i, value, all); });
    return;
  }
  if constexpr (kCluster) {
    __shared__ float mine[kRow + 2 * kHeads];  // rows; maxima; sums
    merge_warps<kWarps, kHeads, kHeadDim, kRow>(rows, states,
                                                [&](int h, int i, float value, SoftmaxState all) {
                                                  mine[h * kHeadDim + i] = value;
                                                  if (i == 0) {
                                                    mine[kRow + h] = all.max;
                                                    mine[kRow + kHeads + h] = all.sum;
                                                  }
                                                });
    cluster_barrier();
    for (int item = split * kBlock + threadIdx.x; item < kRow; item += kSplits * kBlock) {
      const int h = item / kHeadDim;
      SoftmaxState all = SoftmaxState::none();
      float value = 0.0f;
#pragma unroll
      for (int s = 0; s < kSplits; ++s) {
        const float max = cluster_load(mine + kRow + h, s), factor = all.raise(max), weight = all.weight(max);
        all.sum += weight * cluster_load(mine + kRow + kHeads + h, s);
        value = value * factor + weight * cluster_load(mine + item, s);
      }
      out.put(h, item % kHeadDim, value, all);
    }
    cluster_barrier();  // no block leaves while another reads its shared memory
    return;
  }
  const SplitWorkspace<P::kQHeads, kHeadDim, kSplits> workspace(args);
  const long long first_row = static_cast<long long>(b) * P::kQHeads + first_head;
  merge_warps<kWarps, kHeads, kHeadDim, kRow>(rows, states, [&](int h, int i, float value, SoftmaxState all) {
    const long long piece = (first_row + h) * kSplits + split;
    workspace.rows[piece * kHeadDim + i] = value;
    if (i == 0) workspace.states[piece] = all;
  });
  if constexpr (kCombine == kCombineLastBlock) {
    __shared__ float weights[kHeads * kSplits];
    if (is_last_block<kBlock>(workspace.arrivals + first_row, range.active))
      combine_splits<P, kSplits, kHeads, kBlock>(workspace, first_row, range.active, out, weights, rows);
  }
}

}  // namespace warptune
