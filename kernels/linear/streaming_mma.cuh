#pragma once
// Streaming tensor-core GEMM for 2 to 64 tokens (skinny GEMM), persistent blocks. The kernels add the loads:
// mma_bulk_copy.cu (TMA, sm_90) and mma_cp_async.cu (sm_80).
// Operands: weights are the M operand of mma.sync m16n8k16, tokens are N: 8 tokens waste no tensor-core work.
// Grid: kBlocksK blocks, a cluster or any, own a contiguous range of outputs and compute it in groups of at
// most
//   kRows weight rows; they split K. One group where registers hold it: then x is read once.
// Roles: producer warps fill a kStages-deep pipeline of tiles [kRows, kTileK] of weight, with the same
//   columns of x [tokens, kTileK], or, with kResidentX, with x in the first group only: it then stays in
//   shared memory. kWarpsM x kWarpsK consumer warps: kWarpsM split the rows, kWarpsK the columns of every
//   stage.
// Sync: full and empty mbarrier per stage. At the end of a group the sums of the warps that split K are added
//   in shared memory, those of the blocks of a cluster through distributed shared memory, those of other
//   blocks by the last of them through the workspace, all in a fixed order; without a split of K a warp
//   stores its fragments. The producers meanwhile load the next group.
// Fused: RMSNorm multiplies the fragments of x by the weight of the norm, sums the squares of x on the way
//   and scales the outputs (fp16: reads x before, and scales the fragments); with rms_scale the scales come
//   from squares that the GEMM before has left, with add_rms a thread leaves those of its outputs; with
//   SwiGLU 8 gate rows and their 8 up rows are one m16 tile; for argmax neighboring lanes reduce the keys of
//   a token in every group (argmax.cuh).
// Shared memory (skinny_gemm.cuh): stages, resident x, partial sums, squares and scales of tokens, barriers.
//   Weights lie as [8-row slot][column tile][8][64], x as [column tile][tokens][64], with the 128-byte
//   swizzle.
// Levels, from large to small: a tile is one stage; a column tile, 64 of its columns; a fragment, the K of
//   one mma.
// Wins: 2 to 64 tokens.
#include "kernels/common/mma.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/pipeline_state.cuh"
#include "kernels/linear/skinny_epilogue.cuh"
#include "kernels/linear/skinny_gemm.cuh"

namespace warptune {

/// Waits for a stage. With packed weights a pause follows each poll and leaves issue slots to other warps.
template <class S, int kNanoseconds>
__device__ __forceinline__ void wait_in_pipeline(Mbarrier* barrier, unsigned phase) {
  if constexpr (S::Slots::kPacked)
    mbarrier_wait_paused<kNanoseconds>(barrier, phase);
  else
    mbarrier_wait(barrier, phase);
}

/// Fills the pipeline. A loader loads the weights of a stage, or its x, and tells the full barrier.
template <class S, class Loader>
class SkinnyProducer {
 public:
  __device__ __forceinline__ SkinnyProducer(const Loader& loader, const SkinnyShared<S>& shared)
      : loader_(loader), shared_(shared), total_(work_.groups * work_.steps), outputs_(work_.group(0)) {}

  /// The weights of the first stages, which no kernel writes: before pdl_wait(), and before the barrier that
  /// makes the mbarriers visible to other threads.
  __device__ __forceinline__ void load_first_weights(int stages = S::kStages) {
    loaded_ = min(stages, total_);
    for (int i = 0; i < loaded_; ++i) load_weights();
  }
  __device__ __forceinline__ void load_rest() {
    for (int i = 0; i < loaded_; ++i) load_x(i);
    unsigned phase = 1;  // of the empty barriers: nothing to wait for in the first round
    for (int i = loaded_; i < total_; ++i) {
      if (i >= S::kStages) {
        if (stage_ == 0) phase ^= 1;
        wait_in_pipeline<S, 100>(shared_.empty() + stage_, phase);
      }
      load_weights();
      load_x(i);
    }
  }

 private:
  __device__ __forceinline__ void load_weights() {
    const int outputs = outputs_.end - outputs_.begin;
    loader_.expect(shared_.full() + stage_, ceil_div(outputs, 8), !S::kResidentX || group_ == 0);
    loader_.load_weights(shared_.stage(stage_), outputs_.begin, outputs, work_.first_step + step_,
                         shared_.full() + stage_);
    if (++stage_ == S::kStages) stage_ = 0;
    if (++step_ == work_.steps) {
      step_ = 0;
      if (++group_ < work_.groups) outputs_ = work_.group(group_);
    }
  }
  __device__ __forceinline__ void load_x(int i) {
    if (!S::kResidentX || i < work_.steps)
      loader_.load_x(shared_.x(x_stage_, x_step_), work_.first_step + x_step_, shared_.full() + x_stage_);
    loader_.commit(shared_.full() + x_stage_);
    if (++x_stage_ == S::kStages) x_stage_ = 0;
    if (++x_step_ == work_.steps) x_step_ = 0;
  }

