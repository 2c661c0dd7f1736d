// Idea: flash decoding on CUDA cores. The keys of a sequence are split over blocks, so that one sequence
// keeps all multiprocessors loading; a block serves kHeads query heads of one KV head, so that a group shares
// what it reads. The splits merge in an extra kernel (combine.cu), or in the block that arrives last.
#include "attention_decode/append.cuh"
#include "attention_decode/combine.cuh"
#include "attention_decode/lane_groups.cuh"
#include "common/pdl.cuh"

namespace warptune {

template <class T, int kQHeads, int kKvHeads, int kHeadDim, bool kDsx, bool kAppend, int kBlock, int kSplits,
          int kLanes, int kValueLanes, int kUnroll, int kHeads, bool kLastBlock>
__global__ void __launch_bounds__(kBlock) attention_decode_split_seq(AttentionDecodeArgs args) {
  constexpr int kWarps = kBlock / 32, kGroup = kQHeads / kKvHeads;
  static_assert(kGroup % kHeads == 0);
  __shared__ __align__(16) float rows[max_of(kWarps * kHeads * kHeadDim, kCombineFloats<kBlock>)];
  __shared__ SoftmaxState states[kWarps * kHeads];
  pdl_launch_next();
  pdl_wait();
  const int split = blockIdx.x, first_head = blockIdx.y * kHeads, b = blockIdx.z, length = args.lengths[b];
  const SplitRange range = split_range<kSplits>(length, split);
  const long long first_row = static_cast<long long>(b) * kQHeads + first_head;
  T* out = static_cast<T*>(args.out) + first_row * kHeadDim;
  if (split >= range.active) {
    if (length == 0 && split == 0) store_zeros<T, kHeads, kHeadDim, kBlock>(out);
    return;
  }

  const HeadCache<T, kHeadDim, kDsx> cache(args, static_cast<long long>(b) * kKvHeads + first_head / kGroup);
  LaneGroups<T, kHeadDim, kDsx, kHeads, kLanes, kValueLanes, kUnroll> groups;
  if constexpr (kAppend) {
    __shared__ __align__(32) NewRows<kHeads, kHeadDim> fresh;
    make_new_rows<T, kQHeads, kKvHeads, kHeadDim, kHeads, kBlock>(args, b, first_head, length - 1, fresh);
    __syncthreads();
    const bool owner = range.end == length;  // of the new key
    if (owner && first_head % kGroup == 0) write_new_row<kBlock>(cache, length - 1, fresh.k, fresh.v);
    groups.load_q(&fresh.q[0][0], args.scale * kLog2e);
    groups.template attend<kWarps>(cache, range.first, owner ? length - 1 : range.end, rows);
    if (owner && threadIdx.x < 32) groups.attend_row(fresh.k, fresh.v);
  } else {
    groups.load_q(static_cast<const T*>(args.q) + first_row * kHeadDim, args.scale * kLog2e);
    groups.template attend<kWarps>(cache, range.first, range.end, rows);
  }
  groups.store(rows, states);
  __syncthreads();

  if (kSplits == 1 || range.active == 1) {
    merge_warps<kWarps, kHeads, kHeadDim, kHeads * kHeadDim>(
        rows, states, [&](int head, int i, float value, SoftmaxState all) {
          out[head * kHeadDim + i] = from_float<T>(value / all.sum);
        });
    return;
  }
  const SplitWorkspace<kQHeads, kHeadDim, kSplits> workspace(args);
  merge_warps<kWarps, kHeads, kHeadDim, kHeads * kHeadDim>(
      rows, states, [&](int head, int i, float value, SoftmaxState all) {
        const long long piece = (first_row + head) * kSplits + split;
        workspace.rows[piece * kHeadDim + i] = value;
        if (i == 0) workspace.states[piece] = all;
      });
  if constexpr (kLastBlock) {
    __shared__ float weights[kHeads * kSplits];
    if (last_to_arrive(workspace.arrivals + first_row, range.active))
      combine_splits<T, kQHeads, kHeadDim, kSplits, kHeads, kBlock>(workspace, first_row, range.active, out,
                                                                    weights, rows);
  }
}

}  // namespace warptune
