// GEMV on quantized weights (packed_weights.h) for 1 to 8 tokens: blocks of packed weights go from memory to
// registers, where they become operands of mma.sync; tokens are its N.
// Grid: a block computes kTiles tiles of 16 weight rows, with SwiGLU of 8 gates and their 8 ups; its warps
// split
//   K.
// Loads: 16 bytes per lane are a block of weights; kUnroll blocks per tile and warp are in flight, with their
//   scales and zero points, the first before pdl_wait(). x lies in shared memory, normalized or in the order
//   of the columns.
// Arithmetic: a tensor core multiplies integers of 4 bits with an offset, which costs no instruction; the
// offset
//   times the sum of a group of x is subtracted from the sums of the group, in fp32, before its scale.
// Sync: barriers when x has come and is summed, one when the warps have stored their sums in shared memory.
// Many warps matter more than many loads in flight: a persistent kernel with loads across tiles reaches 66 %
// of
//   the memory floor where this one reaches 75 % (12288 x 4096 on an H100).
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
                       kUnroll = kUnroll_, kThreads = 32 * kWarps;
  static constexpr bool kNorm = kPrologue_ == kPrologueRmsNorm, kSwiglu = kEpilogue == kEpilogueSwiglu,
                        kZeros = kZeros_ != 0, kActOrder = kActOrder_ != 0;
  static constexpr int kRows = kSwiglu ? 2 * kOut : kOut;
  static constexpr int kTileOutputs = kSwiglu ? 8 : 16, kOutputs = kTiles * kTileOutputs;  // of a block
  static constexpr int kColumns = block_columns(kWeights), kBlocks = kIn / kColumns;       // of a row
  static constexpr int kFragments = kColumns / 16;
  /// Integers of 4 bits have an offset. Partial sums are those of kSpan columns: of a group within a block.
  static constexpr bool kOffset = kWeights == kWeightsInt4, kPartial = kOffset || kGroup != 0;
  static constexpr int kSpan = kGroup == 0 ? kColumns : min_of(kGroup, kColumns), kSpans = kColumns / kSpan,
                       kSpanFragments = kSpan / 16;
  static constexpr int kBlockScales = kGroup == 0 ? 0 : kSpans;  // of a row; without groups one at the end
  /// Sums of x: [kIn / kSpan][kSumTokens].
  static constexpr int kSumTokens = kTokens <= 2   ? 2
                                    : kTokens <= 4 ? 4
                                                   : 8,
                       kSums = kOffset ? kIn / kSpan * kSumTokens : 0;
  /// Elements of a token in shared memory: eight tokens are in different banks.
  static constexpr int kPitch = kIn + 8;
  static constexpr int kXBytes = kTokens * kPitch * static_cast<int>(sizeof(T)),
                       kSharedBytes = kXBytes + kSums * 4;

  static_assert(kIn % kColumns == 0 && kTokens <= 8 && !(kNorm && kActOrder));
};

/// The part of one block of weights that a lane loads, with the scales and zero points of its row.
template <class S>
struct PackedBlock {
  uint4 bytes;
  WeightScale<S::kWeights, S::kGroup> scales[max_of(S::kBlockScales, 1)];
  signed char zeros[S::kSpans];

  /// `slot`: eight rows; `block`: of their columns.
  __device__ __forceinline__ void load(const QuantizedLinearArgs& args, int slot, int block) {
    const int lane = threadIdx.x % 32;
    const auto* const from = static_cast<const unsigned char*>(args.weight) +
                             (static_cast<long long>(slot) * S::kBlocks + block) * kBlockBytes + lane * 16;
    const auto vec = load_vec_nc<16>(from);
    bytes = *reinterpret_cast<const uint4*>(&vec);
    const int row = min_of(slot * kBlockRows + lane / 4, S::kRows - 1);
#pragma unroll
    for (int i = 0; i < S::kSpans; ++i) {
      const int k = block * S::kColumns + i * S::kSpan;
      if constexpr (S::kGroup != 0)
        scales[i] = weight_scale<S::kIn, S::kWeights, S::kGroup>(args.scales, row, k);
      if constexpr (S::kZeros) zeros[i] = args.zeros[scale_index(S::kWeights, S::kGroup, S::kIn, row, k)];
    }
  }
  __device__ __forceinline__ unsigned word(int i) const {
    return i == 0 ? bytes.x : i == 1 ? bytes.y : i == 2 ? bytes.z : bytes.w;
  }
  __device__ __forceinline__ float scale(int span) const {
    if constexpr (S::kGroup != 0) return to_float(scales[span]);
    return 1;
  }
  /// What the integers are larger by.
  __device__ __forceinline__ float offset(int span) const {
    constexpr float kOffset = 8 + WeightWord<typename S::T, S::kWeights>::kOffset;
    if constexpr (S::kZeros) return kOffset + zeros[span];
    return kOffset;
  }
};

