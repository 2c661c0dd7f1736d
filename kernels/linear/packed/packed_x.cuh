#pragma once
// x in shared memory for the GEMVs on quantized weights (packed_dot.cuh): each warp loads the columns that it
// multiplies, so no warp waits for another, and adds them to the sums that zero points and minima multiply.
#include "kernels/common/mma.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/linear/fused.cuh"
#include "kernels/linear/packed_weights.cuh"

namespace warptune {

/// A warp's columns of x, times kXScale of WeightWord, and their sums over the warp's blocks of weights or
/// the groups, in the unit of the products. Where all weights have one zero point, minus the zero point
/// multiplies the sums. RMSNorm: bf16 stores x * weight, and scale() multiplies the outputs; for fp16 see
/// kScalesBeforeRounding. With the prologue rms_scale the GEMM before has multiplied x.
template <class S>
class WarpActivations {
  using T = typename S::T;
  static constexpr int kWarpBlocks = ceil_div(S::kBlocks, S::kWarps), kBlockVecs = S::kColumns / 8,
                       kVecs = ceil_div(kWarpBlocks * kBlockVecs, 32);  // per lane and token
  /// Whether each lane has all of its kVecs vectors.
  static constexpr bool kHasAllVectors = S::kBlocks % S::kWarps == 0 && kWarpBlocks * kBlockVecs % 32 == 0;

 public:
  /// Whether the first work tile begins when the first chunk of x, a vector per lane and token, is there. Not
  /// where the loads of the next chunk would spill or come after those of weights.
  static constexpr bool kChunked = S::kTokens > 4 && S::kTokens <= 8 && S::kWarps <= 8 && kVecs > 1 &&
                                   kHasPdl && !S::kActOrder && S::kBlockScales <= 1 &&
                                   !(S::kNorm && kScalesBeforeRounding<T>);
  static constexpr int kChunks = kChunked ? kVecs : 1, kChunkBlocks = 32 / kBlockVecs;
  using Groups = Vec<float, S::kXGroups>;
  /// The shared memory of all warps.
  struct alignas(16) Shared {
    T x[S::kTokens][S::kPitch];
    Groups sums[max_of(S::kXBlocks, 1)][S::kTokens];
    float squares[S::kScalesTokens ? S::kTokens : 1][S::kWarps];
  };

  /// Shared addresses for ldmatrix, one per tile of tokens. This lane's row is 8 columns of a token, or of
  /// the last token where there are fewer; with two units the four matrices have the order 0, 2, 1, 3.
  unsigned addresses[S::kTokenTiles];
  /// With kDirect: what PackedAccumulator adds to its sums, of tokens as in PackedSums.
  float direct_sums[S::kTokenTiles][4] = {};