  const Loader loader_;
  const SkinnyShared<S> shared_;
  const SkinnyWork<S> work_;
  const int total_;                        // stages to fill
  typename SkinnyWork<S>::Group outputs_;  // the group of the next weights
  int loaded_ = 0, group_ = 0, step_ = 0, stage_ = 0, x_step_ = 0, x_stage_ = 0;
};

/// Orders the reads of a stage before the copies that overwrite it: TMA writes through the async proxy.
__device__ __forceinline__ void fence_reads_before_copies() {
#if __CUDA_ARCH__ >= 900
  fence_proxy_async();
#endif
}

/// The weights of the norm for the B fragments of a warp and stage; `k`: the column of the lane. Zero
/// beyond the row.
template <class S>
__device__ __forceinline__ void load_norm_fragments(unsigned (&norm)[S::kFragments][2], const void* weight,
                                                    int k) {
#pragma unroll
  for (int j = 0; j < S::kFragments; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = k + 16 * j + 8 * half;
      norm[j][half] =
          S::kSteps * S::kTileK == S::kIn || at < S::kIn
              ? __ldg(reinterpret_cast<const unsigned*>(static_cast<const typename S::T*>(weight) + at))
              : 0;
    }
}

/// Writes 1 / RMS of every token to shared memory: a warp reads rows of x, in front of the main loop.
template <class S>
__device__ __forceinline__ void compute_scales_of_x(const typename S::Args& args,
                                                    const SkinnyShared<S>& shared) {
  constexpr int kVec = 8;
  const int lane = threadIdx.x % 32;
  for (int t = threadIdx.x / 32; t < S::kPaddedTokens; t += S::kWarps) {
    float squares = 0;
    if (t < S::kTokens)
      for (int i = lane * kVec; i < S::kIn; i += 32 * kVec) {
        const auto x = to_float(load_vec<kVec>(static_cast<const typename S::T*>(args.x) + t * S::kIn + i));
#pragma unroll
        for (int e = 0; e < kVec; ++e) squares = fmaf(x[e], x[e], squares);
      }
    squares = warp_reduce<Sum>(squares);
    if (lane == 0) shared.scale()[t] = rsqrtf(squares / S::kIn + args.eps);
  }
  named_barrier_sync(1, S::kThreads);
}

/// Calls multiply(n, b0, b1) with fragment j of x of each tile of 8 tokens. `scales`: of the tokens, with
/// kScalesX. `x` is the shared address of the lane's ldmatrix row; fragments within a column tile differ in
/// address bits 5 and 6, which the swizzle has permuted.
template <class S, class Multiply>
__device__ __forceinline__ void for_x_fragments(SkinnySums<S>& sums, unsigned x, int j,
                                                const unsigned (&norm)[S::kFragments][2], const float* scales,
                                                bool count_squares, Multiply multiply) {
  using T = typename S::T;
#pragma unroll
  for (int n = 0; n < S::kTokenTiles; n += 2) {
    const unsigned address = (x ^ (j % 4 * 32)) + j / 4 * S::kXColumnTileBytes + n * 1024;
    unsigned b[4];  // b0, b1 of tokens 8 n to 8 n + 7, then of the next 8
    if (n + 1 < S::kTokenTiles)
      ldmatrix_x4(b, address);
    else
      ldmatrix_x2(b[0], b[1], address);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (n + i == S::kTokenTiles) break;
      unsigned b0 = b[2 * i], b1 = b[2 * i + 1];
      if constexpr (S::kScalesX) {
        const float scale = scales[(n + i) * 8 + threadIdx.x % 32 / 4];
        b0 = scale_pairs<T>(b0, norm[j][0], scale);
        b1 = scale_pairs<T>(b1, norm[j][1], scale);
      } else if constexpr (S::kNorm) {
        if (count_squares) sums.squares[n + i] = add_squares<T>(add_squares<T>(sums.squares[n + i], b0), b1);
        b0 = multiply_pairs<T>(b0, norm[j][0]);
        b1 = multiply_pairs<T>(b1, norm[j][1]);
      }
      multiply(n + i, b0, b1);
    }
  }
}

