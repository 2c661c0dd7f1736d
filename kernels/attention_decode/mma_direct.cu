// Split-KV decode attention on tensor cores, global memory to registers: no shared memory stage and no
// barrier in the main loop.
// Grid: [splits, kv_heads, batch]. A block computes all query heads of a KV head (packed GQA, m16n8k16;
//   mma_attention.cuh). Each of its kWarps warps loads its tiles of kTileKv keys with 16-byte loads directly
//   into mma fragments; tiles are assigned round-robin.
// Latency hiding: all loads of a tile are in flight at once, no tile ahead; else occupancy. Launch bounds
//   reserve registers for kWarpsPerSm warps per SM.
// PDL: the first tile of a warp is loaded before pdl_wait() if earlier steps wrote it (see kv_pipeline.cuh).
// Shared memory: new rows of the append; partial rows of the warps reuse it.
// Combine: last block, cluster or LL packets (combine.cuh).
// Wins (H200): GQA below 4k keys and below batch 16. Runs on sm_80, where nothing was measured.
// Source: Flash-Decoding (split-KV).
#include "kernels/attention_decode/register_tile.cuh"
#include "kernels/common/pdl.cuh"

namespace warptune {

template <class P, int kWarps, int kWarpsPerSm, int kTileKv, int kSplits, int kCombine>
__global__ void __launch_bounds__(kWarps * 32, kWarpsPerSm / kWarps)
    attention_decode_mma_direct(typename P::Args args) {
  using Append = MmaAppend<P, kWarps * 32>;
  using Block = BlockCombine<P, kWarps, P::kGroup, kSplits, static_cast<Combine>(kCombine)>;
  [[maybe_unused]] static constexpr int kSharedBytes = max_of(P::kAppend ? sizeof(Append) : 0, sizeof(Block));
  extern __shared__ __align__(16) unsigned char shared[];
  Append& append = *reinterpret_cast<Append*>(shared);

  // Load prologue
  const int warp = threadIdx.x / 32, split = blockIdx.x, kv_head = blockIdx.y, batch = blockIdx.z;
  const int first_head = kv_head * P::kGroup;
  const bool has_new_key = split == kSplits - 1;
  [[maybe_unused]] const typename Append::Constants constants(args, first_head, has_new_key);
  const WarpTiles<P, kTileKv, kWarps, kSplits> tiles(args, batch, split, warp);
  const KvCache<P> cache(args, batch, kv_head);

  RegisterTile<P, kTileKv> kv;
  const bool early = tiles.first < tiles.early_end;
  if (early) kv.load(cache, tiles.first * kTileKv, tiles.cached(tiles.first));
  pdl_launch_dependents();
  pdl_wait();
  const Output<P> output(args, batch, first_head);
  if (tiles.length == 0) {
    if (split == 0) output.template put_empty<P::kGroup, kWarps * 32>();
    return;
  }
  if (!early && tiles.first < tiles.end) kv.load(cache, tiles.first * kTileKv, tiles.cached(tiles.first));

  MmaAttention<P> attention(args, cache, batch, first_head, tiles.length);
  load_queries<false>(attention, args, cache, batch, first_head, tiles.length, constants, has_new_key,
                      append);

  // Main loop
  const long long first_row = static_cast<long long>(batch) * P::kQHeads + first_head;
  unsigned arrival = 0;
  if (tiles.first + kWarps >= tiles.end) arrival = Block::arrive(args, first_row);
  for (int tile = tiles.first; tile < tiles.end; tile += kWarps) {
    const int valid = tiles.valid(tile), cached = tiles.cached(tile);
    if (tile != tiles.first) {
      kv.load(cache, tile * kTileKv, cached);
      if (tile + kWarps >= tiles.end) arrival = Block::arrive(args, first_row);
    }
    if constexpr (P::kAppend)
      if (cached < valid) kv.put_new_key(append, cached);
    attention.attend(kv, tile * kTileKv, tiles.masked(tile), valid);
  }

  // Epilogue
  if constexpr (P::kAppend) __syncthreads();  // all warps have read the new rows
  Block& block = *reinterpret_cast<Block*>(shared);
  attention.store(block);
  block.finish(args, first_row, split, output, arrival);
}

}  // namespace warptune
