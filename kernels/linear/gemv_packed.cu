// GEMV on quantized weights (packed_weights.h) for 1 to 8 tokens: blocks of packed weights go from memory to
// registers, where they become operands of mma.sync; tokens are its N.
// Grid: persistent blocks. A block computes a contiguous range of work tiles of kTiles * 16 weight rows, with
//   SwiGLU half of them gates and their ups; its warps split K.
// Loads: 16 bytes per lane are a block of weights. A warp has kUnroll of them in flight per 16 rows, across
// work
//   tiles, the first before pdl_wait(). x lies in shared memory, normalized or in the order of the columns.
// Arithmetic: integers are exact in T. The sums of a group of columns are multiplied by its scale in fp32.
// Sync: one barrier when x has come, one per work tile, when the warps have stored their sums in one of two
//   buffers in shared memory.
// `in` is a multiple of the columns of a block of weights.
#include "kernels/common/mma.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/linear/argmax.cuh"
#include "kernels/linear/fused.cuh"
#include "kernels/linear/packed_weights.cuh"

namespace warptune {

/// The problem and the configuration.
template <class T_, int kTokens_, int kIn_, int kOut_, int kBias_, int kPrologue_, int kEpilogue_,
          int kWeights_, int kGroup_, int kZeros_, int kActOrder_, int kWarps_, int kTiles_, int kUnroll_>
struct GemvPacked {
  using T = T_;
  static constexpr int kTokens = kTokens_, kIn = kIn_, kOut = kOut_, kBias = kBias_, kEpilogue = kEpilogue_,
                       kWeights = kWeights_, kGroup = kGroup_, kWarps = kWarps_, kTiles = kTiles_,
                       kThreads = 32 * kWarps;
  static constexpr bool kNorm = kPrologue_ == kPrologueRmsNorm, kSwiglu = kEpilogue == kEpilogueSwiglu,
                        kZeros = kZeros_ != 0, kActOrder = kActOrder_ != 0;
  static constexpr int kRows = kSwiglu ? 2 * kOut : kOut;
  static constexpr int kTileOutputs = kSwiglu ? 8 : 16, kOutputs = kTiles * kTileOutputs,  // of a work tile
      kWorkTiles = ceil_div(kOut, kOutputs);
  static constexpr int kColumns = block_columns(kWeights), kBlocks = kIn / kColumns;  // of a row
  static constexpr int kFragments = kColumns / 16;
  /// Scales of a row in a block of weights, and the fragments of one; without groups rows have one at the
  /// end.
  static constexpr int kBlockScales = kGroup == 0         ? 0
                                      : kGroup < kColumns ? kColumns / kGroup
                                                          : 1,
                       kZeroPoints = kZeros ? max_of(kBlockScales, 1) : 0,
                       kScaleFragments = kGroup == 0 ? kFragments : kFragments / kBlockScales;
  /// Blocks of a warp and row. Of kAhead work tiles kInFlight each are in flight; a round loads as many.
  static constexpr int kWarpBlocks = ceil_div(kBlocks, kWarps), kInFlight = min_of(kWarpBlocks, kUnroll_),
                       kRounds = ceil_div(kWarpBlocks, kInFlight), kAhead = max_of(kUnroll_ / kWarpBlocks, 1);
  /// Elements of a token in shared memory: eight tokens are in different banks.
  static constexpr int kPitch = kIn + 8;

  static_assert(kIn % kColumns == 0 && kTokens <= 8 && !(kNorm && kActOrder));
};

/// The part of one block of weights that a lane loads, with the scales and zero points of its row.
template <class S>
struct PackedBlock {
  uint4 bytes;
  WeightScale<S::kWeights, S::kGroup> scales[max_of(S::kBlockScales, 1)];
  signed char zeros[max_of(S::kZeroPoints, 1)];

