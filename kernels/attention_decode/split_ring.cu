// Idea: decode attention is the stream of K and V, each byte once. The keys of a sequence are split over
// blocks, in chunks over the warps of a block; every warp keeps its own ring of K and V chunks in shared
// memory full by bulk copies (sm_90) and runs an online softmax over them. Four lanes share a key, so that
// two shuffles finish eight scores; for P.V the lanes lie along head_dim. kHeads query heads of a GQA group
// share each chunk.
//
// Keys below length - 1 were written by earlier steps: their copies are asked for before pdl_wait(). A step's
// first kernel must not be launched with the pdl attribute (embedding has no such parameter), which makes
// this safe: everything of earlier steps has ended when any later kernel of this step can start. The kAhead
// chunks of a warp behind those of its ring are asked into the L2, so that memory has work until the kernel
// before has merged its splits and this one may go on.
//
// Merging: ring_merge.cuh. Flash-decoding: Dao et al., 2023.
//
// With kAppend every key of the cache is an old one. The new key comes from the fused qkv row through shared
// memory; the last warp of the last split takes it while its first copies are under way.
#include "attention_decode/ring_append.cuh"
#include "attention_decode/ring_merge.cuh"
#include "common/bulk_copy.cuh"
#include "common/bulk_prefetch.cuh"
#include "common/pdl.cuh"
#include "common/reduce.cuh"
#include "common/vec.cuh"

namespace warptune {

/// out[h] += sum over the chunk's keys of p[h] * v, this lane's kVec elements of head_dim; p as the scores
/// lie: that of key i in register i / 8 of lane i % 8 * 4. Rows of v from `valid` on are not read (!kWhole).
template <bool kWhole, int kHeadDim, class T, int kHeads, int kRound, int kVec>
__device__ __forceinline__ void add_values(const T* v, int valid, const float (&p)[kHeads][kRound],
                                           float (&out)[kHeads][kVec]) {
  constexpr int kPieces = kHeadDim / kVec, kAtOnce = 32 / kPieces;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 0; step < kRound * 8 / kAtOnce; ++step) {
    const int key = step * kAtOnce + lane / kPieces;
    Vec<float, kVec> x{};
    if (kWhole || key < valid) x = to_float(load_vec<kVec>(v + key * kHeadDim + lane % kPieces * kVec));
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const float weight = __shfl_sync(0xffffffffu, p[h][step * kAtOnce / 8], key % 8 * 4);
#pragma unroll
      for (int i = 0; i < kVec; ++i) out[h][i] = fmaf(weight, x[i], out[h][i]);
    }
  }
}

template <class T, int kHeadDim, int kQHeads, int kKvHeads, bool kAppend, int kHeads, int kWarps, int kKeys,
          int kStages, int kAhead, int kSplits, bool kCluster>
