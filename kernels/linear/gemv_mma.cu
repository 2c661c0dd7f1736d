// GEMV on tensor cores (mma.sync), weights by bulk copies (cp.async.bulk, sm_90), for 1 to 8 tokens.
// Grid: persistent blocks; each computes a contiguous range of output rows.
// Roles: one producer warp fills a kStages-deep pipeline of tiles of kRows weight rows x kTileK columns.
//   Eight consumer warps split the columns of every tile (split K). Each keeps its columns of x in registers,
//   so x takes no shared memory and no barrier.
// Levels, from large to small: a work tile is the 16 weight rows that one reduction covers; a tile (row tile,
//   where its columns do not matter) is one stage; a warp tile, the columns of a tile that one warp
//   multiplies at a time; a fragment, the columns of two mma (a warp tile has kFragments).
// Tensor cores: the diagonal of mma.sync (diagonal_mma.cuh); a split is 32 columns of a weight row.
// Copies: rows lie in shared memory without padding: copies to rows that are not 128-byte aligned are 2 to
//   7 % slower. A copy is 2 KB or more: each occupies the TMA unit of an SM for about 65 cycles.
// Reduction: the sums of warps and splits are added in shared memory, in a fixed order, once per work tile.
// Sync: full and empty mbarrier per stage; a barrier of the consumers per work tile.
// Fused: RMSNorm multiplies x in registers, the sum of squares is reduced with the first work tile
//   (fp16: before). With SwiGLU half of the rows of a tile are gates, half their ups. With 5 to 8 tokens also
//   the halves of a split RMSNorm.
// PDL: the pipeline is filled before pdl_wait(). The producer prefetches some of the next GEMM's weights to
//   the L2, before pdl_wait() (o) or after it (down); see gemv_bulk_copy.cu.
// Shared memory: Storage, below; static: keys of argmax.
// Wins: 1 to 4 tokens, nearly every shape; 8 tokens, lm_head and the GEMMs of small models. In steps of
//   the smallest models gemv_bulk_copy and gemv_vectorized leave more room for the next kernel.
#include "kernels/common/pdl.cuh"
#include "kernels/common/pipeline_state.cuh"
#include "kernels/common/tma.cuh"
#include "kernels/linear/argmax.cuh"
#include "kernels/linear/diagonal_mma.cuh"
#include "kernels/linear/fused.cuh"

namespace warptune {

inline constexpr int kGemvMmaThreads = 9 * 32;  // eight consumer warps, a producer warp

template <class T_, int kTokens_, int kIn_, int kOut_, int kBias_, int kPrologue, int kEpilogue_, int kRows_,
          int kTileK_, int kStages_>
struct GemvMma {
  using T = T_;
  static constexpr int kTokens = kTokens_, kIn = kIn_, kOut = kOut_, kBias = kBias_, kEpilogue = kEpilogue_;
  static constexpr int kRows = kRows_, kTileK = kTileK_, kStages = kStages_;
  static constexpr int kWarps = 8, kThreads = 32 * kWarps;  // consumers
  static constexpr bool kNorm = kPrologue == kPrologueRmsNorm, kRmsScale = kPrologue == kPrologueRmsScale,
                        kSwiglu = kEpilogue == kEpilogueSwiglu, kAddRms = kEpilogue == kEpilogueAddRms;
  static constexpr int kOutputs = kSwiglu ? kRows / 2 : kRows;  // of a tile
  static constexpr int kTiles = ceil_div(kIn, kTileK), kLastTileK = kIn - (kTiles - 1) * kTileK;
  // With 8 tokens x is large. So that not all blocks read the same columns of it at a time, they begin at
  // different tiles of a row.
  static constexpr bool kRotates = kTokens > 4 && kTiles > 1 && kLastTileK == kTileK;

  // A warp tile has 128 bytes or more of a row: eight lanes read 128 bytes of shared memory at a time, with
  // one split the bytes of two rows.
  using Mma = DiagonalMma<kTokens>;
  static constexpr int kPaddedTokens = Mma::kPaddedTokens, kSplits = Mma::kSplits;
  static constexpr int kFragments = kSplits == 1 ? 2 : 1, kFragmentK = Mma::kColumns,
                       kWarpTileK = kFragmentK * kFragments;
  static constexpr int kWarpTiles = ceil_div(kTileK / kWarpTileK, kWarps);  // warp tiles per warp and tile
  static constexpr int kWarpFragments = kWarpTiles * kFragments;
  static constexpr int kMmaRows = Mma::kRows, kMmas = kRows / kMmaRows;
  static constexpr bool kContiguous = kTiles == 1;  // the rows of a tile