  /// `slot`: eight rows; `block`: of their columns.
  __device__ __forceinline__ void load(const QuantizedLinearArgs& args, int slot, int block) {
    const int lane = threadIdx.x % 32;
    const auto* const from = static_cast<const unsigned char*>(args.weight) +
                             (static_cast<long long>(slot) * S::kBlocks + block) * kBlockBytes + lane * 16;
    const auto vec = load_vec_nc<16>(from);
    bytes = *reinterpret_cast<const uint4*>(&vec);
    const int row = min_of(slot * kBlockRows + lane / 4, S::kRows - 1), k = block * S::kColumns;
#pragma unroll
    for (int i = 0; i < S::kBlockScales; ++i)
      scales[i] =
          weight_scale<S::kIn, S::kWeights, S::kGroup>(args.scales, row, k + i * 16 * S::kScaleFragments);
#pragma unroll
    for (int i = 0; i < S::kZeroPoints; ++i)
      zeros[i] =
          args.zeros[scale_index(S::kWeights, S::kGroup, S::kIn, row, k + i * 16 * S::kScaleFragments)];
  }
  __device__ __forceinline__ unsigned word(int i) const {
    return i == 0 ? bytes.x : i == 1 ? bytes.y : i == 2 ? bytes.z : bytes.w;
  }
  __device__ __forceinline__ int zero(int i) const {
    if constexpr (S::kZeros) return 8 + zeros[i];
    return 8;
  }
};

/// The dot products of a warp: those of its columns, of one work tile after the other.
template <class S>
class PackedDot {
 public:
  float sums[S::kTiles][4];

  /// Work tiles [first, last).
  __device__ __forceinline__ PackedDot(const QuantizedLinearArgs& args, int first, int last)
      : args_(args),
        first_(first),
        last_(last),
        begin_(S::kBlocks * warp() / S::kWarps),
        end_(S::kBlocks * (warp() + 1) / S::kWarps) {}

  __device__ __forceinline__ void load_prologue() {
#pragma unroll
    for (int ahead = 0; ahead < S::kAhead; ++ahead)
#pragma unroll
      for (int i = 0; i < S::kInFlight; ++i) load(ahead, i, first_ + ahead, begin_ + i);
  }
  /// `x`: the shared address of x. Calls begin(tile), and end(tile) when `sums` are those of the tile.
  template <class Begin, class End>
  __device__ __forceinline__ void main_loop(unsigned x, const Begin& begin, const End& end) {
    const int lane = threadIdx.x % 32;
    // Rows of ldmatrix: tokens, of which those beyond the last are the last once more, of four times 8
    // columns.
    x += 2 * (min_of(lane % 8, S::kTokens - 1) * S::kPitch + lane / 8 * 8);
    for (int first = first_; first < last_; first += S::kAhead) {
#pragma unroll
      for (int ahead = 0; ahead < S::kAhead; ++ahead) {
        const int tile = first + ahead;
        if (tile >= last_) break;
        begin(tile);
#pragma unroll
        for (int t = 0; t < S::kTiles; ++t)
#pragma unroll
          for (int i = 0; i < 4; ++i) sums[t][i] = 0;
#pragma unroll 1
        for (int round = 0; round < S::kRounds; ++round) {
#pragma unroll
          for (int i = 0; i < S::kInFlight; ++i) {
            const int block = begin_ + round * S::kInFlight + i;
            if (block < end_) multiply(weights_[ahead][i], x + 2 * block * S::kColumns);
            if (round + 1 < S::kRounds)
              load(ahead, i, tile, block + S::kInFlight);
            else
              load(ahead, i, tile + S::kAhead, begin_ + i);
          }
        }
        end(tile);
      }
    }
  }

