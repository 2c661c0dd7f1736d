#pragma once
// What a part of a sequence's keys, of a warp or a split, gives for four columns of an output row.
#include "kernels/common/online_softmax.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

struct Piece {
  SoftmaxState state = SoftmaxState::none();  // of the row
  Vec<float, 4> sum = {};                     // of p v, unnormalised

  /// Adds kParts others, all of which are asked for, by `get(part)`, before the first is added.
  template <int kParts, class Get>
  __device__ __forceinline__ void add(Get get) {
    Piece parts[kParts];
    Piece all;
    all.state.max = state.max;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      parts[part] = get(part);
      all.state.max = fmaxf(all.state.max, parts[part].state.max);
    }
    const auto take = [&](const Piece& piece) {
      const float weight = all.state.weight(piece.state.max);
      all.state.sum = fmaf(weight, piece.state.sum, all.state.sum);
#pragma unroll
      for (int i = 0; i < 4; ++i) all.sum[i] = fmaf(weight, piece.sum[i], all.sum[i]);
    };
    take(*this);
#pragma unroll
    for (int part = 0; part < kParts; ++part) take(parts[part]);
    *this = all;
  }
};

}  // namespace warptune