  // The reduction of a work tile: a dot product per token and row, kLanes lanes for each.
  static constexpr int kWorkRowTiles = 16 / kRows, kWorkMmas = 16 / kMmaRows, kDots = 16 * kPaddedTokens;
  static constexpr int kPartials = kWarps * kSplits, kLanes = 16 / kPaddedTokens;
  static constexpr int kPartialPitch = kPartials + (kSplits == 1 ? 4 : 0);

  static_assert(kTokens <= 8 && kIn % kWarpTileK == 0 && kTileK % kWarpTileK == 0);
  static_assert(kRows % kMmaRows == 0 && 16 % kRows == 0 && kOut % kOutputs == 0);
  static_assert(kDots * kLanes == kThreads && kPartials == 4 * kLanes);
  // The epilogue add_rms adds the squares of a token's work tile within a warp.
  static_assert(!kAddRms || (kPaddedTokens == 8 && kOutputs == kSquaresGroup));

  struct Storage {  // variants/linear/cuda.cpp has its size
    alignas(128) T stages[kStages][kRows][kTileK];
    alignas(16) float partials[2][kDots][kPartialPitch];
    float squares[kPaddedTokens][kWarps];
    Mbarrier full[kStages], empty[kStages];
  };
};

/// What a block computes: row tiles of kRows weight rows, each in kTiles tiles of kTileK columns.
template <class S>
struct GemvWork {
  int first, last;  // row tiles

  __device__ __forceinline__ GemvWork() {
    constexpr long long kRowTiles = S::kOut / S::kOutputs;
    first = static_cast<int>(kRowTiles * blockIdx.x / gridDim.x);
    last = static_cast<int>(kRowTiles * (blockIdx.x + 1) / gridDim.x);
  }
  __device__ __forceinline__ int tiles() const { return (last - first) * S::kTiles; }
};

/// The first column of a tile.
template <class S>
__device__ __forceinline__ int first_column(int tile) {
  if constexpr (S::kRotates)
    return (tile + static_cast<int>(blockIdx.x)) % S::kTiles * S::kTileK;
  else
    return tile * S::kTileK;
}

/// The producer: one thread issues the copies of a tile.
template <class S>
class GemvProducer {
 public:
  __device__ __forceinline__ GemvProducer(typename S::Storage& shared, const void* weight)
      : shared_(shared), weight_(static_cast<const typename S::T*>(weight)), row_tile_(work_.first) {}

  __device__ __forceinline__ void fill() {
    for (; loaded_ < min_of(S::kStages, work_.tiles()); ++loaded_) load();
  }
  __device__ __forceinline__ void refill() {
    unsigned phase = 0;
    for (; loaded_ < work_.tiles(); ++loaded_) {
      mbarrier_wait(&shared_.empty[stage_], phase);
      load();
      if (stage_ == 0) phase ^= 1;
    }
  }

 private:
  using T = typename S::T;

  __device__ __forceinline__ void load() {
    constexpr int kCopies = !S::kContiguous ? S::kRows : S::kSwiglu ? 2 : 1, kCopyRows = S::kRows / kCopies;
    const int columns = tile_ == S::kTiles - 1 ? S::kLastTileK : S::kTileK;
    Mbarrier* const full = &shared_.full[stage_];
    mbarrier_arrive_expect_tx(full, S::kRows * columns * static_cast<int>(sizeof(T)));
#pragma unroll
    for (int copy = 0; copy < kCopies; ++copy) {
      const long long row = weight_row<S::kOut, S::kEpilogue, S::kRows>(
          static_cast<long long>(row_tile_) * S::kOutputs, copy * kCopyRows);
      bulk_copy_evict_first(shared_.stages[stage_][copy * kCopyRows],
                            weight_ + row * S::kIn + first_column<S>(tile_),
                            kCopyRows * columns * static_cast<int>(sizeof(T)), full);
    }
    if (++tile_ == S::kTiles) {
      tile_ = 0;
      ++row_tile_;
    }
    if (++stage_ == S::kStages) stage_ = 0;
  }

  typename S::Storage& shared_;
  const GemvWork<S> work_;
  const T* const weight_;
  int loaded_ = 0, row_tile_, tile_ = 0, stage_ = 0;
};

/// A consumer warp.
template <class S, class Args>
class GemvConsumer {
 public:
  __device__ __forceinline__ GemvConsumer(typename S::Storage& shared, const Args& args)
      : shared_(shared), args_(args), lane_(threadIdx.x % 32), warp_(threadIdx.x / 32) {}

