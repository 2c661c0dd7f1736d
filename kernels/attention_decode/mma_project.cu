// Split-KV decode attention of one sequence with the output projection and the residual add in one kernel.
// Grid: kv_heads * kSplits blocks attend, each to a split of the keys of one KV head, as in mma_direct.cu.
//   hidden / kRows blocks project: each computes kRows rows of o.
// Exchange: the splits of a KV head form a cluster, which combines them (ClusterExchange). Its rows go to the
//   projecting blocks through the L2 as flag-in-data packets (ll_packet.cuh): one trip, where the end of a
//   kernel and the start of the next take 1.2 us before x is loaded. A projecting block waits for blocks of
//   lower index only.
// Packets: two buffers in the workspace. A launch uses the buffer of its parity and clears the other one,
//   which all blocks of the launch before have read.
// Projection: the warps of a block split its columns; a lane polls for the 8 columns that it multiplies.
//   Tensor cores: the diagonal of mma.sync, see linear/diagonal_mma.cuh; a warp multiplies a fragment of
//   kFragmentK columns at a time.
// PDL: keys of earlier steps and the weights of o are loaded before pdl_wait().
// Shared memory: weights of o; or the new rows of the append, which the partial rows of the warps overwrite,
//   and what the cluster exchanges.
// Wins: steps of models whose o fits the shared memory of the device (llama3.2-1b, tinyllama), batch 1.
// Source: the LL protocol of NCCL.
#include "kernels/attention_decode/register_tile.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/tma.cuh"
#include "kernels/linear/diagonal_mma.cuh"

namespace warptune {

inline constexpr int kProjectThreads = 256, kProjectWarps = kProjectThreads / 32;

template <class P, int kHidden, int kTileKv, int kSplits, int kRows>
struct MmaProject {
  using T = typename P::T;
  using Mma = DiagonalMma<1>;
  static constexpr int kQWidth = P::kQHeads * P::kHeadDim, kFragmentK = Mma::kColumns,
                       kFragments = kQWidth / kFragmentK,
                       kWarpFragments = ceil_div(kFragments, kProjectWarps);
  static constexpr int kAttending = P::kKvHeads * kSplits, kBlocks = kAttending + kHidden / kRows;
  static constexpr int kWeightBytes = kRows * kQWidth * static_cast<int>(sizeof(T));
  using Append = MmaAppend<P, kProjectThreads>;
  using Exchange = ClusterExchange<P, kSplits>;
  struct Attending {  // shared memory of a block that attends
    union {
      Append append;
      SharedPartials<kProjectWarps, P::kGroup, P::kHeadDim> warps;
    };
    Exchange exchange;
  };
  static_assert(P::kAppend && kQWidth % kFragmentK == 0 && kHidden % kRows == 0 && kRows % Mma::kRows == 0);

  /// Words of the workspace: a counter of blocks, modulo two launches, then the two buffers.
  static constexpr int kCounterWords = 32, kBufferWords = kQWidth / 2;
  static __device__ __forceinline__ unsigned* buffer(const AttentionDecodeArgs& args, unsigned launch) {
    return static_cast<unsigned*>(args.workspace) + kCounterWords + launch % 2 * kBufferWords;
  }
};

/// Sends rows as packets of 4 elements. The members of Output (problem.cuh) that put_row() calls.
template <class P>
struct PacketOutput {
  unsigned* words;  // of the first head
  float v_scale;    // of the KV head