 private:
  using T = typename S::T;
  using Word = WeightWord<T, S::kWeights>;
  using Weights = PackedBlock<S>[S::kTiles][2];

  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x / 32); }
  /// The eight rows of half `half` of 16; those beyond the last are the last once more.
  static __device__ __forceinline__ int slot(int tile, int half) {
    constexpr int kSlots = ceil_div(S::kRows, kBlockRows);
    if constexpr (S::kSwiglu) return min_of(tile, kSlots / 2 - 1) + half * (kSlots / 2);
    return min_of(2 * tile + half, kSlots - 1);
  }
  __device__ __forceinline__ void load(int ahead, int i, int work_tile, int block) {
    if (work_tile < last_ && block < end_) {
#pragma unroll
      for (int t = 0; t < S::kTiles; ++t)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          weights_[ahead][i][t][half].load(args_, slot(work_tile * S::kTiles + t, half), block);
    }
  }
  __device__ __forceinline__ void multiply(const Weights& weights, unsigned x) {
    float partial[S::kTiles][4] = {};
#pragma unroll
    for (int pair = 0; pair < S::kFragments / 2; ++pair) {
      unsigned b[4];
      ldmatrix_x4(b, x + pair * 64);
#pragma unroll
      for (int t = 0; t < S::kTiles; ++t) {
        unsigned a[2][2][2];  // half of the rows, fragment, half of the columns
#pragma unroll
        for (int half = 0; half < 2; ++half) convert(a[half], weights[t][half], pair);
#pragma unroll
        for (int f = 0; f < 2; ++f)
          mma_m16n8k16<T>(S::kGroup == 0 ? sums[t] : partial[t],
                          {a[0][f][0], a[1][f][0], a[0][f][1], a[1][f][1]}, b[2 * f], b[2 * f + 1]);
        if (const int done = 2 * pair + 2; S::kGroup != 0 && done % S::kScaleFragments == 0) {
          const int group = done / S::kScaleFragments - 1;
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            sums[t][i] = fmaf(to_float(weights[t][i / 2].scales[group]), partial[t][i], sums[t][i]);
            partial[t][i] = 0;
          }
        }
      }
    }
  }
  /// Two fragments of a block.
  static __device__ __forceinline__ void convert(unsigned (&a)[2][2], const PackedBlock<S>& block, int pair) {
    if constexpr (Word::kFragments == 2) {
      const int group = S::kGroup == 0 ? 0 : 2 * pair / S::kScaleFragments;
      Word::convert(reinterpret_cast<unsigned(&)[4]>(a), block.word(pair), Word::bias(block.zero(group)));
    } else {
#pragma unroll
      for (int f = 0; f < 2; ++f) Word::convert(a[f], block.word(2 * pair + f), 0);
    }
  }

  const QuantizedLinearArgs& args_;
  const int first_, last_, begin_, end_;  // work tiles; blocks of a row
  Weights weights_[S::kAhead][S::kInFlight];
};

/// x to shared memory, in the order of the columns.
template <class S>
__device__ __forceinline__ void load_x(typename S::T* shared, const QuantizedLinearArgs& args) {
  using T = typename S::T;
  const T* const x = static_cast<const T*>(args.x);
  if constexpr (S::kActOrder) {
    for (int i = threadIdx.x; i < S::kIn; i += S::kThreads) {
      const int k = args.order[i];
#pragma unroll
      for (int t = 0; t < S::kTokens; ++t) shared[t * S::kPitch + i] = x[t * S::kIn + k];
    }
  } else {
    for (int i = 8 * threadIdx.x; i < S::kIn; i += 8 * S::kThreads)
#pragma unroll
      for (int t = 0; t < S::kTokens; ++t)
        store_vec<8>(shared + t * S::kPitch + i, load_vec<8>(x + t * S::kIn + i));
  }
}

/// Output i of a work tile: outputs are inner, tokens outer. What it needs is loaded before the main loop of
/// the tile, so that its latency does not end the tile.
template <class S>
struct PackedOutput {
  using T = typename S::T;
  int token, in_tile, output;
  bool is_valid;
  float residual = 0, scale = 1, up_scale = 1;

  __device__ __forceinline__ PackedOutput() : is_valid(false) {}
  __device__ __forceinline__ PackedOutput(const QuantizedLinearArgs& args, int work_tile, int i)
      : token(i / S::kOutputs),
        in_tile(i % S::kOutputs),
        output(work_tile * S::kOutputs + in_tile),
        is_valid(token < S::kTokens && output < S::kOut) {
    if (!is_valid) return;
    residual = load_residual<T, S::kOut, S::kEpilogue>(args, token, output);
    if constexpr (S::kGroup == 0) {
      scale = weight_scale<S::kIn, S::kWeights, 0>(args.scales, output, 0);
      if constexpr (S::kSwiglu)
        up_scale = weight_scale<S::kIn, S::kWeights, 0>(args.scales, output + S::kOut, 0);
    }
  }
};

