// Idea: decode attention is the stream of K and V, each byte once. The keys of a sequence are split over
// blocks, in chunks over the warps of a block; every warp keeps its own ring of K and V chunks in shared
// memory full by bulk copies (sm_90) and runs an online softmax over them. Four lanes share a key, so that
// two shuffles finish eight scores; for P.V the lanes lie along head_dim. kHeads query heads of a GQA group
// share each chunk.
//
// Keys below length - 1 were written by earlier steps: their copies are asked for before pdl_wait(). A step's
// first kernel must not be launched with the pdl attribute (embedding has no such parameter), which makes
// this safe: everything of earlier steps has ended when any later kernel of this step can start.
//
// Merging: warps through shared memory; splits through the shared memory of a cluster (kCluster), or through
// the workspace by the block that comes last. Flash-decoding: Dao et al., 2023.
#include "attention_decode/args.h"
#include "common/bulk_copy.cuh"
#include "common/cluster.cuh"
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

/// Element d of the merged result of `n` partials (maximum, sum, values) that load(part, index) gives; and
/// the maximum and sum over all. Partials of no keys have maximum -inf.
template <class Load>
__device__ __forceinline__ float merge_partials(int n, int d, Load load, float& high, float& total) {
  high = -WARPTUNE_INFINITY;
  total = 0;
  for (int part = 0; part < n; ++part) high = fmaxf(high, load(part, 0));
  if (high == -WARPTUNE_INFINITY) return 0;
  float value = 0;
  for (int part = 0; part < n; ++part) {
    const float factor = exp2f(load(part, 0) - high);
    total = fmaf(load(part, 1), factor, total);
    value = fmaf(load(part, 2 + d), factor, value);
  }
  return value;
}

template <class T, int kHeadDim, int kQHeads, int kKvHeads, int kHeads, int kWarps, int kKeys, int kStages,
          int kSplits, bool kCluster>
