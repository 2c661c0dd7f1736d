#pragma once
// The end of the ring variants: warps of a block merge through shared memory, splits through the workspace by
// the block that comes last (combine.cuh), through the shared memory of a cluster, or by post
// (split_mail.cuh).
#include "kernels/attention_decode/combine.cuh"
#include "kernels/attention_decode/split_mail.cuh"
#include "kernels/common/cluster.cuh"

namespace warptune {

/// How splits become one: the values of the parameter `combine`.
inline constexpr int kMergeLastBlock = 0, kMergeCluster = 1, kMergePosted = 2;

/// The results of kParts parts (warps or blocks) for kHeads rows, unnormalised, in shared memory.
template <int kParts, int kHeads, int kHeadDim>
struct alignas(16) RingPartials {
  float rows[kParts][kHeads][kHeadDim];
  SoftmaxState states[kParts][kHeads];  // maximum in base-2 units, kNoScore where a part had no key
};

struct Nothing {};

/// Merges the warps of every split of kHeads rows into the output; shared memory as it lies.
template <class P, int kWarps, int kHeads, int kSplits, int kCombine>
struct RingMerge {
  static constexpr int kHeadDim = P::kHeadDim, kPerRow = kHeadDim / 4;  // pieces of four columns
  static constexpr int kBlock = kWarps * 32, kPieces = kHeads * kPerRow;
  static constexpr bool kCluster = kSplits > 1 && kCombine == kMergeCluster,
                        kPosted = kSplits > 1 && kCombine == kMergePosted, kManySplits = kSplits > 16;
  using Mail = SplitMail<P, kSplits>;

  RingPartials<kWarps, kHeads, kHeadDim> warps;
  typename TypeAt<kCluster, Nothing, RingPartials<1, kHeads, kHeadDim>>::Type block;
  float weights[kManySplits ? kHeads * kSplits : 1];  // of combine_splits, as are the sums
  alignas(16) float sums[kManySplits ? kCombineFloats<kBlock> : 1];

  /// How many of those that share rows first_row on of the op's output drew before, where splits come by
  /// post. For each split its block draws once, when it has asked for the last keys, or soon. To be given to
  /// finish() by thread 0, which alone draws.
  static __device__ __forceinline__ unsigned draw(const AttentionDecodeArgs& args, long long first_row) {
    return kPosted && threadIdx.x == 0 ? Mail::draw(args, first_row) : 0;
  }

  /// A counter behind what splits leave in the workspace.
  static __device__ __forceinline__ unsigned* tickets(const AttentionDecodeArgs& args) {
    if constexpr (kSplits == 1) return static_cast<unsigned*>(args.workspace);
    return SplitWorkspace<P::kQHeads, kHeadDim, kSplits>(args).arrivals + args.batch * P::kQHeads;
  }

  /// Rows first_row on of the op's output, when all warps have left their results of `split`. The threads of
  /// these warps call, the first of the block; for one and the same sequence without keys all splits, or
  /// none.
  __device__ __forceinline__ void finish(const AttentionDecodeArgs& args, long long first_row, int split,
                                         const Output<P>& out, unsigned drawn) {
    const SplitWorkspace<P::kQHeads, kHeadDim, kSplits> workspace(args);
    const bool takes = named_barrier_or<kBlock>(kPosted && threadIdx.x == 0 && drawn == kSplits - 1);
    for (int i = threadIdx.x; i < kPieces; i += kBlock) {
      const int head = i / kPerRow, column = i % kPerRow * 4;
      Piece piece;
      piece.template add<kWarps>([&](int warp) {
        return Piece{warps.states[warp][head], load_vec<4>(&warps.rows[warp][head][column])};
      });
      if constexpr (kSplits == 1) {
        put(out, head, column, piece);
      } else if constexpr (kCluster) {
        store_vec<4>(&block.rows[0][head][column], piece.sum);
        if (column == 0) block.states[0][head] = piece.state;
      } else if constexpr (kPosted) {
        const Mail mail(args, first_row + head, column);
        if (takes)
          put(out, head, column, mail.take(piece, split));
        else
          mail.post(piece, split);
      } else {
        const long long at = (first_row + head) * kSplits + split;
        store_vec<4>(workspace.rows + at * kHeadDim + column, piece.sum);
        if (column == 0) workspace.states[at] = piece.state;
      }
    }
    if constexpr (kCluster) {
      cluster_barrier();
      for (int i = split * kBlock + threadIdx.x; i < kPieces; i += kSplits * kBlock) {
        const int head = i / kPerRow, column = i % kPerRow * 4;
        Piece all;
        all.template add<kSplits>([&](int from) {
          return Piece{
              cluster_load(&block.states[0][head], from),
              cluster_load(reinterpret_cast<const Vec<float, 4>*>(&block.rows[0][head][column]), from)};
        });
        put(out, head, column, all);
      }
      cluster_barrier_relaxed();  // no block ends while another reads it
    } else if constexpr (kPosted) {
      if (!takes) return;
      named_barrier_sync<kBlock>();
      for (int i = threadIdx.x; i < kHeads * kSplits; i += kBlock)
        Mail(args, first_row + i / kSplits, 0).clear_state(i % kSplits);
    } else if constexpr (kSplits > 1) {
      if (!is_last_block<kBlock>(workspace.arrivals + first_row, kSplits)) return;
      if constexpr (kManySplits) {
        combine_splits<P, kSplits, kHeads, kBlock>(workspace, first_row, kSplits, out, weights, sums);
      } else {  // few enough that a thread asks for all of a piece at once
        for (int first = threadIdx.x; first < kPieces; first += kTogether * kBlock) {
          Piece parts[kTogether][kSplits];
#pragma unroll
          for (int t = 0; t < kTogether; ++t)
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
          for (int t = 0; t < kTogether; ++t) {
            const int i = first + t * kBlock;
            Piece all;
            all.template add<kSplits>([&](int from) { return parts[t][from]; });
            put(out, i / kPerRow, i % kPerRow * 4, all);
          }
        }
      }
    }
  }

 private:
  /// Pieces for which a thread asks at once.
  static constexpr int kTogether = kPieces % (2 * kBlock) == 0 ? 2 : 1;

  static __device__ __forceinline__ void put(const Output<P>& out, int head, int column, const Piece& piece) {
    const float inverse = piece.state.sum > 0.0f ? 1.0f / piece.state.sum : 0.0f;
    Vec<float, 4> x = piece.sum;
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] *= inverse;
    out.template put<4>(head, column, x);
    if (column == 0) out.put_lse(head, piece.state);
  }
};

}  // namespace warptune