/// The sums of a warp: kTiles tiles of 16 rows by 8 tokens over its blocks of columns.
template <class S>
class PackedDot {
 public:
  float sums[S::kTiles][4] = {};

  __device__ __forceinline__ PackedDot(const QuantizedLinearArgs& args, int first_slot)
      : args_(args),
        first_slot_(first_slot),
        begin_(S::kBlocks * warp() / S::kWarps),
        end_(S::kBlocks * (warp() + 1) / S::kWarps) {}

  __device__ __forceinline__ void load_prologue() {
#pragma unroll
    for (int u = 0; u < S::kUnroll; ++u) load(u, begin_ + u);
  }
  /// `x`: the shared address of x; `x_sums`: of its spans.
  __device__ __forceinline__ void main_loop(unsigned x, const float* x_sums) {
    const int lane = threadIdx.x % 32;
    // Rows of ldmatrix: tokens, of which those beyond the last are the last once more, of four times 8
    // columns.
    x += 2 * (min_of(lane % 8, S::kTokens - 1) * S::kPitch + lane / 8 * 8);
    x_sums += min_of(lane % 4, S::kSumTokens / 2 - 1) * 2;  // of the two tokens of the lane
    for (int block = begin_; block < end_; block += S::kUnroll) {
#pragma unroll
      for (int u = 0; u < S::kUnroll; ++u) {
        if (block + u < end_) {
          multiply(weights_[u], x + 2 * (block + u) * S::kColumns,
                   x_sums + (block + u) * S::kSpans * S::kSumTokens);
          load(u, block + u + S::kUnroll);
        }
      }
    }
  }

 private:
  using T = typename S::T;
  using Word = WeightWord<T, S::kWeights>;

  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x / 32); }
  /// The eight rows of half `half` of a tile; those beyond the last are the last once more.
  __device__ __forceinline__ int slot(int tile, int half) const {
    constexpr int kSlots = ceil_div(S::kRows, kBlockRows);
    if constexpr (S::kSwiglu) return min_of(first_slot_ + tile, kSlots / 2 - 1) + half * (kSlots / 2);
    return min_of(first_slot_ + 2 * tile + half, kSlots - 1);
  }
  __device__ __forceinline__ void load(int u, int block) {
    if (block < end_) {
#pragma unroll
      for (int tile = 0; tile < S::kTiles; ++tile)
#pragma unroll
        for (int half = 0; half < 2; ++half) weights_[u][tile][half].load(args_, slot(tile, half), block);
    }
  }
  __device__ __forceinline__ void multiply(const PackedBlock<S> (&weights)[S::kTiles][2], unsigned x,
                                           const float* x_sums) {
    float partial[S::kTiles][4] = {};
#pragma unroll
    for (int pair = 0; pair < S::kFragments / 2; ++pair) {
      unsigned b[4];
      ldmatrix_x4(b, x + pair * 64);
#pragma unroll
      for (int tile = 0; tile < S::kTiles; ++tile) {
        unsigned a[2][2][2];  // half of the rows, fragment, half of the columns
#pragma unroll
        for (int half = 0; half < 2; ++half) convert(a[half], weights[tile][half], pair);
#pragma unroll
        for (int f = 0; f < 2; ++f)
          mma_m16n8k16<T>(S::kPartial ? partial[tile] : sums[tile],
                          {a[0][f][0], a[1][f][0], a[0][f][1], a[1][f][1]}, b[2 * f], b[2 * f + 1]);
        if (const int done = 2 * pair + 2; S::kPartial && done % S::kSpanFragments == 0)
          add_span(sums[tile], partial[tile], weights[tile], x_sums, done / S::kSpanFragments - 1);
      }
    }
  }
  /// sums += scale * (partial - offset * sum of x), and clears `partial`.
  static __device__ __forceinline__ void add_span(float (&sums)[4], float (&partial)[4],
                                                  const PackedBlock<S> (&weights)[2], const float* x_sums,
                                                  int span) {
    Vec<float, 2> x = {};
    if constexpr (S::kOffset) x = load_vec<2>(x_sums + span * S::kSumTokens);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const PackedBlock<S>& rows = weights[i / 2];
      if constexpr (S::kOffset) partial[i] = fmaf(-rows.offset(span), x[i % 2], partial[i]);
      sums[i] = fmaf(rows.scale(span), partial[i], sums[i]);
      partial[i] = 0;
    }
  }
  /// Two fragments of a block.
  static __device__ __forceinline__ void convert(unsigned (&a)[2][2], const PackedBlock<S>& block, int pair) {
    if constexpr (Word::kFragments == 2) {
      Word::convert_with_offset(reinterpret_cast<unsigned(&)[4]>(a), block.word(pair));
    } else {
#pragma unroll
      for (int f = 0; f < 2; ++f) Word::convert(a[f], block.word(2 * pair + f), 0);
    }
  }

  const QuantizedLinearArgs& args_;
  const int first_slot_, begin_, end_;
  PackedBlock<S> weights_[S::kUnroll][S::kTiles][2];
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