  template <int N>
  __device__ __forceinline__ void put(int h, int i, Vec<float, N> x) const {
    static_assert(N == 4);
    if constexpr (P::kQuantized && !P::kRowScales)
#pragma unroll
      for (int j = 0; j < N; ++j) x[j] *= v_scale;
    const auto rounded = from_float<typename P::T>(x);
    const auto pairs = *reinterpret_cast<const Vec<float, 2>*>(&rounded);  // their bits
    LlPacket<2>::pack(pairs).store(words + (h * P::kHeadDim + i) / 2);
  }
  __device__ __forceinline__ void put_lse(int, SoftmaxState) const {}
};

/// Stores the number of this launch, modulo 2, and lets the next one start. In this order: each launch has
/// counted all its blocks before one of the next is counted.
template <class S>
__device__ __forceinline__ void begin_launch(const AttentionDecodeArgs& args, unsigned& launch) {
  if (threadIdx.x != 0) return;
  const unsigned counted = atomicInc(static_cast<unsigned*>(args.workspace), 2 * S::kBlocks - 1);
  *const_cast<volatile unsigned*>(&launch) = counted / S::kBlocks;
  pdl_launch_dependents();
}

/// Attends to one split of the keys of a KV head.
template <class S, class P, int kTileKv, int kSplits>
__device__ __forceinline__ void attend_and_send(const typename P::Args& args, unsigned char* shared,
                                                unsigned& launch) {
  using Append = typename S::Append;
  using Exchange = typename S::Exchange;
  auto& block = *reinterpret_cast<typename S::Attending*>(shared);
  Append& append = block.append;
  Exchange& exchange = block.exchange;
  const int kv_head = blockIdx.x / kSplits, split = blockIdx.x % kSplits, first_head = kv_head * P::kGroup;
  const bool has_new_key = split == kSplits - 1;
  const typename Append::Constants constants(args, first_head, has_new_key);
  const WarpTiles<P, kTileKv, kProjectWarps, kSplits> tiles(args, 0, split, threadIdx.x / 32);
  const KvCache<P> cache(args, 0, kv_head);
  RegisterTile<P, kTileKv> kv;
  if (tiles.first < tiles.end) kv.load(cache, tiles.first * kTileKv, tiles.cached(tiles.first));
  append.compute_angles(args, tiles.length - 1, constants);
  if constexpr (kSplits > 1) {
    if (threadIdx.x == 0) exchange.init(split);
    cluster_barrier_arrive();
  }
  begin_launch<S>(args, launch);
  pdl_wait();
  __syncthreads();  // the number of the launch
  const PacketOutput<P> output{S::buffer(args, launch) + first_head * P::kHeadDim / 2, cache.head_v_scale()};
  MmaAttention<P> attention(args, cache, 0, first_head, tiles.length);
  if (tiles.length > 0)
    load_queries<true>(attention, args, cache, 0, first_head, tiles.length, constants, has_new_key, append);
  for (int tile = tiles.first; tile < tiles.end; tile += kProjectWarps) {
    const int valid = tiles.valid(tile), cached = tiles.cached(tile);
    if (tile != tiles.first) kv.load(cache, tile * kTileKv, cached);
    if (cached < valid) kv.put_new_key(append, cached);
    attention.attend(kv, tile * kTileKv, tiles.masked(tile), valid);
  }
  __syncthreads();  // all warps have read the new rows
  attention.store(block);
  __syncthreads();
  if constexpr (kSplits > 1) cluster_barrier_wait();
  for (int vector = threadIdx.x; vector < Exchange::kVectors; vector += kProjectThreads) {
    const int head = vector / Exchange::kPerRow, column = vector % Exchange::kPerRow * 4;
    PartialRow row;
    row.template add<kProjectWarps>([&](int warp) {
      return PartialRow{block.warps.states[warp][head], load_vec<4>(&block.warps.rows[warp][head][column])};
    });
    if constexpr (kSplits > 1)
      exchange.send(vector, split, row);
    else
      put_row(output, head, column, row);
  }
  if constexpr (kSplits == 1) return;
  for (int slot = threadIdx.x; slot < Exchange::part(split); slot += kProjectThreads) {
    const int vector = split * Exchange::kPart + slot;
    put_row(output, vector / Exchange::kPerRow, vector % Exchange::kPerRow * 4, exchange.receive(slot));
  }
}

/// Issues the bulk copies of the kRows weight rows of a projecting block. One thread.
template <class S>
__device__ __forceinline__ void load_weight(const ProjectDecodeArgs& args, int block, unsigned char* shared,
                                            Mbarrier* full) {
  constexpr int kCopies = 4, kBytes = S::kWeightBytes / kCopies;
  mbarrier_init(full);
  mbarrier_init_fence();
  mbarrier_arrive_expect_tx(full, S::kWeightBytes);
  const auto* const from =
      static_cast<const unsigned char*>(args.o_weight) + static_cast<long long>(block) * S::kWeightBytes;
#pragma unroll
  for (int i = 0; i < kCopies; ++i)
    bulk_copy_evict_first(shared + i * kBytes, from + i * kBytes, kBytes, full);
}

/// The main loop of a warp that projects: receives its columns of x and multiplies them.
template <class S, int kPairs>
__device__ __forceinline__ void multiply(const typename S::T* weight, const unsigned* words, Mbarrier& full,
                                         int warp, int lane, float (&sums)[kPairs][4]) {
  using T = typename S::T;
#pragma unroll
  for (int i = 0; i < S::kWarpFragments; ++i) {
    const int fragment = i * kProjectWarps + warp, column = fragment * S::kFragmentK + lane * 8;
    if (S::kFragments % kProjectWarps != 0 && fragment >= S::kFragments) break;
    LlPacket<4> packet;
    do packet = LlPacket<4>::load(words + column / 2);
    while (!packet.is_complete());
    const Vec<float, 4> bits = packet.unpack();
    const uint4 x = reinterpret_cast<const uint4&>(bits);
    if (i == 0) mbarrier_wait(&full, 0);
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      const uint4 a = *reinterpret_cast<const uint4*>(weight + (2 * pair) * S::kQWidth + column),
                  b = *reinterpret_cast<const uint4*>(weight + (2 * pair + 1) * S::kQWidth + column);
      S::Mma::template multiply<T>(sums[pair], a, b, x);
    }
  }
}

