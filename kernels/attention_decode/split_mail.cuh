#pragma once
// How the splits of a sequence become one row without a fence or a counter at their end: the block that drew
// last takes what the others post to the workspace. Blocks draw before their last keys have come, so that
// each knows, when it is done, whether to post or to take. When the last has drawn all of them run: nobody
// waits for a block that has no room. The workspace is 0 before and after.
#include "kernels/attention_decode/combine.cuh"
#include "kernels/attention_decode/piece.cuh"
#include "kernels/common/ll_packet.cuh"

namespace warptune {

template <class P, int kSplits>
class SplitMail {
 public:
  /// Of four columns, from `column` on, of row `row` of the op's output (sequence * q_heads + head).
  __device__ __forceinline__ SplitMail(const AttentionDecodeArgs& args, long long row, int column) {
    const Workspace workspace(args);
    sums_ = workspace.rows + row * kSplits * P::kHeadDim + column;
    states_ = workspace.states + row * kSplits;
    posts_state_ = column == 0;
  }

  /// How many of the blocks that share rows from first_row on drew before. One thread of each, once.
  static __device__ __forceinline__ unsigned draw(const AttentionDecodeArgs& args, long long first_row) {
    return atomicInc(Workspace(args).arrivals + first_row, kSplits - 1);
  }

  __device__ __forceinline__ void post(const Piece& piece, int split) const {
    LlPacket<4>::pack(piece.sum).store(sums_ + split * P::kHeadDim);
    if (posts_state_) LlPacket<2>::pack({piece.state.max, piece.state.sum}).store(states_ + split);
  }

  /// All splits, of which `split` is `own`. What was posted is taken, but for the states.
  __device__ __forceinline__ Piece take(const Piece& own, int split) const {
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
    Piece all;
    all.template add<kSplits>([&](int from) {
      if (from == split) return own;
      LlPacket<4>{}.store(sums_ + from * P::kHeadDim);
      const Vec<float, 2> state = states[from].unpack();
      return Piece{{state[0], state[1]}, sums[from].unpack()};
    });
    return all;
  }
  /// When all columns of the row have been taken.
  __device__ __forceinline__ void clear_state(int split) const { LlPacket<2>{}.store(states_ + split); }

 private:
  using Workspace = SplitWorkspace<P::kQHeads, P::kHeadDim, kSplits>;

  float* sums_;
  SoftmaxState* states_;
  bool posts_state_;
};

}  // namespace warptune