  /// Weights of the norm, which no kernel writes.
  __device__ __forceinline__ void load_norm() {
    if constexpr (S::kNorm)
      for_fragments([&](int tile, int i, int column) {
        norm_[tile][i] =
            __ldg(reinterpret_cast<const uint4*>(static_cast<const T*>(args_.norm_weight) + column));
      });
  }
  __device__ __forceinline__ void load_x() {
    const int token = Mma::row(lane_);
    for_fragments([&](int tile, int i, int column) {
      x_[tile][i] = {};
      if (S::kTokens == S::kPaddedTokens || token < S::kTokens)
        x_[tile][i] = *reinterpret_cast<const uint4*>(static_cast<const T*>(args_.x) +
                                                      static_cast<long long>(token) * S::kIn + column);
    });
    if constexpr (S::kNorm) {
      float squares = 0;
      for_fragments([&](int tile, int i, int) {
        unsigned(&x)[4] = reinterpret_cast<unsigned(&)[4]>(x_[tile][i]);
        const unsigned(&norm)[4] = reinterpret_cast<const unsigned(&)[4]>(norm_[tile][i]);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          squares = add_squares<T>(squares, x[j]);
          if constexpr (!kScalesBeforeRounding<T>) x[j] = multiply_pairs<T>(x[j], norm[j]);
        }
      });
      squares = warp_reduce<Sum, 4 * S::kSplits>(squares);
      if (lane_ % (4 * S::kSplits) == 0) shared_.squares[token][warp_] = squares;
      if constexpr (kScalesBeforeRounding<T>) scale_x(token);
    }
    if constexpr (S::kRmsScale) squares_.load(args_.squares, warp_, warp_ < S::kTokens);
  }
  __device__ __forceinline__ void run() {
    const GemvWork<S> work;
    int buffer = 0;
    float scale = 1;
    for (int first_tile = work.first; first_tile < work.last; first_tile += S::kWorkRowTiles, buffer ^= 1) {
      const int row_tiles = min(S::kWorkRowTiles, work.last - first_tile);
      const Dot dot(first_tile, row_tiles);
      // Loaded before the main loop: after it, their latency would end every work tile.
      const float residual =
          dot.stores ? load_residual<T, S::kOut, S::kEpilogue>(args_, dot.token, dot.output) : 0;
      T next_norm = {};
      if constexpr (S::kAddRms)
        if (dot.stores) next_norm = static_cast<const T*>(args_.norm_weight)[dot.output];
      for (int row_tile = 0; row_tile < row_tiles; ++row_tile) {
        Sums sums = {};
#pragma unroll
        for (int tile = 0; tile < S::kTiles; ++tile) consume_tile(sums, tile);
        store_diagonal(sums, buffer, row_tile * S::kMmas);
      }
      const bool is_first = first_tile == work.first;
      if constexpr (S::kRmsScale)
        if (is_first) store_squares();
      named_barrier_sync(1, S::kThreads);
      if constexpr ((S::kNorm && !kScalesBeforeRounding<T>) || S::kRmsScale)
        if (is_first) scale = scale_of(dot.token);
      reduce(dot, buffer, scale, residual, next_norm);
    }
  }

 private:
  using T = typename S::T;
  using Mma = typename S::Mma;
  using Keys = BlockKeys<T, S::kOut, S::kEpilogue, S::kTokens>;
  using Sums = float[S::kMmas][4];
  struct Weights {
    uint4 fragments[S::kFragments];
  };

  /// The dot product of a token and a weight row of a work tile, which kLanes lanes reduce. The next one is
  /// of the other half of the mma: with SwiGLU the up row of a gate.
  struct Dot {
    int index, token, output;
    bool is_valid, stores;  // in one lane

    __device__ __forceinline__ Dot(int first_tile, int row_tiles) : index(threadIdx.x / S::kLanes) {
      const int half = index % 2, row = index / 2 % S::kPaddedTokens,
                mma = index / S::kMmaRows % S::kWorkMmas;
      token = index / 16;
      is_valid = mma < row_tiles * S::kMmas;
      output = first_tile * S::kOutputs + (S::kSwiglu ? mma * S::kPaddedTokens + row
                                                      : mma * S::kMmaRows + half * S::kPaddedTokens + row);
      stores = is_valid && token < S::kTokens && threadIdx.x % S::kLanes == 0 && (!S::kSwiglu || half == 0);
    }
  };