/// Sums of spans of x.
template <class S>
__device__ __forceinline__ void sum_spans(float* sums, const typename S::T* x) {
  constexpr int kLanes = S::kSpan / 8, kVectors = S::kIn / 8;
#pragma unroll
  for (int t = 0; t < S::kTokens; ++t)
    for (int i = threadIdx.x; i < ceil_div(kVectors, 32) * 32; i += S::kThreads) {
      float sum = 0;
      if (i < kVectors) {
        const auto v = to_float(load_vec<8>(x + t * S::kPitch + i * 8));
#pragma unroll
        for (int e = 0; e < 8; ++e) sum += v[e];
      }
      sum = warp_reduce<Sum, kLanes>(sum);
      if (i < kVectors && i % kLanes == 0) sums[i / kLanes * S::kSumTokens + t] = sum;
    }
}

template <class T, int kTokens, int kIn, int kOut, int kBias, int kPrologue, int kEpilogue, int kWeights,
          int kGroup, int kZeros, int kActOrder, int kWarps, int kTiles, int kUnroll>
__global__ void __launch_bounds__(kWarps * 32) linear_gemv_packed(QuantizedLinearArgs args) {
  using S = GemvPacked<T, kTokens, kIn, kOut, kBias, kPrologue, kEpilogue, kWeights, kGroup, kZeros,
                       kActOrder, kWarps, kTiles, kUnroll>;
  using Keys = BlockKeys<T, kOut, kEpilogue, kTokens>;
  [[maybe_unused]] static constexpr int kSharedBytes = S::kSharedBytes;
  extern __shared__ uint4 memory[];
  T* const x = reinterpret_cast<T*>(memory);
  float* const x_sums = reinterpret_cast<float*>(memory + S::kXBytes / 16);
  const int first_output = static_cast<int>(blockIdx.x) * S::kOutputs;
  PackedDot<S> dot(args, first_output / 8);
  dot.load_prologue();
  BlockNorm<T, kTokens, kIn, S::kThreads, S::kPitch> norm;
  if constexpr (S::kNorm) norm.load_weights(args.norm_weight);
  Keys::clear();
  pdl_launch_dependents();
  pdl_wait();

  // Output i of the block: outputs are inner, tokens outer.
  constexpr int kResults = S::kOutputs * kTokens, kStores = ceil_div(kResults, S::kThreads);
  float residual[kStores];
#pragma unroll
  for (int j = 0; j < kStores; ++j) {
    const int i = threadIdx.x + j * S::kThreads, o = first_output + i % S::kOutputs;
    residual[j] = i < kResults && o < kOut ? load_residual<T, kOut, kEpilogue>(args, i / S::kOutputs, o) : 0;
  }
  if constexpr (S::kNorm) {
    norm.load_x(x, args.x, args.eps);
  } else {
    load_x<S>(x, args);
    __syncthreads();
  }
  if constexpr (S::kOffset) {
    sum_spans<S>(x_sums, x);
    __syncthreads();
  }
  dot.main_loop(shared_address(x), x_sums);

  __shared__ float partial[kWarps][kTiles][kTokens][16];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int i = 0; i < 4; ++i)  // d0, d1: row lane / 4, two tokens; d2, d3: eight rows further
    if (const int token = lane % 4 * 2 + i % 2; token < kTokens)
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile)
        partial[warp][tile][token][lane / 4 + i / 2 * 8] = dot.sums[tile][i];
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kStores; ++j) {
    const int i = threadIdx.x + j * S::kThreads, local = i % S::kOutputs, token = i / S::kOutputs,
              o = first_output + local;
    if (i >= kResults || o >= kOut) break;
    const auto sum = [&](int row) {
      float y = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) y += partial[w][local / S::kTileOutputs][token][row];
      return y;
    };
    float scale = 1;
#pragma unroll
    for (int t = 0; t < kTokens; ++t)
      if (S::kNorm && t == token) scale = norm.scales[t];
    const auto row_scale = [&](int row) {
      return kGroup == 0 ? scale * weight_scale<kIn, kWeights, 0>(args.scales, row, 0) : scale;
    };
    float y = row_scale(o) * sum(local % S::kTileOutputs);
    if constexpr (S::kSwiglu) y = silu(y) * row_scale(o + kOut) * sum(local % 8 + 8);
    Keys::add(token, store_output<T, kOut, kBias, kEpilogue>(args, token, o, y, residual[j]), o);
  }
  Keys::template write<S::kThreads>(args);
}

}  // namespace warptune