/// The operands of a consumer warp where weights have 16 bits: as they lie in a stage.
template <class S>
class PlainOperands {
 public:
  /// `fragment`: the first of the warp's k16 fragments in a stage.
  __device__ __forceinline__ PlainOperands(const typename S::Args&, int warp_m, int fragment, int lane)
      // Matrices of A: rows 0-7, rows 8-15, then the same rows 8 columns further.
      : a_lane_((warp_m * 2 * S::kRowTiles + lane / 8 % 2) * S::kSlotBytes + fragment / 4 * 1024 +
                lane % 8 * 128 + ((fragment % 4 * 2 + lane / 16) ^ lane % 8) * 16) {}
  __device__ __forceinline__ void begin_group(int /*first_output*/) const {}
  /// sums += weights . x of a stage, which holds step `step` of the block. `b_lane`: bytes from x to the
  /// lane's ldmatrix row; for the others see for_x_fragments().
  __device__ __forceinline__ void multiply(SkinnySums<S>& sums, const SkinnyShared<S>& shared, int stage,
                                           int step, unsigned b_lane,
                                           const unsigned (&norm)[S::kFragments][2],
                                           bool count_squares) const {
    const unsigned weights = shared_address(shared.stage(stage)) + a_lane_,
                   x = shared_address(shared.x(stage, step)) + b_lane;
#pragma unroll
    for (int j = 0; j < S::kFragments; ++j) {
      unsigned a[S::kRowTiles][4];
#pragma unroll
      for (int m = 0; m < S::kRowTiles; ++m)
        ldmatrix_x4(a[m], (weights ^ (j % 4 * 32)) + j / 4 * 1024 + m * 2 * S::kSlotBytes);
      for_x_fragments<S>(sums, x, j, norm, shared.scale(), count_squares,
                         [&](int n, unsigned b0, unsigned b1) {
#pragma unroll
                           for (int m = 0; m < S::kRowTiles; ++m)
                             mma_m16n8k16<typename S::T>(sums.d[m][n], a[m], b0, b1);
                         });
    }
  }
  __device__ __forceinline__ void end_group(SkinnySums<S>&) const {}

 private:
  const unsigned a_lane_;  // bytes from a stage to the lane's ldmatrix row
};

/// A consumer warp: multiplies the stages and stores the outputs of every group. `Operands`: PlainOperands,
/// or a class like it that makes operands of other weights.
template <class S, int kPartialOffset = 0, class Operands = PlainOperands<S>>
__device__ __forceinline__ void consume(const typename S::Args& args, const SkinnyShared<S>& shared) {
  const SkinnyWork<S> work;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_m = warp / S::kWarpsK, warp_k = warp % S::kWarpsK;
  const int fragment = warp_k * S::kFragments, row = lane % 8;  // row of an 8x8 matrix of ldmatrix
  Operands operands(args, warp_m, fragment, lane);
  // Matrices of B: 8 tokens, the same 8 columns further, then the next 8 tokens.
  const unsigned b_lane = fragment / 4 * S::kXColumnTileBytes + (lane / 16 * 8 + row) * 128 +
                          ((fragment % 4 * 2 + lane / 8 % 2) ^ row) * 16;

  if constexpr (S::kScalesX) compute_scales_of_x<S>(args, shared);
  if constexpr (S::kRmsScale) {
    compute_token_scales<S::kTokens, S::kIn, S::kWarps>(args.squares, args.eps, shared.scale(), warp);
    named_barrier_sync(1, S::kThreads);
  }
  PipelineState<S::kStages> state;
  for (int group = 0; group < work.groups; ++group) {
    SkinnySums<S> sums = {};
    operands.begin_group(work.group(group).begin);
    for (int step = 0; step < work.steps; ++step) {
      unsigned norm[S::kFragments][2] = {};
      if constexpr (S::kNorm)
        load_norm_fragments<S>(norm, args.norm_weight,
                               (work.first_step + step) * S::kTileK + fragment * 16 + lane % 4 * 2);
      wait_in_pipeline<S, 20>(shared.full() + state.index, state.phase);
      operands.multiply(sums, shared, state.index, step, b_lane, norm, group == 0);
      fence_reads_before_copies();
      __syncwarp();
      if (lane == 0) mbarrier_arrive(shared.empty() + state.index);
      state.advance();
    }
    operands.end_group(sums);
    const auto [begin, end] = work.group(group);
    if (S::kAddsSquares && group == 0 && warp_m == 0) store_squares<S>(shared, sums, warp_k, lane);
    if constexpr (S::kSharedSums) {
      if constexpr (S::kOneGroup) {  // all warps have read the stages
        named_barrier_sync(1, S::kThreads);
      } else if (group > 0) {  // the partial sums of the group before have been read
        if constexpr (S::kCluster > 1)
          mbarrier_wait_cluster(shared.partial_empty(), (group - 1) % 2);
        else
          named_barrier_sync(1, S::kThreads);
      }
      store_partial<S>(shared, sums, warp_m, warp_k, lane);
      store_group<S, kPartialOffset>(args, shared, group, begin, end - begin, group + 1 == work.groups, lane);
    } else {
      if (S::kAddsSquares && group == 0) {
        named_barrier_sync(1, S::kThreads);
        compute_scales<S>(args, shared);
      }
      store_fragments<S>(args, shared, sums, begin, end - begin, warp_m, lane);
    }
  }
  if constexpr (S::kArgmax) write_ids<typename S::T, S::kOut, S::kThreads>(args);
}

}  // namespace warptune