__global__ void __launch_bounds__(kWarps * 32) attention_decode_split_ring(AttentionDecodeArgs args) {
  constexpr int kVec = kVec16<T>;
  constexpr int kPieces = kHeadDim / kVec;  // 16-byte pieces of a row: 8, 16 or 32
  constexpr int kMine = kPieces / 4;        // of them, a lane's share in q . k
  constexpr int kGroup = kQHeads / kKvHeads;
  constexpr int kRound = kKeys / 8;  // scores of a chunk per lane
  constexpr int kTile = kKeys * kHeadDim;
  // Behind the rings and their barriers: the tile of the new key, and the new rows.
  constexpr int kAppendOffset =
      ceil_div(kWarps * kStages * (2 * kTile * static_cast<int>(sizeof(T)) + 8), 16) * 16;
  extern __shared__ __align__(128) unsigned char shared[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  T* ring = reinterpret_cast<T*>(shared) + warp * (kStages * 2 * kTile);
  BulkBarrier* full =
      reinterpret_cast<BulkBarrier*>(reinterpret_cast<T*>(shared) + kWarps * kStages * 2 * kTile) +
      warp * kStages;

  const int split = blockIdx.x, batch = blockIdx.z;
  const int kv_head = blockIdx.y / (kGroup / kHeads);
  const int q_head = kv_head * kGroup + blockIdx.y % (kGroup / kHeads) * kHeads;
  using P = DecodeProblem<T, kQHeads, kKvHeads, kHeadDim, false, kAppend>;
  using Fresh = RingAppend<P, kHeads, kWarps * 32, float>;
  T* const new_tile = reinterpret_cast<T*>(shared + kAppendOffset);
  [[maybe_unused]] Fresh& fresh = *reinterpret_cast<Fresh*>(new_tile + 2 * kTile);
  [[maybe_unused]] const float frequency = Fresh::frequency(args);
  const int length = args.lengths[batch];
  const int cached = kAppend ? max_of(0, length - 1) : length;
  const int chunks = ceil_div(cached, kKeys);
  const int first = static_cast<int>(static_cast<long long>(chunks) * split / kSplits) + warp;
  const int end = static_cast<int>(static_cast<long long>(chunks) * (split + 1) / kSplits);
  const KvCache<P> cache(args, batch, kv_head);

  const int old_chunks = kAppend ? chunks : chunks - 1;  // written before this step

  const auto ask = [&](int chunk, int slot) {
    const unsigned bytes = min_of(kKeys, cached - chunk * kKeys) * kHeadDim * static_cast<int>(sizeof(T));
    const long long at = static_cast<long long>(chunk) * kTile;
    bulk_expect(full + slot, 2 * bytes);
    bulk_copy_once(ring + slot * 2 * kTile, cache.k + at, bytes, full + slot);
    bulk_copy_once(ring + slot * 2 * kTile + kTile, cache.v + at, bytes, full + slot);
  };
  const auto prefetch = [&](int chunk) {
    const unsigned bytes = min_of(kKeys, cached - chunk * kKeys) * kHeadDim * static_cast<int>(sizeof(T));
    const long long at = static_cast<long long>(chunk) * kTile;
    bulk_prefetch(cache.k + at, bytes);
    bulk_prefetch(cache.v + at, bytes);
  };
  if (lane == 0) {
    for (int s = 0; s < kStages; ++s) bulk_barrier_init(full + s);
    bulk_barriers_ready();
    for (int s = 0; s < kStages; ++s)
      if (first + s * kWarps < min_of(end, old_chunks)) ask(first + s * kWarps, s);
    for (int s = kStages; s < kStages + kAhead; ++s)
      if (first + s * kWarps < min_of(end, old_chunks)) prefetch(first + s * kWarps);
  }
  pdl_launch_next();
  pdl_wait();
  const Output<P> output(args, batch, q_head);
  if (length == 0) {
    if (split == 0) output.template put_nothing<kHeads, kWarps * 32>();
    return;
  }
  if (!kAppend && lane == 0)
    for (int s = 0; s < kStages; ++s)
      if (first + s * kWarps < end && first + s * kWarps == chunks - 1) ask(chunks - 1, s);
  __syncwarp();

  const bool owner = split == kSplits - 1;  // of the new key
  if constexpr (kAppend) {
    fresh.take(args, cache, batch, q_head, length - 1, frequency, owner, owner && q_head % kGroup == 0,
               new_tile, new_tile + kTile);
    __syncthreads();
  }

  // Neighbouring keys take their pieces in another order, so that a quarter warp touches all banks once.
  float q[kHeads][kMine][kVec];
  const int flip = lane / 4 % 2;
  const float scale = args.scale * kLog2e;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const T* row =
        static_cast<const T*>(args.q) + (static_cast<long long>(batch) * kQHeads + q_head + h) * kHeadDim;
#pragma unroll
    for (int j = 0; j < kMine; ++j) {
      const int at = ((j ^ flip) * 4 + lane % 4) * kVec;
      Vec<float, kVec> x;
      if constexpr (kAppend)
        x = load_vec<kVec>(fresh.q[h] + at);
      else
        x = to_float(load_vec<kVec>(row + at));
#pragma unroll
      for (int i = 0; i < kVec; ++i) q[h][j][i] = x[i] * scale;
    }
  }

  float top[kHeads], sum[kHeads], out[kHeads][kVec];  // running maximum, this lane's sum of p, P.V
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    top[h] = -WARPTUNE_INFINITY;
    sum[h] = 0;
#pragma unroll
    for (int i = 0; i < kVec; ++i) out[h][i] = 0;
  }

  int slot = 0;
  unsigned parity = 0;
  const bool takes_new = kAppend && owner && warp == kWarps - 1;
  for (int chunk = first - (takes_new ? kWarps : 0); chunk < end; chunk += kWarps) {
    const bool is_new = kAppend && chunk < first;
    if (!is_new) bulk_wait(full + slot, parity);
    const T* k = is_new ? new_tile : ring + slot * 2 * kTile;
    const T* v = k + kTile;
    const int valid = is_new ? 1 : cached - chunk * kKeys;

    float p[kHeads][kRound];
#pragma unroll
    for (int r = 0; r < kRound; ++r) {
      const int key = r * 8 + lane / 4;
#pragma unroll
      for (int h = 0; h < kHeads; ++h) p[h][r] = 0;
#pragma unroll
      for (int j = 0; j < kMine; ++j) {
        const auto x = to_float(load_vec<kVec>(k + key * kHeadDim + ((j ^ flip) * 4 + lane % 4) * kVec));
#pragma unroll
        for (int h = 0; h < kHeads; ++h)
#pragma unroll
          for (int i = 0; i < kVec; ++i) p[h][r] = fmaf(q[h][j][i], x[i], p[h][r]);
      }
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        p[h][r] += __shfl_xor_sync(0xffffffffu, p[h][r], 1);
        p[h][r] += __shfl_xor_sync(0xffffffffu, p[h][r], 2);
        if (key >= valid) p[h][r] = -WARPTUNE_INFINITY;
      }
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      float high = p[h][0];
#pragma unroll
      for (int r = 1; r < kRound; ++r) high = fmaxf(high, p[h][r]);
#pragma unroll
      for (int offset = 4; offset < 32; offset *= 2)
        high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, offset));
      if (high > top[h]) {  // the same in all lanes
        const float shrink = exp2_fast(top[h] - high);
        sum[h] *= shrink;
#pragma unroll
        for (int i = 0; i < kVec; ++i) out[h][i] *= shrink;
        top[h] = high;
      }
