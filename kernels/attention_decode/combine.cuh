#pragma once
// Combine of split-KV attention (FlashDecoding): partial rows of warps become those of a block, partial rows
// of splits become the output. A partial row is unnormalized and carries its softmax state (maximum, sum).
// combine_warps() and combine_splits() serve split_kv, mma and the combine kernel; BlockCombine is the
// epilogue of the pipelined kernels and of mma_direct: last block, cluster or LL packets. ClusterExchange is
// for mma_project.
#include "kernels/attention_decode/problem.cuh"
#include "kernels/common/barrier.cuh"
#include "kernels/common/cluster.cuh"
#include "kernels/common/ll_packet.cuh"
#include "kernels/common/reduce.cuh"

namespace warptune {

/// Partial results in the workspace: rows [batch * q_heads, splits, head_dim] fp32, states [batch * q_heads,
/// splits], arrival counters [batch * q_heads].
template <int kQHeads, int kHeadDim, int kSplits>
struct SplitWorkspace {
  float* rows;
  SoftmaxState* states;
  unsigned* arrivals;

  __device__ __forceinline__ explicit SplitWorkspace(const AttentionDecodeArgs& args) {
    const long long partials = static_cast<long long>(args.batch) * kQHeads * kSplits;
    rows = static_cast<float*>(args.workspace);
    states = reinterpret_cast<SoftmaxState*>(rows + partials * kHeadDim);
    arrivals = reinterpret_cast<unsigned*>(states + partials);
  }
};

/// Combines the warps of a block. Shared memory: rows [kHeads][kHeadDim] of warp w at w * kStride, states
/// [kWarps][kHeads]. Calls put(head, i, value, state) for each element.
template <int kWarps, int kHeads, int kHeadDim, int kStride, class Put>
__device__ __forceinline__ void combine_warps(const float* rows, const SoftmaxState* states, Put put) {
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

/// The weights of the active splits of kHeads rows, divided by the sum of exp(score); writes log-sum-exp. A
/// warp per head.
template <class P, int kSplits, int kHeads, int kBlock>
__device__ __forceinline__ void split_weights(
    const SplitWorkspace<P::kQHeads, P::kHeadDim, kSplits>& workspace, long long first, int active,
    const Output<P>& out, float* weights) {
  constexpr int kWarps = kBlock / 32;
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
}

/// Floats of shared memory that combine_splits() needs besides the weights.
template <int kBlock>
inline constexpr int kCombineFloats = kBlock * 4;

/// Combines the active splits of kHeads rows, from row `first` (sequence * q_heads + head) on, into `out`.
/// Shared memory: weights [kHeads][kSplits], sums [kCombineFloats<kBlock>].
template <class P, int kSplits, int kHeads, int kBlock>
__device__ __forceinline__ void combine_splits(
    const SplitWorkspace<P::kQHeads, P::kHeadDim, kSplits>& workspace, long long first, int active,
    const Output<P>& out, float* weights, float* sums) {
  constexpr int kHeadDim = P::kHeadDim;
  constexpr int kColumns = kHeads * kHeadDim / 4, kPerRow = kHeadDim / 4;
  constexpr int kTeams = max_of(1, kBlock / kColumns);  // threads that divide the splits of a column
  split_weights<P, kSplits, kHeads, kBlock>(workspace, first, active, out, weights);
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

/// Four columns of a partial row.
struct PartialRow {
  SoftmaxState state = SoftmaxState::none();  // of the row
  Vec<float, 4> sum = {};                     // of p * v, unnormalized

  /// Adds kParts partial rows; all of them are loaded, by get(part), before the first is added.
  template <int kParts, class Get>
  __device__ __forceinline__ void add(Get get) {
    PartialRow parts[kParts];
    PartialRow all;
    all.state.max = state.max;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      parts[part] = get(part);
      all.state.max = fmaxf(all.state.max, parts[part].state.max);
    }
    const auto accumulate = [&](const PartialRow& row) {
      const float weight = all.state.weight(row.state.max);
      all.state.sum = fmaf(weight, row.state.sum, all.state.sum);
#pragma unroll
      for (int i = 0; i < 4; ++i) all.sum[i] = fmaf(weight, row.sum[i], all.sum[i]);
    };
    accumulate(*this);
#pragma unroll
    for (int part = 0; part < kParts; ++part) accumulate(parts[part]);
    *this = all;
  }
};

/// Normalizes a row that is complete, and passes it to the members put() and put_lse() of Output.
template <class Out>
__device__ __forceinline__ void put_row(const Out& out, int head, int column, const PartialRow& row) {
  const float inverse = row.state.sum > 0.0f ? 1.0f / row.state.sum : 0.0f;
  Vec<float, 4> x = row.sum;
#pragma unroll
  for (int i = 0; i < 4; ++i) x[i] *= inverse;
  out.template put<4>(head, column, x);
  if (column == 0) out.put_lse(head, row.state);
}

/// Combine::ll for four columns of an output row: no fence and no final counter. Each block takes its arrival
/// index before its last keys have arrived; the block with the last index polls for the packets of the
/// others, which all run by then, so that no block waits for one that has no SM. The workspace is 0 before
/// and after.
template <class P, int kSplits>
class LlCombine {
 public:
  /// Columns from `column` on of output row `row` (sequence * q_heads + head).
  __device__ __forceinline__ LlCombine(const AttentionDecodeArgs& args, long long row, int column) {
    const Workspace workspace(args);
    sums_ = workspace.rows + row * kSplits * P::kHeadDim + column;
    states_ = workspace.states + row * kSplits;
    sends_state_ = column == 0;
  }

  /// Returns the arrival index of this block among the blocks that share `first_row`. One thread per block.
  static __device__ __forceinline__ unsigned arrive(const AttentionDecodeArgs& args, long long first_row) {
    return atomicInc(Workspace(args).arrivals + first_row, kSplits - 1);
  }

  __device__ __forceinline__ void send(const PartialRow& row, int split) const {
    LlPacket<4>::pack(row.sum).store(sums_ + split * P::kHeadDim);
    if (sends_state_) LlPacket<2>::pack({row.state.max, row.state.sum}).store(states_ + split);
  }

  /// Receives all splits but `split`, which is `own`, and combines them. Clears the packets, states excepted.
  __device__ __forceinline__ PartialRow receive(const PartialRow& own, int split) const {
    LlPacket<4> sums[kSplits] = {};
    LlPacket<2> states[kSplits] = {};
    for (bool waits = true; waits;) {
      waits = false;
#pragma unroll
      for (int from = 0; from < kSplits; ++from) {
        if (from == split || (sums[from].is_complete() && states[from].is_complete())) continue;
        sums[from] = LlPacket<4>::load(sums_ + from * P::kHeadDim);
        states[from] = LlPacket<2>::load(states_ + from);
        waits = true;
      }
    }
    PartialRow all;
    all.template add<kSplits>([&](int from) {
      if (from == split) return own;
      LlPacket<4>{}.store(sums_ + from * P::kHeadDim);
      const Vec<float, 2> state = states[from].unpack();
      return PartialRow{{state[0], state[1]}, sums[from].unpack()};
    });
    return all;
  }
  /// Clears a state packet after all columns of the row were received.
  __device__ __forceinline__ void clear_state(int split) const { LlPacket<2>{}.store(states_ + split); }

 private:
  using Workspace = SplitWorkspace<P::kQHeads, P::kHeadDim, kSplits>;

  float* sums_;
  SoftmaxState* states_;
  bool sends_state_;
};

/// Partial results of kParts warps or blocks for kHeads rows, in shared memory.
template <int kParts, int kHeads, int kHeadDim>
struct alignas(16) SharedPartials {
  float rows[kParts][kHeads][kHeadDim];
  SoftmaxState states[kParts][kHeads];  // base-2 maximum, kNoScore where a part had no key
};

/// Combines the splits of a KV head, which are the blocks of a cluster: each block combines a part of the
/// vectors of four columns, and all blocks store theirs to its shared memory (st.async). A barrier of the
/// cluster and loads from the other blocks would be two more trips. A block that has received its part may
/// exit: nobody stores to it any more.
template <class P, int kSplits>
struct ClusterExchange {
  static constexpr int kPerRow = P::kHeadDim / 4, kVectors = P::kGroup * kPerRow,
                       kPart = ceil_div(kVectors, kSplits);  // vectors that a block combines, at most

  alignas(16) Vec<float, 4> sums[kSplits][kPart];
  alignas(8) Vec<float, 2> states[kSplits][kPart];  // of the rows of the vectors: maximum, sum
  Mbarrier full;

  /// The number of vectors that block `split` combines.
  static __device__ __forceinline__ int part(int split) {
    return max(0, min(kPart, kVectors - split * kPart));
  }
  /// One thread; before others send, cluster_barrier_arrive() and cluster_barrier_wait() of all threads.
  __device__ __forceinline__ void init(int split) {
    mbarrier_init(&full);
    mbarrier_init_fence();
    mbarrier_arrive_expect_tx(&full, part(split) * kSplits * 6 * static_cast<int>(sizeof(float)));
  }
  __device__ __forceinline__ void send(int vector, int split, const PartialRow& row) {
    const int to = vector / kPart, slot = vector % kPart;
    cluster_store_async<4>(row.sum, &sums[split][slot], &full, to);
    cluster_store_async<2>({row.state.max, row.state.sum}, &states[split][slot], &full, to);
  }
  /// Receives all splits of a vector of this block.
  __device__ __forceinline__ PartialRow receive(int slot) {
    mbarrier_wait_cluster(&full, 0);
    PartialRow all;
    all.template add<kSplits>([&](int from) {
      const Vec<float, 2> state = states[from][slot];
      return PartialRow{{state[0], state[1]}, sums[from][slot]};
    });
    return all;
  }
};

struct Empty {};

/// Combines the warps of every split of kHeads rows into the output. An object lies in shared memory.
template <class P, int kWarps, int kHeads, int kSplits, Combine kCombine>
struct BlockCombine {
  static constexpr int kHeadDim = P::kHeadDim, kPerRow = kHeadDim / 4;  // vectors of four columns
  static constexpr int kBlock = kWarps * 32, kVectors = kHeads * kPerRow;
  static constexpr bool kCluster = kSplits > 1 && kCombine == Combine::cluster,
                        kLl = kSplits > 1 && kCombine == Combine::ll, kManySplits = kSplits > 16;
  using Ll = LlCombine<P, kSplits>;
  using Workspace = SplitWorkspace<P::kQHeads, kHeadDim, kSplits>;
  static_assert(kCombine != Combine::kernel, "the pipelined kernels have no combine kernel");

  SharedPartials<kWarps, kHeads, kHeadDim> warps;
  typename TypeAt<kCluster, Empty, SharedPartials<1, kHeads, kHeadDim>>::Type block;
  float weights[kManySplits ? kHeads * kSplits : 1];  // of combine_splits(), as are the sums
  alignas(16) float sums[kManySplits ? kCombineFloats<kBlock> : 1];

  /// Combine::ll: the arrival index of this block among the blocks that share output row first_row. Called
  /// once per split, about when the loads of its last keys are issued; thread 0 passes the result to
  /// finish().
  static __device__ __forceinline__ unsigned arrive(const AttentionDecodeArgs& args, long long first_row) {
    return kLl && threadIdx.x == 0 ? Ll::arrive(args, first_row) : 0;
  }

  /// The work counter of the tile scheduler, after the partial results in the workspace.
  static __device__ __forceinline__ unsigned* work_counter(const AttentionDecodeArgs& args) {
    if constexpr (kSplits == 1) return static_cast<unsigned*>(args.workspace);
    return Workspace(args).arrivals + args.batch * P::kQHeads;
  }

  /// Combines output rows first_row to first_row + kHeads - 1, after all warps have stored their results of
  /// `split` in `warps`. The first kBlock threads of the block call. Either all splits of a sequence without
  /// keys call, or none.
  /// `out` has the members put() and put_lse() of Output.
  template <class Out>
  __device__ __forceinline__ void finish(const AttentionDecodeArgs& args, long long first_row, int split,
                                         const Out& out, unsigned arrival) {
    const Workspace workspace(args);
    const bool receives = named_barrier_or<kBlock>(kLl && threadIdx.x == 0 && arrival == kSplits - 1);
    for (int i = threadIdx.x; i < kVectors; i += kBlock) {
      const int head = i / kPerRow, column = i % kPerRow * 4;
      PartialRow row;
      row.template add<kWarps>([&](int warp) {
        return PartialRow{warps.states[warp][head], load_vec<4>(&warps.rows[warp][head][column])};
      });
      if constexpr (kSplits == 1) {
        put_row(out, head, column, row);
      } else if constexpr (kCluster) {
        store_vec<4>(&block.rows[0][head][column], row.sum);
        if (column == 0) block.states[0][head] = row.state;
      } else if constexpr (kLl) {
        const Ll ll(args, first_row + head, column);
        if (receives)
          put_row(out, head, column, ll.receive(row, split));
        else
          ll.send(row, split);
      } else {
        const long long at = (first_row + head) * kSplits + split;
        store_vec<4>(workspace.rows + at * kHeadDim + column, row.sum);
        if (column == 0) workspace.states[at] = row.state;
      }
    }
    if constexpr (kCluster) {
      combine_cluster(split, out);
    } else if constexpr (kLl) {
      if (!receives) return;
      named_barrier_sync<kBlock>();
      for (int i = threadIdx.x; i < kHeads * kSplits; i += kBlock)
        Ll(args, first_row + i / kSplits, 0).clear_state(i % kSplits);
    } else if constexpr (kSplits > 1) {
      if (!is_last_block<kBlock>(workspace.arrivals + first_row, kSplits)) return;
      if constexpr (kManySplits)
        combine_splits<P, kSplits, kHeads, kBlock>(workspace, first_row, kSplits, out, weights, sums);
      else
        combine_few_splits(workspace, first_row, out);
    }
  }

 private:
  /// Vectors whose splits a thread loads at once.
  static constexpr int kVectorsAtOnce = kVectors % (2 * kBlock) == 0 ? 2 : 1;

  /// Each block combines a part of the rows from the shared memory of all blocks of the cluster.
  template <class Out>
  __device__ __forceinline__ void combine_cluster(int split, const Out& out) {
    cluster_barrier();
    for (int i = split * kBlock + threadIdx.x; i < kVectors; i += kSplits * kBlock) {
      const int head = i / kPerRow, column = i % kPerRow * 4;
      PartialRow all;
      all.template add<kSplits>([&](int from) {
        return PartialRow{
            cluster_load(&block.states[0][head], from),
            cluster_load(reinterpret_cast<const Vec<float, 4>*>(&block.rows[0][head][column]), from)};
      });
      put_row(out, head, column, all);
    }
    cluster_barrier_relaxed();  // no block exits while another reads its shared memory
  }

  /// The last block: up to 16 splits, so that a thread loads all splits of a vector at once.
  template <class Out>
  __device__ __forceinline__ void combine_few_splits(const Workspace& workspace, long long first_row,
                                                     const Out& out) {
    for (int first = threadIdx.x; first < kVectors; first += kVectorsAtOnce * kBlock) {
      PartialRow parts[kVectorsAtOnce][kSplits];
#pragma unroll
      for (int t = 0; t < kVectorsAtOnce; ++t)
#pragma unroll
        for (int from = 0; from < kSplits; ++from) {
          const int i = first + t * kBlock;
          const long long at = (first_row + i / kPerRow) * kSplits + from;
          const float2 state = __ldcg(reinterpret_cast<const float2*>(workspace.states + at));
          const float4 sum =
              __ldcg(reinterpret_cast<const float4*>(workspace.rows + at * kHeadDim + i % kPerRow * 4));
          parts[t][from] = {{state.x, state.y}, {{sum.x, sum.y, sum.z, sum.w}}};
        }
#pragma unroll
      for (int t = 0; t < kVectorsAtOnce; ++t) {
        const int i = first + t * kBlock;
        PartialRow all;
        all.template add<kSplits>([&](int from) { return parts[t][from]; });
        put_row(out, i / kPerRow, i % kPerRow * 4, all);
      }
    }
  }
};

}  // namespace warptune