/// Computes kRows rows of o from the packets of the attending blocks.
template <class S, class P, int kRows>
__device__ __forceinline__ void receive_and_project(const ProjectDecodeArgs& args, unsigned char* shared,
                                                    unsigned& launch) {
  using T = typename P::T;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int block = blockIdx.x - S::kAttending, blocks = S::kBlocks - S::kAttending,
            first_row = block * kRows;
  const T* const weight = reinterpret_cast<const T*>(shared);
  __shared__ Mbarrier full;
  __shared__ alignas(16) float partials[kRows][kProjectWarps][S::Mma::kSplits];
  if (threadIdx.x == 0) load_weight<S>(args, block, shared, &full);
  begin_launch<S>(args, launch);
  pdl_wait();
  __syncthreads();  // the number of the launch, the barrier

  // 16 lanes per output row
  constexpr int kRowsAtOnce = kProjectThreads / 16, kStores = ceil_div(kRows, kRowsAtOnce);
  float residual[kStores] = {};
#pragma unroll
  for (int i = 0; i < kStores; ++i)
    if (const int row = threadIdx.x / 16 + i * kRowsAtOnce; row < kRows)
      residual[i] = to_float(static_cast<const T*>(args.residual)[first_row + row]);
  unsigned* const other = S::buffer(args, launch + 1);
  for (int i = block * kProjectThreads + threadIdx.x; i < S::kBufferWords; i += blocks * kProjectThreads)
    other[i] = 0;

  float sums[kRows / 2][4] = {};
  multiply<S>(weight, S::buffer(args, launch), full, warp, lane, sums);
  // D: rows lane / 4 and 8 further, columns lane % 4 * 2 + i: equal splits
  const int k_split = lane / 4;
  if (lane % 4 == k_split / 2) {
#pragma unroll
    for (int pair = 0; pair < kRows / 2; ++pair)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        partials[2 * pair + half][warp][k_split] =
            k_split % 2 == 0 ? sums[pair][2 * half] : sums[pair][2 * half + 1];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kStores; ++i) {
    const int row = threadIdx.x / 16 + i * kRowsAtOnce;
    const auto v = load_vec<4>(&partials[min_of(row, kRows - 1)][0][0] + threadIdx.x % 16 * 4);
    const float y = warp_reduce<Sum, 16>((v[0] + v[1]) + (v[2] + v[3]));
    if (row < kRows && threadIdx.x % 16 == 0)
      static_cast<T*>(args.y)[first_row + row] = from_float<T>(y + residual[i]);
  }
}

template <class P, int kHidden, int kTileKv, int kSplits, int kRows>
__global__ void __launch_bounds__(kProjectThreads, 2) attention_decode_mma_project(typename P::Args args) {
  using S = MmaProject<P, kHidden, kTileKv, kSplits, kRows>;
  [[maybe_unused]] static constexpr int kSharedBytes = max_of(S::kWeightBytes, sizeof(typename S::Attending));
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ unsigned launch;
  if (blockIdx.x < S::kAttending)
    attend_and_send<S, P, kTileKv, kSplits>(args, shared, launch);
  else
    receive_and_project<S, P, kRows>(args, shared, launch);
}

}  // namespace warptune