  /// Normalizes x, once all warps have the squares of their columns.
  __device__ __forceinline__ void scale_x(int token) {
    named_barrier_sync(1, S::kThreads);
    const float scale = scale_of(token);
    for_fragments([&](int tile, int i, int) {
      unsigned(&x)[4] = reinterpret_cast<unsigned(&)[4]>(x_[tile][i]);
      const unsigned(&norm)[4] = reinterpret_cast<const unsigned(&)[4]>(norm_[tile][i]);
#pragma unroll
      for (int j = 0; j < 4; ++j) x[j] = scale_pairs<T>(x[j], norm[j], scale);
    });
  }
  /// Warp t adds the squares of token t, in the first work tile, since they arrive after x.
  __device__ __forceinline__ void store_squares() {
    const float sum = squares_.sum();
    if (lane_ < S::kWarps) shared_.squares[warp_][lane_] = lane_ == 0 ? sum : 0;
  }

  /// Calls with each fragment of the warp tiles of this warp and the column of x that this lane has there.
  template <class Call>
  __device__ __forceinline__ void for_fragments(Call call) const {
#pragma unroll
    for (int tile = 0; tile < S::kTiles; ++tile)
#pragma unroll
      for (int i = 0; i < S::kWarpTiles; ++i)
#pragma unroll
        for (int f = 0; f < S::kFragments; ++f)
          if (has_warp_tile(tile, i))
            call(tile, i * S::kFragments + f,
                 first_column<S>(tile) + warp_column(i) + f * S::kFragmentK + Mma::column(lane_));
  }
  __device__ __forceinline__ int warp_column(int i) const { return (i * S::kWarps + warp_) * S::kWarpTileK; }
  __device__ __forceinline__ bool has_warp_tile(int tile, int i) const {
    const int columns = tile == S::kTiles - 1 ? S::kLastTileK : S::kTileK;
    return (i + 1) * S::kWarps * S::kWarpTileK <= columns || warp_column(i) < columns;
  }

  /// Loads what this lane has of warp tile i in one half of A of mma m. With two fragments, lanes of odd rows
  /// load them in the other order: eight lanes read two rows at a time, which lie in the same banks.
  __device__ __forceinline__ Weights load_weights(int i, int m, int half) const {
    const int first = S::kSwiglu ? half * (S::kRows / 2) + m * S::kPaddedTokens
                                 : m * S::kMmaRows + half * S::kPaddedTokens,
              row = first + Mma::row(lane_);
    const T* const from = &shared_.stages[state_.index][row][warp_column(i) + Mma::column(lane_)];
    const auto load = [&](int f) { return *reinterpret_cast<const uint4*>(from + f * S::kFragmentK); };
    if constexpr (S::kFragments == 1) {
      return {{load(0)}};
    } else {
      const int odd = lane_ / 4 % 2;
      const uint4 a = load(odd), b = load(1 - odd);
      return {{select(odd, b, a), select(odd, a, b)}};
    }
  }
  static __device__ __forceinline__ uint4 select(bool condition, uint4 a, uint4 b) {
    return {condition ? a.x : b.x, condition ? a.y : b.y, condition ? a.z : b.z, condition ? a.w : b.w};
  }

  __device__ __forceinline__ void consume_tile(Sums& sums, int tile) {
    mbarrier_wait(&shared_.full[state_.index], state_.phase);
#pragma unroll
    for (int i = 0; i < S::kWarpTiles; ++i) {
      if (!has_warp_tile(tile, i)) continue;
#pragma unroll
      for (int m = 0; m < S::kMmas; ++m) {
        const Weights a = load_weights(i, m, 0), b = load_weights(i, m, 1);
#pragma unroll
        for (int f = 0; f < S::kFragments; ++f)
          Mma::template multiply<T>(sums[m], a.fragments[f], b.fragments[f], x_[tile][i * S::kFragments + f]);
      }
    }
    fence_proxy_async();  // the stage is overwritten by a bulk copy
    mbarrier_arrive(&shared_.empty[state_.index]);
    state_.advance();
  }

  /// D: rows lane / 4 and 8 further, columns lane % 4 * 2 + i. Stores the sums of equal splits.
  __device__ __forceinline__ void store_diagonal(const Sums& sums, int buffer, int first_mma) {
    const int split = Mma::split(lane_), row = Mma::row(lane_);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = lane_ % 4 * 2 + i, token = column / S::kSplits;
      if (column % S::kSplits != split) continue;
#pragma unroll
      for (int m = 0; m < S::kMmas; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          partials_of(buffer, token, first_mma + m, row, half)[warp_ * S::kSplits + split] =
              sums[m][2 * half + i];
    }
  }