template <class T, int kTokens, int kIn, int kOut, int kBias, int kPrologue, int kEpilogue, int kWeights,
          int kGroup, int kZeros, int kActOrder, int kBlocksPerSm, int kWarps, int kTiles, int kUnroll>
__global__ void __launch_bounds__(kWarps * 32, kBlocksPerSm) linear_gemv_packed(QuantizedLinearArgs args) {
  using S = GemvPacked<T, kTokens, kIn, kOut, kBias, kPrologue, kEpilogue, kWeights, kGroup, kZeros,
                       kActOrder, kWarps, kTiles, kUnroll>;
  using Keys = BlockKeys<T, kOut, kEpilogue, kTokens>;
  [[maybe_unused]] static constexpr int kSharedBytes = kTokens * S::kPitch * sizeof(T);
  extern __shared__ uint4 memory[];
  T* const x = reinterpret_cast<T*>(memory);
  const int first = static_cast<int>(static_cast<long long>(S::kWorkTiles) * blockIdx.x / gridDim.x),
            last = static_cast<int>(static_cast<long long>(S::kWorkTiles) * (blockIdx.x + 1) / gridDim.x);
  PackedDot<S> dot(args, first, last);
  dot.load_prologue();
  BlockNorm<T, kTokens, kIn, S::kThreads, S::kPitch> norm;
  if constexpr (S::kNorm) norm.load_weights(args.norm_weight);
  Keys::clear();
  pdl_launch_dependents();
  pdl_wait();
  if constexpr (S::kNorm) {
    norm.load_x(x, args.x, args.eps);
  } else {
    load_x<S>(x, args);
    __syncthreads();
  }

  __shared__ float token_scales[kTokens];
#pragma unroll
  for (int t = 0; t < kTokens; ++t)
    if (S::kNorm && threadIdx.x == t) token_scales[t] = norm.scales[t];
  constexpr int kResults = S::kOutputs * kTokens, kStores = ceil_div(kResults, S::kThreads);
  __shared__ float partials[2][kWarps][kTiles][kTokens][16];
  PackedOutput<S> outputs[kStores];
  const auto begin = [&](int tile) {
    // Other warps store the outputs of the next tile.
    const int thread = (static_cast<int>(threadIdx.x) + tile * ceil_div(kResults, 32) * 32) % S::kThreads;
#pragma unroll
    for (int j = 0; j < kStores; ++j) outputs[j] = PackedOutput<S>(args, tile, thread + j * S::kThreads);
  };
  const auto end = [&](int tile) {
    auto& partial = partials[tile % 2];
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 4; ++i)  // d0, d1: row lane / 4, two tokens; d2, d3: eight rows further
      if (const int token = lane % 4 * 2 + i % 2; token < kTokens)
#pragma unroll
        for (int t = 0; t < kTiles; ++t)
          partial[threadIdx.x / 32][t][token][lane / 4 + i / 2 * 8] = dot.sums[t][i];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kStores; ++j) {
      const PackedOutput<S>& o = outputs[j];
      if (!o.is_valid) continue;
      const auto sum = [&](int row) {
        float y = 0;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) y += partial[w][o.in_tile / S::kTileOutputs][o.token][row];
        return y;
      };
      const float scale = S::kNorm ? token_scales[o.token] : 1;
      float y = scale * o.scale * sum(o.in_tile % S::kTileOutputs);
      if constexpr (S::kSwiglu) y = silu(y) * (scale * o.up_scale) * sum(o.in_tile % 8 + 8);
      Keys::add(o.token, store_output<T, kOut, kBias, kEpilogue>(args, o.token, o.output, y, o.residual),
                o.output);
    }
  };
  dot.main_loop(shared_address(x), begin, end);
  Keys::template write<S::kThreads>(args);
}

}  // namespace warptune