__global__ void __launch_bounds__(kWarps * 32) attention_decode_split_ring(AttentionDecodeArgs args) {
  constexpr int kVec = kVec16<T>;
  constexpr int kPieces = kHeadDim / kVec;  // 16-byte pieces of a row: 8, 16 or 32
  constexpr int kMine = kPieces / 4;        // of them, a lane's share in q . k
  constexpr int kAtOnce = 32 / kPieces;     // rows of V per step of the warp
  constexpr int kGroup = kQHeads / kKvHeads;
  constexpr int kRound = kKeys / 8;  // scores of a chunk per lane
  constexpr int kTile = kKeys * kHeadDim;
  extern __shared__ __align__(128) unsigned char shared[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  T* ring = reinterpret_cast<T*>(shared) + warp * (kStages * 2 * kTile);
  BulkBarrier* full =
      reinterpret_cast<BulkBarrier*>(reinterpret_cast<T*>(shared) + kWarps * kStages * 2 * kTile) +
      warp * kStages;

  const int split = blockIdx.x, batch = blockIdx.z;
  const int kv_head = blockIdx.y / (kGroup / kHeads);
  const int q_head = kv_head * kGroup + blockIdx.y % (kGroup / kHeads) * kHeads;
  const int length = args.lengths[batch];
  const int chunks = (length + kKeys - 1) / kKeys;
  const int first = static_cast<int>(static_cast<long long>(chunks) * split / kSplits) + warp;
  const int end = static_cast<int>(static_cast<long long>(chunks) * (split + 1) / kSplits);
  const long long base = (static_cast<long long>(batch) * kKvHeads + kv_head) * args.capacity * kHeadDim;
  const T* keys = static_cast<const T*>(args.k_cache) + base;
  const T* values = static_cast<const T*>(args.v_cache) + base;

  const auto ask = [&](int chunk, int slot) {
    const unsigned bytes = min_of(kKeys, length - chunk * kKeys) * kHeadDim * static_cast<int>(sizeof(T));
    const long long at = static_cast<long long>(chunk) * kTile;
    bulk_expect(full + slot, 2 * bytes);
    bulk_copy_once(ring + slot * 2 * kTile, keys + at, bytes, full + slot);
    bulk_copy_once(ring + slot * 2 * kTile + kTile, values + at, bytes, full + slot);
  };
  if (lane == 0) {
    for (int s = 0; s < kStages; ++s) bulk_barrier_init(full + s);
    bulk_barriers_ready();
    for (int s = 0; s < kStages; ++s)
      if (first + s * kWarps < min_of(end, chunks - 1)) ask(first + s * kWarps, s);
  }
  pdl_launch_next();
  pdl_wait();
  if (lane == 0)
    for (int s = 0; s < kStages; ++s)
      if (first + s * kWarps < end && first + s * kWarps == chunks - 1) ask(chunks - 1, s);
  __syncwarp();

  // Neighbouring keys take their pieces in another order, so that a quarter warp touches all banks once.
  float q[kHeads][kMine][kVec];
  const int flip = lane / 4 % 2;
  const float scale = args.scale * 1.4426950408889634f;  // exp2 instead of exp
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const T* row =
        static_cast<const T*>(args.q) + (static_cast<long long>(batch) * kQHeads + q_head + h) * kHeadDim;
#pragma unroll
    for (int j = 0; j < kMine; ++j) {
      const auto x = to_float(load_vec<kVec>(row + ((j ^ flip) * 4 + lane % 4) * kVec));
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
  for (int chunk = first; chunk < end; chunk += kWarps) {
    bulk_wait(full + slot, parity);
    const T* k = ring + slot * 2 * kTile;
    const T* v = k + kTile;
    const int valid = length - chunk * kKeys;

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
        const float shrink = exp2f(top[h] - high);
        sum[h] *= shrink;
#pragma unroll
        for (int i = 0; i < kVec; ++i) out[h][i] *= shrink;
        top[h] = high;
      }
#pragma unroll
      for (int r = 0; r < kRound; ++r) {
        p[h][r] = exp2f(p[h][r] - top[h]);
        sum[h] += p[h][r];
      }
    }
    if (valid >= kKeys)
      add_values<true, kHeadDim>(v, valid, p, out);
    else
      add_values<false, kHeadDim>(v, valid, p, out);

    __syncwarp();
    if (lane == 0 && chunk + kStages * kWarps < end) ask(chunk + kStages * kWarps, slot);
    if (++slot == kStages) {
      slot = 0;
      parity ^= 1;
    }
  }

  // Warps of the block: [warp][head] of (maximum, sum, head_dim values), over the rings.
  constexpr int kPartial = kHeadDim + 2;
  __syncthreads();
  float* partial = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const float total = warp_reduce<Sum>(sum[h]) * 0.25f;  // four lanes hold the same p
    float* mine = partial + (warp * kHeads + h) * kPartial;
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
#pragma unroll
      for (int offset = kPieces; offset < 32; offset *= 2)
        out[h][i] += __shfl_xor_sync(0xffffffffu, out[h][i], offset);
      if (lane < kPieces) mine[2 + lane * kVec + i] = out[h][i];
    }
    if (lane == 0) {
      mine[0] = top[h];
      mine[1] = total;
    }
  }
  __syncthreads();

  T* to = static_cast<T*>(args.out) + (static_cast<long long>(batch) * kQHeads + q_head) * kHeadDim;
  const auto finish = [&](int at, float value, float total) {
    to[at] = from_float<T>(total > 0 ? value / total : 0);
  };

  float* block_part = partial + kWarps * kHeads * kPartial;  // [head] of this block
  [[maybe_unused]] float* part_of_split = nullptr;
  if constexpr (kSplits > 1 && !kCluster) {
    unsigned* counters = static_cast<unsigned*>(args.workspace);
    float* parts = reinterpret_cast<float*>(counters + gridDim.y * gridDim.z);
    part_of_split =
        parts + (static_cast<long long>(batch) * gridDim.y + blockIdx.y) * kSplits * kHeads * kPartial;
  }
  for (int at = threadIdx.x; at < kHeads * kHeadDim; at += kWarps * 32) {
    const int h = at / kHeadDim, d = at % kHeadDim;
    float high, total;
    const float value = merge_partials(
        kWarps, d, [&](int part, int i) { return partial[(part * kHeads + h) * kPartial + i]; }, high, total);
    if constexpr (kSplits == 1) {
      finish(at, value, total);
    } else {
      float* mine = (kCluster ? block_part : part_of_split + split * kHeads * kPartial) + h * kPartial;
      mine[2 + d] = value;
      if (d == 0) {
        mine[0] = high;
        mine[1] = total;
      }
    }
  }
  if constexpr (kSplits > 1 && kCluster) {
    cluster_barrier();
    for (int at = split * kWarps * 32 + threadIdx.x; at < kHeads * kHeadDim; at += kSplits * kWarps * 32) {
      const int h = at / kHeadDim, d = at % kHeadDim;
      float high, total;
      const float value = merge_partials(
          kSplits, d, [&](int part, int i) { return cluster_load(block_part + h * kPartial + i, part); },
          high, total);
      finish(at, value, total);
    }
    cluster_barrier();  // no block ends while another reads it
  } else if constexpr (kSplits > 1) {
    __shared__ unsigned arrived;
    __threadfence();
    __syncthreads();
    unsigned* counter = static_cast<unsigned*>(args.workspace) + batch * gridDim.y + blockIdx.y;
    if (threadIdx.x == 0) arrived = atomicAdd(counter, 1u);
    __syncthreads();
    if (arrived != kSplits - 1) return;
    __threadfence();
    if (threadIdx.x == 0) *counter = 0;  // ready for the next launch
    for (int at = threadIdx.x; at < kHeads * kHeadDim; at += kWarps * 32) {
      const int h = at / kHeadDim, d = at % kHeadDim;
      float high, total;
      const float value = merge_partials(
          kSplits, d,
          [&](int part, int i) { return __ldcg(part_of_split + (part * kHeads + h) * kPartial + i); }, high,
          total);
      finish(at, value, total);
    }
  }
}

}  // namespace warptune