  /// The partial sums of a dot product, in the order of warps and splits.
  __device__ __forceinline__ float* partials_of(int buffer, int token, int mma, int row, int half) const {
    return shared_.partials[buffer][((token * S::kWorkMmas + mma) * S::kPaddedTokens + row) * 2 + half];
  }
  __device__ __forceinline__ float scale_of(int token) const {
    float squares = 0;
#pragma unroll
    for (int w = 0; w < S::kWarps; ++w) squares += shared_.squares[token][w];
    return rsqrtf(squares / S::kIn + args_.eps);
  }

  __device__ __forceinline__ void reduce(const Dot& dot, int buffer, float scale, float residual,
                                         T next_norm) {
    float sum = 0;
    if (dot.is_valid) {
      const auto v = load_vec<4>(&shared_.partials[buffer][dot.index][threadIdx.x % S::kLanes * 4]);
      sum = (v[0] + v[1]) + (v[2] + v[3]);
    }
    float y = scale * warp_reduce<Sum, S::kLanes>(sum);
    if constexpr (S::kSwiglu) {
      const float up = __shfl_down_sync(0xffffffffu, y, S::kLanes);
      y = silu(y) * up;
    }
    T stored = {};
    if (dot.stores) {
      stored = store_output<T, S::kOut, S::kBias, S::kEpilogue>(args_, dot.token, dot.output, y, residual);
      Keys::add(dot.token, stored, dot.output);
    }
    if constexpr (S::kAddRms) {
      const float f = to_float(stored);
      const long long at = static_cast<long long>(dot.token) * S::kOut + dot.output;
      if (dot.stores) static_cast<T*>(args_.scaled)[at] = from_float<T>(f * to_float(next_norm));
      const float squares = warp_reduce<Sum>(f * f);
      if (dot.stores && dot.index % 16 == 0) args_.squares_out[at / kSquaresGroup] = squares;
    }
  }

  typename S::Storage& shared_;
  const Args& args_;
  const int lane_, warp_;
  uint4 x_[S::kTiles][S::kWarpFragments], norm_[S::kNorm ? S::kTiles : 1][S::kWarpFragments];
  TokenSquares<S::kRmsScale ? S::kIn : kSquaresGroup * 4> squares_;
  PipelineState<S::kStages> state_;
};

template <class T, int kTokens, int kIn, int kOut, int kBias, int kPrologue, int kEpilogue, int kBlocksPerSm,
          int kRows, int kTileK, int kStages, int kPrefetch, int kLatePrefetch>
__global__ void __launch_bounds__(kGemvMmaThreads, kBlocksPerSm)
    linear_gemv_mma(LinearArgsOf<kPrologue, kEpilogue, kPrefetch + kLatePrefetch> args) {
  using S = GemvMma<T, kTokens, kIn, kOut, kBias, kPrologue, kEpilogue, kRows, kTileK, kStages>;
  using Keys = BlockKeys<T, kOut, kEpilogue, kTokens>;
  [[maybe_unused]] static constexpr int kSharedBytes = sizeof(typename S::Storage);
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<typename S::Storage*>(memory);

  if (threadIdx.x == S::kThreads) {
    for (int s = 0; s < kStages; ++s) {
      mbarrier_init(&shared.full[s]);
      mbarrier_init(&shared.empty[s], S::kThreads);
    }
    mbarrier_init_fence();
  }
  Keys::clear();
  __syncthreads();
  if (threadIdx.x >= S::kThreads) {
    GemvProducer<S> producer(shared, args.weight);
    if (threadIdx.x == S::kThreads) producer.fill();
    __syncwarp();
    pdl_launch_dependents();
    if (threadIdx.x == S::kThreads) prefetch_next_weight<kPrefetch>(args);
    pdl_wait();
    if (threadIdx.x == S::kThreads) {
      prefetch_next_weight<kLatePrefetch>(args);
      producer.refill();
    }
    __syncwarp();
  } else {
    GemvConsumer<S, decltype(args)> consumer(shared, args);
    consumer.load_norm();
    pdl_launch_dependents();
    pdl_wait();
    consumer.load_x();
    consumer.run();
  }
  Keys::template write<kGemvMmaThreads>(args);
}

}  // namespace warptune
