#pragma once
// The main loop of the GEMVs on quantized weights whose blocks are persistent: warps split the columns of
// each work tile, and add their sums in shared memory.
#include "kernels/common/barrier.cuh"
#include "kernels/linear/packed/packed_digits.cuh"
#include "kernels/linear/packed/packed_dot.cuh"
#include "kernels/linear/packed/packed_fp16.cuh"

namespace warptune {

/// The work tiles of a block, or of a cluster. Blocks that run together read adjacent ones, which is faster
/// than a range for each (docs/lessons/linear_quantized.md).
template <class S>
struct PackedWork {
  static constexpr int kTiles = ceil_div(S::kOut, S::kOutputs);
  static constexpr int kSteps = ceil_div(S::kBlocks, S::kWarps);  // stages that a work tile takes
  const int cluster = static_cast<int>(blockIdx.x / S::kClusterK),
            clusters = static_cast<int>(gridDim.x / S::kClusterK),
            rank = static_cast<int>(blockIdx.x % S::kClusterK),
            count = cluster < kTiles ? ceil_div(kTiles - cluster, clusters) : 0;

  __device__ __forceinline__ int tile(int n) const { return cluster + n * clusters; }
  /// This warp's block of weights in a step, and whether there is one.
  static __device__ __forceinline__ int block(int step) {
    return step * S::kWarps + static_cast<int>(threadIdx.x / 32);
  }
  static __device__ __forceinline__ bool has_block(int step) {
    return S::kBlocks % S::kWarps == 0 || block(step) < S::kBlocks;
  }
};

/// Scales that rows share: lane i holds the scale of the warp's block of weights number i in a work tile, for
/// each tile of it. They are loaded a work tile ahead.
template <class S>
class WarpScales {
 public:
  __device__ __forceinline__ WarpScales(const QuantizedLinearArgs& args, const PackedWork<S>& work)
      : args_(args), work_(work) {
    load(0);
    begin_tile();
  }
  /// The scale of half `half` of a tile in the next block of weights.
  __device__ __forceinline__ float get(int tile, int half) const {
    const auto& scales = now_.of[tile][S::kSwiglu ? half : 0];
    float scale = scales[0];
#pragma unroll
    for (int i = 1; i < kVectors; ++i)
      if (step_ >= 32 * i) scale = scales[i];
    return __shfl_sync(~0u, scale, step_ % 32);
  }
  __device__ __forceinline__ void advance() {
    if (++step_ < PackedWork<S>::kSteps) return;
    step_ = 0;
    ++number_;
    begin_tile();
  }

 private:
  static constexpr int kHalves = S::kSwiglu ? 2 : 1, kVectors = ceil_div(PackedWork<S>::kSteps, 32);
  struct Scales {
    float of[S::kTiles][kHalves][kVectors];
  };

  __device__ __forceinline__ void begin_tile() {
    now_ = next_;
    if (number_ + 1 < work_.count) load(number_ + 1);
  }
  __device__ __forceinline__ void load(int number) {
#pragma unroll
    for (int t = 0; t < S::kTiles; ++t)
#pragma unroll
      for (int half = 0; half < kHalves; ++half)
#pragma unroll
        for (int i = 0; i < kVectors; ++i) {
          const int step = static_cast<int>(threadIdx.x) % 32 + 32 * i,
                    block = work_.rank * S::kBlocks + min_of(PackedWork<S>::block(step), S::kBlocks - 1);
          const long long row = S::slot(work_.tile(number) * S::kTiles + t, half) * kBlockRows;
          next_.of[t][half][i] =
              weight_scale<S::kIn, S::kWeights, S::kGroup>(args_.scales, row, block * S::kColumns);
        }
  }

