// Split-KV decode attention, warp-specialized, tensor cores (sm_90).
// Grid: one persistent block per SM. A work tile is one split of one KV head of one sequence; the first one
//   is static, later ones come from an atomic counter.
// Roles: one producer warp fills a kStages-deep K/V pipeline per consumer warp (cp.async.bulk, kLoadsInFlight
//   outstanding; kv_pipeline.cuh). kWarps consumer warps compute all query heads of a KV head (packed GQA,
//   m16n8k16: S = Q.K^T, then O^T = V^T.P^T; mma_attention.cuh), online softmax in registers.
// Sync: full and empty mbarrier per stage; named barriers among the consumer warps.
// Shared memory: pipeline buffers and barriers, new rows of the append, partial rows of the warps.
// Combine: last block or LL packets (combine.cuh). Append: overlapped with the first loads.
// PDL: the producer warp launches the next kernel at once and loads the first work tile before pdl_wait().
// Wins (H200): GQA from 4k keys on; from batch 16 on, most GQA, and MHA from about 400 keys on.
// Source: Flash-Decoding (split-KV), FlashAttention-3 (producer and consumer warps).
#include "kernels/attention_decode/kv_pipeline.cuh"
#include "kernels/attention_decode/mma_attention.cuh"

namespace warptune {

/// Main loop: consumes the KV tiles of a work tile. Returns the arrival index of the block (BlockCombine).
template <class Block, int kTileKv, int kStages, class P, class Pipeline, class Append>
__device__ __forceinline__ unsigned consume_tiles(const AttentionDecodeArgs& args, Pipeline& pipeline,
                                                  MmaAttention<P>& attention, const Append& append,
                                                  long long first_row, int length) {
  unsigned arrival = 0;
  for (bool more = true, arrives = true; more;) {
    const KvTile now = pipeline.consumer_wait();
    if (arrives && now.left <= kStages) {
      arrival = Block::arrive(args, first_row);
      arrives = false;
    }
    if (now.tile >= 0) {
      const int first_key = now.tile * kTileKv, valid = min_of(kTileKv, length - first_key),
                cached = min_of(kTileKv, length - P::kAppend - first_key);
      if (P::kAppend && cached < valid) {
        if (P::kRowScales && threadIdx.x % 32 == 0) {
          pipeline.k_scales()[cached] = append.scales[0];
          pipeline.v_scales()[cached] = append.scales[1];
        }
        append.copy_to_tile(pipeline.keys() + cached * P::kHeadDim, pipeline.values() + cached * P::kHeadDim);
      }
      attention.attend(SharedTile<P, kTileKv>(pipeline.keys(), pipeline.values(), pipeline.k_scales(),
                                              pipeline.v_scales(), valid),
                       first_key, max_of(0, P::first_key(length) - first_key), valid);
    }
    pipeline.consumer_release();
    more = now.left > 1;
  }
  return arrival;
}

template <class P, int kWarps, int kTileKv, int kStages, int kLoadsInFlight, int kL2Prefetch, int kSplits,
          int kCombine>
__global__ void __launch_bounds__(kWarps * 32 + 32) attention_decode_mma_pipelined(typename P::Args args) {
  constexpr int kThreads = kWarps * 32;  // of the consumer warps
  using Pipeline = KvPipeline<P, kTileKv, kWarps, kStages, kLoadsInFlight, kL2Prefetch, kSplits>;
  using Append = MmaAppend<P, kThreads>;
  using Block = BlockCombine<P, kWarps, P::kGroup, kSplits, static_cast<Combine>(kCombine)>;
  constexpr int kAppendAt = Pipeline::kEnd,
                kBlockAt = kAppendAt + (P::kAppend ? ceil_div(static_cast<int>(sizeof(Append)), 16) * 16 : 0);
  [[maybe_unused]] static constexpr int kSharedBytes = kBlockAt + sizeof(Block);
  extern __shared__ __align__(128) unsigned char shared[];
  Append& append = *reinterpret_cast<Append*>(shared + kAppendAt);
  Block& block = *reinterpret_cast<Block*>(shared + kBlockAt);

  Pipeline pipeline(args, shared);
  __syncthreads();
  if (pipeline.warp == kWarps) {
    pipeline.produce(args, Block::work_counter(args));
    return;
  }

  int work = static_cast<int>(blockIdx.x);
  if (work >= pipeline.work_tiles) work = -1;
  const auto first_head = [&] { return Pipeline::kv_head(work) * P::kGroup; };
  const auto has_new_key = [&] { return Pipeline::split(work) == kSplits - 1; };
  int length = work < 0 ? 0 : args.lengths[Pipeline::batch(work)];
  [[maybe_unused]]
  typename Append::Constants constants(args, work < 0 ? 0 : first_head(), work >= 0 && has_new_key());
  if (P::kAppend && work >= 0) append.compute_angles(args, length - 1, constants);
  pdl_wait();
  while (work >= 0) {
    const int batch = Pipeline::batch(work);
    const KvCache<P> cache(args, batch, Pipeline::kv_head(work));
    const long long first_row = static_cast<long long>(batch) * P::kQHeads + first_head();
    MmaAttention<P> attention(args, cache, batch, first_head(), length);
    load_queries<true>(attention, args, cache, batch, first_head(), length, constants,
                       has_new_key() && length > 0, append);

    const unsigned arrival =
        consume_tiles<Block, kTileKv, kStages>(args, pipeline, attention, append, first_row, length);

    // All warps have read `block` of the previous work tile and `append` of this one.
    named_barrier_sync<kThreads>();
    attention.store(block);
    block.finish(args, first_row, Pipeline::split(work), Output<P>(args, batch, first_head()), arrival);
    const KvTile next = pipeline.consumer_wait();
    work = next.work;
    length = next.length;
    if (P::kAppend && work >= 0) {
      constants = typename Append::Constants(args, first_head(), has_new_key());
      append.compute_angles(args, length - 1, constants);
    }
  }
}

}  // namespace warptune
