#pragma once
// Streaming tensor-core GEMM for 2 to 64 tokens (skinny GEMM), persistent blocks. The kernels add the loads:
// mma_bulk_copy.cu (TMA, sm_90) and mma_cp_async.cu (sm_80).
// Operands: weights are the M operand of mma.sync m16n8k16, tokens are N: 8 tokens waste no tensor-core work.
// Grid: clusters of kCluster blocks. A cluster owns a contiguous range of outputs and computes it in groups
//   of at most kRows weight rows; its blocks split K. One group where registers hold it: then x is read once.
// Roles: producer warps fill a kStages-deep pipeline of tiles [kRows, kTileK] of weight, with the same
//   columns of x [tokens, kTileK], or, with kResidentX, with x in the first group only: it then stays in
//   shared memory. kWarpsM x kWarpsK consumer warps: kWarpsM split the rows, kWarpsK the columns of every
//   stage.
// Sync: full and empty mbarrier per stage. At the end of a group the sums of the warps that split K are added
//   in shared memory, those of the blocks of a cluster through distributed shared memory, both in a fixed
//   order; without a split of K a warp stores its fragments. The producers meanwhile load the next group.
// Fused: RMSNorm multiplies the fragments of x by the weight of the norm, sums the squares of x on the way
//   and scales the outputs; with SwiGLU 8 gate rows and their 8 up rows are one m16 tile; for argmax
//   neighboring lanes reduce the keys of a token in every group (argmax.cuh).
// Shared memory (SkinnyGemm): stages, resident x, partial sums, squares and scales of the tokens, barriers.
//   Weights lie as [8-row slot][64-column panel][8][64], x as [panel][tokens][64], with the 128-byte swizzle.
// Wins: 2 to 64 tokens.
#include "kernels/common/cluster.cuh"
#include "kernels/common/mma.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/linear/argmax.cuh"
#include "kernels/linear/fused.cuh"

namespace warptune {

/// The problem, the configuration and the layout of the shared memory, which
/// variants/linear/streaming_mma.cpp repeats.
template <class T_, int kTokens_, int kIn_, int kOut_, int kBias_, int kPrologue_, int kEpilogue_,
          int kWarpsM_, int kWarpsK_, int kRows_, int kTileK_, int kStages_, bool kResidentX_, int kCluster_>
struct SkinnyGemm {
  using T = T_;
  using Args = LinearArgsOf<kPrologue_, kEpilogue_>;
  using Key = SortKey<T, kOut_>;
  static constexpr int kTokens = kTokens_, kIn = kIn_, kOut = kOut_, kBias = kBias_, kEpilogue = kEpilogue_;
  static constexpr int kWarpsM = kWarpsM_, kWarpsK = kWarpsK_, kRows = kRows_, kTileK = kTileK_,
                       kStages = kStages_, kCluster = kCluster_;
  static constexpr bool kNorm = kPrologue_ == kPrologueRmsNorm, kSwiglu = kEpilogue == kEpilogueSwiglu,
                        kArgmax = kEpilogue == kEpilogueArgmax, kResidentX = kResidentX_;
  static constexpr int kWarps = kWarpsM * kWarpsK, kThreads = 32 * kWarps;  // consumers
  static constexpr bool kSplitK = kWarpsK * kCluster > 1;  // partial sums go through shared memory
  static constexpr int kTokenTiles = ceil_div(kTokens, 8), kPaddedTokens = 8 * kTokenTiles;
  static constexpr int kRowTiles = kRows / kWarpsM / 16;         // m16 tiles of a warp
  static constexpr int kSlices = kTileK / 16 / kWarpsK;          // k16 slices of a warp and stage
  static constexpr int kWeightRows = kSwiglu ? 2 * kOut : kOut;  // of the matrix
  static constexpr int kSlotsOfUnit = kSwiglu ? 2 : 1;           // 8 outputs: gate rows, up rows
  static constexpr int kGroupOutputs = kRows / kSlotsOfUnit;
  static constexpr int kSteps = ceil_div(kIn, kTileK), kMaxSteps = ceil_div(kSteps, kCluster);

