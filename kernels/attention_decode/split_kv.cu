// Split-KV decode attention on CUDA cores (FlashDecoding).
// Grid: [splits, q_heads / kHeads, batch]. A sequence is divided into kSplits splits or, in variant
//   fixed_split, into splits of kSplitKeys keys. A block computes kHeads query heads of one KV head, which
//   share every byte that is loaded; tiles are assigned round-robin to its warps.
// Roles: groups of kThreadsPerKey lanes compute scores, groups of kThreadsPerValue lanes P.V
//   (cuda_core_attention.cuh). Each lane loads its own vectors, 16 bytes or (of K) 4: to registers, or 16
//   bytes with cp.async.
// Sync: no block barrier in the main loop; __syncwarp() where kThreadsPerValue != kThreadsPerKey.
// Shared memory: a cp.async pipeline per lane (kStages > 1); partial rows and states of the warps.
// Combine: a second kernel (combine.cu), the last block, or distributed shared memory of a cluster; a split
//   that has all keys writes the output itself.
// Append: each block rotates its q in shared memory; the new key is added after the main loop. Its
//   rows are stored by element, or in 16-byte vectors (append.cuh).
// PDL: no load before pdl_wait().
// For: head_dim that is not a multiple of 64, more than 16 heads per KV head, [D/x,S,x] caches; fixed_split
//   is deterministic.
// Source: Dao et al., "Flash-Decoding", 2023.
#include "kernels/attention_decode/combine.cuh"
#include "kernels/attention_decode/cuda_core_attention.cuh"
#include "kernels/common/cluster.cuh"
#include "kernels/common/pdl.cuh"

namespace warptune {

/// Combine::cluster: each block combines a part of the rows from the shared memory `mine` of all blocks: rows
/// [kHeads][kHeadDim], maxima [kHeads], sums [kHeads].
template <int kHeads, int kHeadDim, int kBlock, int kSplits, class P>
__device__ __forceinline__ void combine_cluster(const float* mine, int split, const Output<P>& out) {
  constexpr int kRow = kHeads * kHeadDim;
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
  cluster_barrier();  // no block exits while another reads its shared memory
}

template <class P, int kBlock, int kSplits, int kSplitKeys, int kThreadsPerKey, int kThreadsPerValue,
          int kUnroll, int kStages, int kHeads, int kCombineIndex, int kKeyLoadBytes, int kAppendStore>
__global__ void __launch_bounds__(kBlock) attention_decode_split_kv(typename P::Args args) {
  constexpr int kWarps = kBlock / 32, kHeadDim = P::kHeadDim, kRow = kHeads * kHeadDim;
  constexpr Combine kCombine = static_cast<Combine>(kCombineIndex);
  constexpr bool kCluster = kCombine == Combine::cluster;
  static_assert(kCombine != Combine::ll, "split_kv has no LL packets");
  static_assert(P::kGroup % kHeads == 0);
  using Attention =
      CudaCoreAttention<P, kHeads, kThreadsPerKey, kThreadsPerValue, kUnroll, kStages, kKeyLoadBytes>;
  [[maybe_unused]] static constexpr int kSharedBytes =
      kStages == 1 ? 0 : kWarps * kStages * Attention::Pipeline::kStageBytes;
  __shared__ __align__(16) float rows[max_of(kWarps * kRow, kCombineFloats<kBlock>)];
  __shared__ SoftmaxState states[kWarps * kHeads];
  pdl_launch_dependents();
  pdl_wait();
  const int split = blockIdx.x, first_head = blockIdx.y * kHeads, b = blockIdx.z, length = args.lengths[b];
  const SplitRange range = split_range<kSplits, kSplitKeys>(P::first_key(length), length, split);
  const Output<P> out(args, b, first_head);
  if (length == 0 && split == 0) out.template put_empty<kHeads, kBlock>();
  if (length == 0 || (split >= range.active && !(kCluster && range.active > 1))) return;

  Attention attention;
  if (!kCluster || split < range.active)
    attention.template attend_sequence<kWarps, static_cast<AppendStore>(kAppendStore)>(
        args, b, first_head, range.first, range.end, length, rows);
  attention.store(rows, states);
  __syncthreads();

  if (kSplits == 1 || range.active == 1) {
    combine_warps<kWarps, kHeads, kHeadDim, kRow>(
        rows, states, [&](int h, int i, float value, SoftmaxState all) { out.put(h, i, value, all); });
    return;
  }
  if constexpr (kCluster) {
    __shared__ float mine[kRow + 2 * kHeads];  // rows; maxima; sums
    combine_warps<kWarps, kHeads, kHeadDim, kRow>(rows, states,
                                                  [&](int h, int i, float value, SoftmaxState all) {
                                                    mine[h * kHeadDim + i] = value;
                                                    if (i == 0) {
                                                      mine[kRow + h] = all.max;
                                                      mine[kRow + kHeads + h] = all.sum;
                                                    }
                                                  });
    combine_cluster<kHeads, kHeadDim, kBlock, kSplits>(mine, split, out);
    return;
  }
  const SplitWorkspace<P::kQHeads, kHeadDim, kSplits> workspace(args);
  const long long first_row = static_cast<long long>(b) * P::kQHeads + first_head;
  combine_warps<kWarps, kHeads, kHeadDim, kRow>(rows, states,
                                                [&](int h, int i, float value, SoftmaxState all) {
                                                  const long long partial = (first_row + h) * kSplits + split;
                                                  workspace.rows[partial * kHeadDim + i] = value;
                                                  if (i == 0) workspace.states[partial] = all;
                                                });
  if constexpr (kCombine == Combine::last_block) {
    __shared__ float weights[kHeads * kSplits];
    if (is_last_block<kBlock>(workspace.arrivals + first_row, range.active))
      combine_splits<P, kSplits, kHeads, kBlock>(workspace, first_row, range.active, out, weights, rows);
  }
}

}  // namespace warptune