  const QuantizedLinearArgs& args_;
  const PackedWork<S> work_;
  Scales now_, next_;
  int number_ = 0, step_ = 0;
};
/// Empty: the scales are in the stages.
template <class S>
requires(!S::kWarpScales) class WarpScales<S> {
 public:
  __device__ __forceinline__ WarpScales(const QuantizedLinearArgs&, const PackedWork<S>&) {}
  __device__ __forceinline__ void advance() {}
};

/// Reads this lane's scales of a block of weights from those of a slot in shared memory, where the block
/// begins at `column`.
template <class S>
__device__ __forceinline__ void read_scales(PackedBlock<S>& to, const void* slot, int column) {
  const int first = has_super_blocks(S::kWeights) ? 0 : S::first_group();
  to.scales.read(slot, column + first * S::kGroup, threadIdx.x % 32 / 4);
}
/// Likewise its zero points.
template <class S>
__device__ __forceinline__ void read_zeros(PackedBlock<S>& to, const signed char* slot, int column) {
#pragma unroll
  for (int i = 0; i < S::kLaneGroups; ++i)
    to.zeros[i] = slot[(column / max_of(S::kGroup, 1) + S::first_group() + i * S::kGroupStride) * kBlockRows +
                       threadIdx.x % 32 / 4];
}

/// Multiplies a work tile, of which a warp has a block of weights per step, and leaves the sums of the warps
/// in `partials`. kLoadsX: meanwhile x comes in chunks. `pipeline`: wait() for the next stage, read() this
/// lane's part of it, release() it.
template <bool kLoadsX, class S, class Pipeline>
__device__ __forceinline__ void multiply_tile(PackedPartials<S>& partials, WarpActivations<S>& x,
                                              Pipeline& pipeline) {
  using Work = PackedWork<S>;
  using X = WarpActivations<S>;
  constexpr int kChunks = kLoadsX ? X::kChunks : 1, kChunkSteps = kLoadsX ? X::kChunkBlocks : Work::kSteps;
  // The scales and minima of two stages exceed the registers, unless a lane has half of them; so does x.
  constexpr int kUnroll = kLoadsX || (kHasOffsets<S::kWeights> && !S::kDigits) ? 1 : 2;
  PackedAccumulator<S> sums(x);
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    if constexpr (kLoadsX) x.finish_chunk(chunk);
    const int first = chunk * kChunkSteps, end = min_of(first + kChunkSteps, Work::kSteps);
#pragma unroll kUnroll
    for (int step = first; step < end; ++step) {
      pipeline.wait();
      if (Work::has_block(step)) {
        PackedBlock<S> weights[S::kTiles][2];
        pipeline.read(weights);
        sums.add(weights, Work::block(step), step);
      }
      pipeline.release();
    }
  }
  store_partials<S>(partials, sums.finish());
  named_barrier_sync(1, S::kThreads);
}

/// Work tile `n` of a block. x may come with the first.
template <class S, class Pipeline>
__device__ __forceinline__ void multiply_tile(PackedPartials<S> (&partials)[2], WarpActivations<S>& x,
                                              Pipeline& pipeline, int n) {
  constexpr bool kChunked = WarpActivations<S>::kChunked;
  if (kChunked && n == 0)
    multiply_tile<kChunked>(partials[0], x, pipeline);
  else
    multiply_tile<false>(partials[n % 2], x, pipeline);
}

/// The first of this thread's results of work tile `n`: other warps store the outputs of the next tile.
template <class S>
__device__ __forceinline__ int first_result(int n) {
  return (static_cast<int>(threadIdx.x) + n * ceil_div(S::kResults, 32) * 32) % S::kThreads;
}

/// Multiplies the work tiles of a block and stores their outputs, without a cluster.
template <class S, class Pipeline>
__device__ __forceinline__ void multiply_tiles(const QuantizedLinearArgs& args, const PackedWork<S>& work,
                                               PackedPartials<S> (&partials)[2], WarpActivations<S>& x,
                                               Pipeline& pipeline) {
  constexpr int kStores = ceil_div(S::kResults, S::kThreads);
  for (int n = 0; n < work.count; ++n) {
    const int first = first_result<S>(n);
    PackedOutput<S> outputs[kStores];
#pragma unroll
    for (int j = 0; j < kStores; ++j)
      outputs[j] = PackedOutput<S>(args, work.tile(n) * S::kOutputs, first + j * S::kThreads);
    multiply_tile(partials, x, pipeline, n);
#pragma unroll
    for (int j = 0; j < kStores; ++j)
      if (outputs[j].is_valid)
        outputs[j].store(args, add_partials<S>(partials[n % 2], first + j * S::kThreads),
                         x.scale(outputs[j].token));
  }
}

}  // namespace warptune