  // Bytes.
  static constexpr int kPanels = kTileK / 64, kSlotBytes = 1024 * kPanels, kXPanelBytes = 128 * kPaddedTokens;
  static constexpr int kWeightBytes = kRows / 8 * kSlotBytes, kXBytes = kPanels * kXPanelBytes;
  static constexpr int kStageBytes = kWeightBytes + (kResidentX ? 0 : kXBytes);
  static constexpr int kXOffset = kStages * kStageBytes;
  static constexpr int kPartialOffset = kXOffset + (kResidentX ? kMaxSteps * kXBytes : 0);
  static constexpr int kPitch = kRows + 4;  // floats of a token's partial sums: stores without bank conflicts
  static constexpr int kPartial = kPaddedTokens * kPitch;  // floats of a warp that splits K
  static constexpr int kSquaresOffset = kPartialOffset + (kSplitK ? 4 * kWarpsK * kPartial : 0);
  static constexpr int kScaleOffset = kSquaresOffset + 4 * kWarpsK * kPaddedTokens;
  static constexpr int kBarrierOffset = kScaleOffset + 4 * kPaddedTokens;

  static_assert(kTileK % 64 == 0 && kTileK % (16 * kWarpsK) == 0 && kRows % (16 * kWarpsM) == 0);
  static_assert((kSlices & (kSlices - 1)) == 0 && kStages >= 2 && kTokens <= 64);
};

/// What a block computes: outputs in groups, and steps of kTileK columns. All blocks of a cluster have the
/// same outputs. Ranges of outputs are even to one output, but the last tile of a range is whole slots of 8
/// rows: it overlaps the first rows of the next range. Every second cluster computes its groups in reverse
/// order, so that both read these rows at about the same time, once from memory.
template <class S>
struct SkinnyWork {
  int first, outputs, groups, first_step, steps;
  bool reverse;

  __device__ __forceinline__ SkinnyWork() {
    const unsigned clusters = gridDim.x / S::kCluster, cluster = blockIdx.x / S::kCluster;
    const int rank = cluster_rank();
    static_assert(S::kOut < (1 << 21));  // times the clusters: 32 bits
    first = static_cast<int>(S::kOut * cluster / clusters);
    outputs = static_cast<int>(S::kOut * (cluster + 1) / clusters) - first;
    groups = ceil_div(outputs, S::kGroupOutputs);
    first_step = S::kSteps * rank / S::kCluster;
    steps = S::kSteps * (rank + 1) / S::kCluster - first_step;
    reverse = cluster % 2 != 0;
  }
  static __device__ __forceinline__ int cluster_rank() { return static_cast<int>(blockIdx.x) % S::kCluster; }

  struct Group {
    int begin, end;  // outputs
  };
  /// Groups differ by at most 8 outputs, so that no stage is nearly empty.
  __device__ __forceinline__ Group group(int i) const {
    if (reverse) i = groups - 1 - i;
    const int slots = ceil_div(outputs, 8);
    return {first + 8 * (slots * i / groups), first + min(outputs, 8 * (slots * (i + 1) / groups))};
  }
};

/// The shared memory of a block.
template <class S>
struct SkinnyShared {
  unsigned char* base;