  /// The warp has blocks `first`, `first` + `step`, ... below `last`. Loads their weights of the norm, which
  /// no kernel writes.
  __device__ __forceinline__ WarpActivations(Shared& shared, const QuantizedLinearArgs& args, int first,
                                             int last, int step)
      : shared_(shared), args_(args), first_(first), last_(last), step_(step) {
    const int matrix = lane_ / 8, column = 8 * (S::Word::kUnits == 2 ? matrix % 2 * 2 + matrix / 2 : matrix);
#pragma unroll
    for (int n = 0; n < S::kTokenTiles; ++n)
      addresses[n] = shared_address(&shared.x[min_of(8 * n + lane_ % 8, S::kTokens - 1)][column]);
    if constexpr (S::kNorm)  // with a condition per column the compiler waits for the loads before pdl_wait()
#pragma unroll
      for (int j = 0; j < kVecs; ++j)
        norm_[j] = load_vec<8>(static_cast<const T*>(args.norm_weight) + min_of(vector(j), S::kPartIn - 8));
  }
  /// After pdl_wait(). `begin`: the column of x that is the first of this thread block. `then()` issues what
  /// memory serves after the first of these loads. With kChunked it loads the first chunk.
  template <class Then>
  __device__ __forceinline__ void load(int begin, const Then& then) {
    begin_ = begin;
    Squares token_squares;
    if constexpr (S::kRmsScale) load_squares(token_squares);
    if constexpr (kChunked) {
      request(0);
      then();
    } else if constexpr (S::kNorm && kScalesBeforeRounding<T>) {
      load_vectors<true, false>(then);
      store_norm_squares();
      named_barrier_sync(1, S::kThreads);
      load_vectors<false, true>([] {});
    } else {
      load_vectors<S::kNorm, true>(then);
      if constexpr (S::kNorm) store_norm_squares();
    }
    if constexpr (S::kRmsScale) store_squares(token_squares);
    if constexpr (!kChunked) finish_blocks(0, kWarpBlocks);
  }
  /// Makes chunk i, the warp's blocks i * kChunkBlocks and the next, ready and loads the next chunk. For all
  /// chunks in order.
  __device__ __forceinline__ void finish_chunk(int i) {
    use<S::kNorm, true>(i * kBatch);
    if (i + 1 < kChunks) request((i + 1) * kBatch);
    if constexpr (S::kNorm)
      if (i + 1 == kChunks) store_norm_squares();
    finish_blocks(i * kChunkBlocks, min_of((i + 1) * kChunkBlocks, kWarpBlocks));
  }
  /// The sums of x for sum `i` of this lane (PackedSums).
  __device__ __forceinline__ Groups sums(int block, int n, int i) const {
    return shared_.sums[block][min_of(token(n, i), S::kTokens - 1)];
  }
  /// The factor of the outputs of a token. Call it after a barrier of the warps.
  __device__ __forceinline__ float scale(int token) const {
    if constexpr (S::kRmsScale || (S::kNorm && !kScalesBeforeRounding<T>))
      return S::Word::kSumScale * rms_scale(token);
    return S::Word::kSumScale;
  }

 private:
  /// Vectors of a lane whose loads are in flight, of four registers each.
  static constexpr int kMostVectors = S::kActOrder ? 4 : S::kWarps > 8 ? 8 : 16;
  static constexpr int kBatch = kChunked ? S::kTokens : min_of(kVecs * S::kTokens, kMostVectors);
  /// Shuffles add x while it is loaded: least latency. From 5 tokens on products with ones are faster; one
  /// adds eight tokens.
  static constexpr bool kSumsByMma = S::Word::kIntegers && S::kTokens > 4,
                        kSumsByShuffles = S::Word::kIntegers && !kSumsByMma;
  static constexpr bool kTimesZero = S::Word::kZero != 0 && !S::kZeros;