#pragma unroll
      for (int r = 0; r < kRound; ++r) {
        p[h][r] = exp2_fast(p[h][r] - top[h]);
        sum[h] += p[h][r];
      }
    }
    if (valid >= kKeys)
      add_values<true, kHeadDim>(v, valid, p, out);
    else
      add_values<false, kHeadDim>(v, valid, p, out);

    if (is_new) continue;
    __syncwarp();
    if (lane == 0 && chunk + kStages * kWarps < end) ask(chunk + kStages * kWarps, slot);
    if (++slot == kStages) {
      slot = 0;
      parity ^= 1;
    }
  }

  __syncthreads();  // nobody reads the rings any more
  using Merge = RingMerge<P, kWarps, kHeads, kSplits, kCluster>;
  Merge& merge = *reinterpret_cast<Merge*>(shared);
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const float total = warp_reduce<Sum>(sum[h]) * 0.25f;  // four lanes hold the same p
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
#pragma unroll
      for (int offset = kPieces; offset < 32; offset *= 2)
        out[h][i] += __shfl_xor_sync(0xffffffffu, out[h][i], offset);
      if (lane < kPieces) merge.warps.rows[warp][h][lane * kVec + i] = out[h][i];
    }
    if (lane == 0) merge.warps.states[warp][h] = {fmaxf(top[h], kNoScore), total};
  }
  __syncthreads();
  merge.finish(args, static_cast<long long>(batch) * kQHeads + q_head, output);
}

}  // namespace warptune