  __device__ __forceinline__ unsigned char* stage(int i) const { return base + i * S::kStageBytes; }
  /// The x tile of a step; with kResidentX `stage` does not matter, else `step`.
  __device__ __forceinline__ unsigned char* x(int stage_index, int step) const {
    return S::kResidentX ? base + S::kXOffset + step * S::kXBytes : stage(stage_index) + S::kWeightBytes;
  }
  __device__ __forceinline__ float* partial() const {
    return reinterpret_cast<float*>(base + S::kPartialOffset);
  }
  __device__ __forceinline__ float* squares() const {
    return reinterpret_cast<float*>(base + S::kSquaresOffset);
  }
  __device__ __forceinline__ float* scale() const { return reinterpret_cast<float*>(base + S::kScaleOffset); }
  __device__ __forceinline__ Mbarrier* full() const {
    return reinterpret_cast<Mbarrier*>(base + S::kBarrierOffset);
  }
  __device__ __forceinline__ Mbarrier* empty() const { return full() + S::kStages; }
  /// Whether all blocks of the cluster have written their partial sums, and have read those of the others.
  __device__ __forceinline__ Mbarrier* partial_full() const { return full() + 2 * S::kStages; }
  __device__ __forceinline__ Mbarrier* partial_empty() const { return partial_full() + 1; }

  /// One thread; `full_arrivals` of the producers.
  __device__ __forceinline__ void init_barriers(int full_arrivals) const {
    for (int i = 0; i < S::kStages; ++i) {
      mbarrier_init(full() + i, full_arrivals);
      mbarrier_init(empty() + i, S::kWarps);
    }
    mbarrier_init(partial_full(), S::kWarps * S::kCluster);
    mbarrier_init(partial_empty(), S::kWarps * S::kCluster);
  }
};

/// Fills the pipeline. A loader loads the weights of a stage, or its x, and tells the full barrier.
template <class S, class Loader>
class SkinnyProducer {
 public:
  __device__ __forceinline__ SkinnyProducer(const Loader& loader, const SkinnyShared<S>& shared)
      : loader_(loader), shared_(shared), total_(work_.groups * work_.steps), outputs_(work_.group(0)) {}