  static __device__ __forceinline__ int token(int n, int i) {
    return 8 * n + static_cast<int>(threadIdx.x % 4) * 2 + i % 2;
  }
  /// The first column of vector j of this lane, or one beyond the last.
  __device__ __forceinline__ int vector(int j) const {
    const int i = lane_ + 32 * j, block = first_ + i / kBlockVecs * step_;
    return block < last_ ? block * S::kColumns + i % kBlockVecs * 8 : S::kPartIn;
  }
  __device__ __forceinline__ float rms_scale(int token) const {
    float squares = 0;
#pragma unroll
    for (int w = 0; w < (S::kRmsScale ? 1 : S::kWarps); ++w) squares += shared_.squares[token][w];
    return rsqrtf(squares / S::kIn + args_.eps);
  }
  // With rms_scale warp w adds the sums of squares of token w, of w + kWarps and so on.
  static constexpr int kWarpTokens = ceil_div(S::kTokens, S::kWarps);
  using Squares = TokenSquares<S::kIn>[S::kRmsScale ? kWarpTokens : 1];
  static __device__ __forceinline__ int squares_token(int i) {
    return static_cast<int>(threadIdx.x / 32) + i * S::kWarps;
  }
  __device__ __forceinline__ void load_squares(Squares& squares) const {
#pragma unroll
    for (int i = 0; i < kWarpTokens; ++i)
      squares[i].load(args_.squares, squares_token(i), squares_token(i) < S::kTokens);
  }
  __device__ __forceinline__ void store_squares(const Squares& squares) {
#pragma unroll
    for (int i = 0; i < kWarpTokens; ++i) {
      const float sum = squares[i].sum();
      if (lane_ == 0 && squares_token(i) < S::kTokens) shared_.squares[squares_token(i)][0] = sum;
    }
  }
  __device__ __forceinline__ Vec<T, 8> load_vector(int token, int column) const {
    const T* const row = static_cast<const T*>(args_.x) + token * S::kIn;
    if constexpr (!S::kActOrder) return load_vec<8>(row + column);
    Vec<T, 8> v;
    const auto order = load_vec<8>(args_.order + column);
#pragma unroll
    for (int e = 0; e < 8; ++e) v[e] = row[order[e]];
    return v;
  }
  /// Vector j of a token times kXScale, with RMSNorm the norm's weights, and for fp16 its scale; rounded
  /// once.
  __device__ __forceinline__ Vec<T, 8> scaled(const Vec<T, 8>& x, int j, int token) const {
    if constexpr (S::kNorm && kScalesBeforeRounding<T>) {
      auto v = to_float(x);
      const float factor = rms_scale(token);
#pragma unroll
      for (int e = 0; e < 8; ++e) v[e] *= to_float(norm_[j][e]) * factor;
      return from_float<T>(v);
    }
    Vec<T, 8> y = x;
    auto* const pairs = reinterpret_cast<unsigned*>(&y);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      unsigned factor = pack2<T>(S::Word::kXScale, S::Word::kXScale);
      if constexpr (S::kNorm)
        factor = multiply_pairs<T>(reinterpret_cast<const unsigned*>(&norm_[j])[e], factor);
      if constexpr (S::kNorm || S::Word::kXScale != 1) pairs[e] = multiply_pairs<T>(pairs[e], factor);
    }
    return y;
  }
  /// Requests kBatch vectors of this lane from `first` on; those of a vector's tokens are adjacent. There is
  /// no condition, so that all are requested before one is used.
  __device__ __forceinline__ void request(int first) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i)
      if (first + i < kVecs * S::kTokens)
        vectors_[i] = load_vector((first + i) % S::kTokens,
                                  begin_ + min_of(vector((first + i) / S::kTokens), S::kPartIn - 8));
  }
  /// kSquares: adds their squares. kStores: stores them, with RMSNorm scaled, and their sums.
  template <bool kSquares, bool kStores>
  __device__ __forceinline__ void use(int first) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int j = (first + i) / S::kTokens, t = (first + i) % S::kTokens;
      if (first + i >= kVecs * S::kTokens) break;
      const int column = vector(j);
      const bool is_valid = kHasAllVectors || column < S::kPartIn;
      const float mask = is_valid ? 1.0f : 0.0f;
      if constexpr (kSquares) {
        const auto v = to_float(vectors_[i]);
#pragma unroll
        for (int e = 0; e < 8; ++e) squares_[t] = fmaf(mask * v[e], v[e], squares_[t]);
      }
      if constexpr (!kStores) continue;
      const auto y = scaled(vectors_[i], j, t);
      if (is_valid) store_vec<8>(&shared_.x[t][column], y);
      if constexpr (kSumsByShuffles) total_[t] += mask * store_sum(to_float(y), t, column);
    }
  }
  template <bool kSquares, bool kStores, class Then>
  __device__ __forceinline__ void load_vectors(const Then& then) {
#pragma unroll
    for (int first = 0; first < kVecs * S::kTokens; first += kBatch) {
      request(first);
      if (first == 0) then();
      use<kSquares, kStores>(first);
    }
    if constexpr (kStores && kSumsByShuffles && S::kDirect)
#pragma unroll
      for (int t = 0; t < S::kTokens; ++t) {
        const float sum = warp_reduce<Sum>(total_[t]);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (token(t / 8, i) == t) direct_sums[t / 8][i] = sum;
      }
  }
  __device__ __forceinline__ void store_norm_squares() {
    const float sum = warp_reduce_rows<Sum>(squares_);
    if (lane_ < S::kTokens) shared_.squares[lane_][threadIdx.x / 32] = sum;
  }
  /// Returns the sum of a vector of x. Without kDirect it adds those of adjacent lanes, which belong to the
  /// same group, and stores the sum of the group.
  __device__ __forceinline__ float store_sum(const Vec<float, 8>& x, int token, int column) {
    constexpr float kFactor = kTimesZero ? -static_cast<float>(S::Word::kZero) : 1;
    float sum = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
    sum *= kFactor / S::Word::kXScale;
    sum *= 1 / S::Word::kSumScale;
    if constexpr (!S::kDirect) {
      constexpr int kColumns = S::kColumns / S::kXGroups;
      sum = warp_reduce<Sum, kColumns / 8>(sum);
      if (column % kColumns == 0 && column < S::kPartIn)
        shared_.sums[column / S::kColumns][token][column % S::kColumns / kColumns] = sum;
    }
    return sum;
  }

  /// Sums of the columns of a block, of both tokens of this lane in each tile of eight.
  using ColumnSums = float[S::kTokenTiles][2][S::kXGroups];

  /// Makes the warp's blocks `i` up to `end` visible to its lanes, and adds their columns.
  __device__ __forceinline__ void finish_blocks(int i, int end) {
    __syncwarp();
    if constexpr (!kSumsByMma) return;
    const auto has_block = [&](int i) { return S::kBlocks % S::kWarps == 0 || first_ + i * step_ < last_; };
#pragma unroll 1
    for (; i < end; i += 2) {  // the products of two blocks overlap; of all, they spill
      ColumnSums sums[2];
#pragma unroll
      for (int j = 0; j < 2; ++j)
        if (i + j < end && has_block(i + j)) add_columns(sums[j], first_ + (i + j) * step_);
#pragma unroll
      for (int j = 0; j < 2; ++j)
        if (i + j < end && has_block(i + j)) store_sums(sums[j], first_ + (i + j) * step_);
    }
    __syncwarp();
  }
  /// Adds the columns of a block, from shared memory, by products with ones. Several chains hide the latency.
  __device__ __forceinline__ void add_columns(ColumnSums& sums, int block) const {
    constexpr int kChains = max_of(S::kXGroups, S::kFragments / 2), kGroupChains = kChains / S::kXGroups;
    constexpr unsigned kFactor = kTimesZero ? 0x80008000u | S::Word::kZero * 0x10001u : 0x00010001u;
    float chains[kChains][S::kTokenTiles][4] = {};
#pragma unroll
    for (int pair = 0; pair < S::kFragments / 2; ++pair)
#pragma unroll
      for (int n = 0; n < S::kTokenTiles; ++n) {
        unsigned b[4];
        ldmatrix_x4(b, addresses[n] + 2 * block * S::kColumns + pair * 64);
#pragma unroll
        for (int f = 0; f < 2; ++f)
          mma_m16n8k16<T>(chains[(2 * pair + f) * kChains / S::kFragments][n],
                          {kFactor, kFactor, kFactor, kFactor}, b[2 * f], b[2 * f + 1]);
      }
#pragma unroll
    for (int n = 0; n < S::kTokenTiles; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i)  // all rows have the same
#pragma unroll
        for (int g = 0; g < S::kXGroups; ++g) {
          float sum = chains[g * kGroupChains][n][i];
#pragma unroll
          for (int chain = 1; chain < kGroupChains; ++chain) sum += chains[g * kGroupChains + chain][n][i];
          sums[n][i][g] = sum;
        }
  }
  __device__ __forceinline__ void store_sums(const ColumnSums& sums, int block) {
#pragma unroll
    for (int n = 0; n < S::kTokenTiles; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int g = 0; g < S::kXGroups; ++g) {
          if constexpr (S::kDirect)
            direct_sums[n][i] += sums[n][i][g], direct_sums[n][i + 2] += sums[n][i][g];
          else if (lane_ < 4 && token(n, i) < S::kTokens)
            shared_.sums[block][token(n, i)][g] = sums[n][i][g];
        }
  }

  Shared& shared_;
  const QuantizedLinearArgs& args_;
  const int lane_ = threadIdx.x % 32, first_, last_, step_;
  int begin_ = 0;
  Vec<T, 8> norm_[S::kNorm ? kVecs : 1] = {};
  Vec<T, 8> vectors_[kBatch];  // in flight
  float squares_[next_power_of_two(S::kTokens)] = {}, total_[S::kTokens] = {};
};

}  // namespace warptune