  /// The weights of the first stages, which no kernel writes: before pdl_wait(), and before the barrier that
  /// makes the mbarriers visible to other threads.
  __device__ __forceinline__ void load_first_weights() {
    loaded_ = min(S::kStages, total_);
    for (int i = 0; i < loaded_; ++i) load_weights();
  }
  __device__ __forceinline__ void load_rest() {
    for (int i = 0; i < loaded_; ++i) load_x(i);
    unsigned phase = 1;  // of the empty barriers: nothing to wait for in the first round
    for (int i = loaded_; i < total_; ++i) {
      if (i >= S::kStages) {
        if (stage_ == 0) phase ^= 1;
        mbarrier_wait(shared_.empty() + stage_, phase);
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

/// The sums of a consumer warp: D fragments, and of the tokens lane / 4 of each n8 tile the squares of x.
template <class S>
struct SkinnySums {
  float d[S::kRowTiles][S::kTokenTiles][4];
  float squares[S::kTokenTiles];
};

/// The weights of the norm behind the B fragments of a warp and stage; `k`: the column of the lane. Zero
/// beyond the row.
template <class S>
__device__ __forceinline__ void load_norm_fragments(unsigned (&norm)[S::kSlices][2], const void* weight,
                                                    int k) {
#pragma unroll
  for (int j = 0; j < S::kSlices; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = k + 16 * j + 8 * half;
      norm[j][half] =
          S::kSteps * S::kTileK == S::kIn || at < S::kIn
              ? __ldg(reinterpret_cast<const unsigned*>(static_cast<const typename S::T*>(weight) + at))
              : 0;
    }
}

/// sums += weights . x of the k16 slices of a warp. `weights` and `x` are the shared addresses of the lane's
/// ldmatrix rows; slices within a panel differ in address bits 5 and 6, which the swizzle has permuted.
template <class S>
__device__ __forceinline__ void multiply_stage(SkinnySums<S>& sums, unsigned weights, unsigned x,
                                               const unsigned (&norm)[S::kSlices][2], bool count_squares) {
  using T = typename S::T;
#pragma unroll
  for (int j = 0; j < S::kSlices; ++j) {
    unsigned a[S::kRowTiles][4];
#pragma unroll
    for (int m = 0; m < S::kRowTiles; ++m)
      ldmatrix_x4(a[m], (weights ^ (j % 4 * 32)) + j / 4 * 1024 + m * 2 * S::kSlotBytes);
#pragma unroll
    for (int n = 0; n < S::kTokenTiles; n += 2) {
      const unsigned address = (x ^ (j % 4 * 32)) + j / 4 * S::kXPanelBytes + n * 1024;
      unsigned b[4];  // b0, b1 of tokens 8 n to 8 n + 7, then of the next 8
      if (n + 1 < S::kTokenTiles)
        ldmatrix_x4(b, address);
      else
        ldmatrix_x2(b[0], b[1], address);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (n + i == S::kTokenTiles) break;
        unsigned b0 = b[2 * i], b1 = b[2 * i + 1];
        if constexpr (S::kNorm) {
          if (count_squares)
            sums.squares[n + i] = add_squares<T>(add_squares<T>(sums.squares[n + i], b0), b1);
          b0 = multiply_pairs<T>(b0, norm[j][0]);
          b1 = multiply_pairs<T>(b1, norm[j][1]);
        }
#pragma unroll
        for (int m = 0; m < S::kRowTiles; ++m) mma_m16n8k16<T>(sums.d[m][n + i], a[m], b0, b1);
      }
    }
  }
}

/// Writes the sums of a warp to shared memory: D as [token][row of the group].
template <class S>
__device__ __forceinline__ void store_partial(const SkinnyShared<S>& shared, const SkinnySums<S>& sums,
                                              int warp_m, int warp_k, int lane) {
  float* const to = shared.partial() + warp_k * S::kPartial + lane % 4 * 2 * S::kPitch +
                    warp_m * (16 * S::kRowTiles) + lane / 4;
#pragma unroll
  for (int m = 0; m < S::kRowTiles; ++m)
#pragma unroll
    for (int n = 0; n < S::kTokenTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) to[(n * 8 + i % 2) * S::kPitch + m * 16 + i / 2 * 8] = sums.d[m][n][i];
}
template <class S>
__device__ __forceinline__ void store_squares(const SkinnyShared<S>& shared, const SkinnySums<S>& sums,
                                              int warp_k, int lane) {
#pragma unroll
  for (int n = 0; n < S::kTokenTiles; ++n) {
    const float squares = warp_reduce<Sum, 4>(sums.squares[n]);
    if (lane % 4 == 0) shared.squares()[warp_k * S::kPaddedTokens + n * 8 + lane / 4] = squares;
  }
}

/// Adds, in place, the partial results of the warps that split K; `of_warp` elements lie between two warps.
template <class S>
__device__ __forceinline__ void add_warps(float* partial, int of_warp, int count) {
  for (int i = threadIdx.x; i < count; i += S::kThreads) {
    float sum = partial[i];
#pragma unroll
    for (int w = 1; w < S::kWarpsK; ++w) sum += partial[w * of_warp + i];
    partial[i] = sum;
  }
}

/// The sum of one partial result over the warps that split K or, after add_warps(), over the cluster.
template <class S>
__device__ __forceinline__ float sum_partial(const float* partial, int of_warp) {
  constexpr int kCount = S::kCluster > 1 ? S::kCluster : S::kWarpsK;
  float parts[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    if constexpr (S::kCluster > 1)
      parts[i] = cluster_load(partial, i);
    else
      parts[i] = partial[i * of_warp];
#pragma unroll
  for (int i = 1; i < kCount; ++i) parts[0] += parts[i];
  return parts[0];
}

/// Arrives at the barrier of every block of the cluster, once per warp.
template <class S>
__device__ __forceinline__ void arrive_in_cluster(Mbarrier* barrier, int lane) {
  __syncwarp();
  if (lane < S::kCluster) mbarrier_arrive_cluster(barrier, lane);
}

/// The scale of RMSNorm of every token, from the squares.
template <class S>
__device__ __forceinline__ void compute_scales(const typename S::Args& args, const SkinnyShared<S>& shared) {
  if constexpr (S::kNorm) {
    for (int t = threadIdx.x; t < S::kTokens; t += S::kThreads)
      shared.scale()[t] = rsqrtf(sum_partial<S>(shared.squares() + t, S::kPaddedTokens) / S::kIn + args.eps);
    named_barrier_sync(1, S::kThreads);
  }
}

/// Epilogue of a group whose K is not split: a warp stores its fragments.
template <class S>
__device__ __forceinline__ void store_fragments(const typename S::Args& args, const SkinnyShared<S>& shared,
                                                const SkinnySums<S>& sums, int first, int outputs, int warp_m,
                                                int lane) {
#pragma unroll
  for (int n = 0; n < S::kTokenTiles; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int token = n * 8 + lane % 4 * 2 + i;
      if (S::kTokens % 8 != 0 && token >= S::kTokens) continue;
      const float scale = S::kNorm ? shared.scale()[token] : 1;
      [[maybe_unused]] typename S::Key::Word key = 0;
#pragma unroll
      for (int m = 0; m < S::kRowTiles; ++m)
#pragma unroll
        for (int half = 0; half < 2 / S::kSlotsOfUnit; ++half) {
          const int output = ((warp_m * S::kRowTiles + m) * (2 / S::kSlotsOfUnit) + half) * 8 + lane / 4;
          float y = scale * sums.d[m][n][i + 2 * half];
          if constexpr (S::kSwiglu) y = silu(y) * (scale * sums.d[m][n][i + 2]);
          if (output < outputs) {
            const auto rounded = store_output<typename S::T, S::kOut, S::kBias, S::kEpilogue>(
                args, token, first + output, y,
                load_residual<typename S::T, S::kOut, S::kEpilogue>(args, token, first + output));
            if constexpr (S::kArgmax) key = max_key(key, S::Key::make(rounded, first + output));
          }
        }
      if constexpr (S::kArgmax) put_largest_key<4, 32>(args, token, key, 0x11111111u << lane % 4);
    }
}

/// Epilogue of a group whose sums lie in shared memory: adds the partial sums, scales, and stores `outputs`
/// outputs from `first` on. The blocks of a cluster share them.
template <class S>
__device__ __forceinline__ void store_group(const typename S::Args& args, const SkinnyShared<S>& shared,
                                            int group, int first, int outputs, bool last, int lane) {
  const float* const partial = shared.partial();
  named_barrier_sync(1, S::kThreads);
  if constexpr (S::kCluster > 1) {
    if constexpr (S::kWarpsK > 1) {
      add_warps<S>(shared.partial(), S::kPartial, S::kTokens * S::kPitch);
      if (S::kNorm && group == 0) add_warps<S>(shared.squares(), S::kPaddedTokens, S::kTokens);
    }
    arrive_in_cluster<S>(shared.partial_full(), lane);
    mbarrier_wait_cluster(shared.partial_full(), group % 2);
  }
  if (S::kNorm && group == 0) compute_scales<S>(args, shared);
  const int rank = SkinnyWork<S>::cluster_rank();
#pragma unroll 2
  for (int i = rank * S::kThreads + threadIdx.x; i < S::kTokens * S::kGroupOutputs;
       i += S::kCluster * S::kThreads) {
    const int token = i / S::kGroupOutputs, output = i % S::kGroupOutputs;
    if (!S::kArgmax && output >= outputs) continue;
    const float scale = S::kNorm ? shared.scale()[token] : 1;
    const int row = S::kSwiglu ? output / 8 * 16 + output % 8 : output;
    const float* const at = partial + token * S::kPitch + row;
    float y = scale * sum_partial<S>(at, S::kPartial);
    if constexpr (S::kSwiglu) y = silu(y) * (scale * sum_partial<S>(at + 8, S::kPartial));
    if constexpr (S::kArgmax) {
      typename S::Key::Word key = 0;
      if (output < outputs)
        key = S::Key::make(
            store_output<typename S::T, S::kOut, S::kBias, S::kEpilogue>(args, token, first + output, y, 0),
            first + output);
      // A group is a multiple of 16 outputs, so these lanes have one token, and all or none of them are here.
      constexpr int kLanes = S::kGroupOutputs % 32 == 0 ? 32 : 16;
      put_largest_key<1, kLanes>(args, token, key, kLanes == 32 ? ~0u : 0xffffu << (lane & 16));
    } else {
      store_output<typename S::T, S::kOut, S::kBias, S::kEpilogue>(
          args, token, first + output, y,
          load_residual<typename S::T, S::kOut, S::kEpilogue>(args, token, first + output));
    }
  }
  // The last arrival is not waited for, and may reach a block that has exited.
  if (S::kCluster > 1 && !last) arrive_in_cluster<S>(shared.partial_empty(), lane);
}

/// A consumer warp: multiplies the stages and stores the outputs of every group.
template <class S>
__device__ __forceinline__ void consume(const typename S::Args& args, const SkinnyShared<S>& shared) {
  const SkinnyWork<S> work;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_m = warp / S::kWarpsK, warp_k = warp % S::kWarpsK;
  const int slice = warp_k * S::kSlices, row = lane % 8;  // of an 8x8 matrix of ldmatrix
  // Matrices of A: rows 0-7, rows 8-15, then the same rows 8 columns further; of B: 8 tokens, the same 8
  // columns further, then the next 8 tokens.
  const unsigned a_lane = (warp_m * 2 * S::kRowTiles + lane / 8 % 2) * S::kSlotBytes + slice / 4 * 1024 +
                          row * 128 + ((slice % 4 * 2 + lane / 16) ^ row) * 16;
  const unsigned b_lane =
      slice / 4 * S::kXPanelBytes + (lane / 16 * 8 + row) * 128 + ((slice % 4 * 2 + lane / 8 % 2) ^ row) * 16;

  int stage = 0;
  unsigned phase = 0;
  for (int group = 0; group < work.groups; ++group) {
    SkinnySums<S> sums = {};
    for (int step = 0; step < work.steps; ++step) {
      unsigned norm[S::kSlices][2] = {};
      if constexpr (S::kNorm)
        load_norm_fragments<S>(norm, args.norm_weight,
                               (work.first_step + step) * S::kTileK + slice * 16 + lane % 4 * 2);
      mbarrier_wait(shared.full() + stage, phase);
      multiply_stage<S>(sums, shared_address(shared.stage(stage)) + a_lane,
                        shared_address(shared.x(stage, step)) + b_lane, norm, group == 0);
      fence_reads_before_copies();
      __syncwarp();
      if (lane == 0) mbarrier_arrive(shared.empty() + stage);
      if (++stage == S::kStages) {
        stage = 0;
        phase ^= 1;
      }
    }
    const auto [begin, end] = work.group(group);
    if (S::kNorm && group == 0 && warp_m == 0) store_squares<S>(shared, sums, warp_k, lane);
    if constexpr (S::kSplitK) {
      if (group > 0) {  // the partial sums of the group before have been read
        if constexpr (S::kCluster > 1)
          mbarrier_wait_cluster(shared.partial_empty(), (group - 1) % 2);
        else
          named_barrier_sync(1, S::kThreads);
      }
      store_partial<S>(shared, sums, warp_m, warp_k, lane);
      store_group<S>(args, shared, group, begin, end - begin, group + 1 == work.groups, lane);
    } else {
      if (S::kNorm && group == 0) {
        named_barrier_sync(1, S::kThreads);
        compute_scales<S>(args, shared);
      }
      store_fragments<S>(args, shared, sums, begin, end - begin, warp_m, lane);
    }
  }
  if constexpr (S::kArgmax) write_ids<typename S::T, S::kOut, S::kThreads>(args);
}

}  // namespace warptune
