// Idea: split_ring for groups of query heads: the products go to the tensor cores, so that up to 16 heads of
// a group share every byte of K and V at the price of one. Rings, early copies and append are those of
// split_ring.cu; the merge is ring_merge.cuh.
//
// S = Q.K^T has the heads as rows (m16), 8 keys as columns (n8); O^T = V^T.P^T has 16 elements of head_dim as
// rows and 8 heads as columns, so that the scores of a lane become its B fragment of P^T without moving.
// K and V rows are read with plain 16-byte loads: the order of the summed index is free in a product, so a
// lane takes 8 neighbouring elements of a K row as the fragments of two steps; and pairs of V rows are
// interleaved in registers. The keys of a chunk are copied in four parts, each 32 bytes further into the
// banks than the one before, and columns are dealt over the parts so that a quarter warp touches all banks
// once (Part). Fragment layouts: common/mma.cuh.
#include "attention_decode/cache.cuh"
#include "attention_decode/ring_append.cuh"
#include "attention_decode/ring_merge.cuh"
#include "common/bulk_copy.cuh"
#include "common/mma.cuh"
#include "common/pdl.cuh"

namespace warptune {

/// A chunk of kKeys rows of K or of V in shared memory, in four parts of kKeys / 4 rows. Column c of the
/// n-tile nt (8 keys) is row 2 * nt + c % 2 of part c / 2 (c even) or c / 2 + 2 (c odd).
template <int kHeadDim, int kKeys>
struct RingTile {
  static constexpr int kRowBytes = kHeadDim * 2;
  static constexpr int kPartKeys = kKeys / 4;
  static constexpr int kPartBytes = kPartKeys * kRowBytes + 32;
  static constexpr int kBytes = 4 * kPartBytes;

  static __device__ __forceinline__ int part_of(int column) { return (column / 2 + column % 2 * 2) % 4; }
  /// Where the row of a column of n-tile 0 begins; n-tile nt is 2 * kRowBytes * nt further.
  static __device__ __forceinline__ int row_of(int column) {
    return part_of(column) * kPartBytes + column % 2 * kRowBytes;
  }
  /// The key of a column within its chunk.
  static __device__ __forceinline__ int key_of(int nt, int column) {
    return part_of(column) * kPartKeys + 2 * nt + column % 2;
  }
};

/// The low and the high halves of two registers of 16-bit pairs.
__device__ __forceinline__ unsigned low_halves(unsigned a, unsigned b) { return __byte_perm(a, b, 0x5410); }
__device__ __forceinline__ unsigned high_halves(unsigned a, unsigned b) { return __byte_perm(a, b, 0x7632); }

template <class T, int kHeadDim, int kQHeads, int kKvHeads, bool kAppend, int kWarps, int kKeys, int kStages,
          int kSplits, bool kTurns, bool kCluster>
__global__ void __launch_bounds__(kWarps * 32) attention_decode_mma_ring(AttentionDecodeArgs args) {
  using Tile = RingTile<kHeadDim, kKeys>;
  constexpr int kGroup = kQHeads / kKvHeads, kHalves = ceil_div(kGroup, 8);  // of the 16 rows of a product
  constexpr int kSteps = kHeadDim / 32, kColumns = kHeadDim / 64, kSlot = 2 * Tile::kBytes;
  constexpr int kBarriers = kWarps * kStages * kSlot;
  // Behind the rings and their barriers: the tile of the new key, and the new rows.
  constexpr int kAppendOffset = kBarriers + ceil_div(kWarps * kStages * 8, 16) * 16;
  static_assert(kGroup <= 16 && kHeadDim % 64 == 0 && kKeys % 16 == 0);
  extern __shared__ __align__(128) unsigned char shared[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  unsigned char* ring = shared + warp * kStages * kSlot;
  BulkBarrier* full = reinterpret_cast<BulkBarrier*>(shared + kBarriers) + warp * kStages;

  const int split = blockIdx.x, kv_head = blockIdx.y, batch = blockIdx.z;
  const int length = args.lengths[batch];
  const int cached = kAppend ? max_of(0, length - 1) : length;
  const int cached_chunks = ceil_div(cached, kKeys);
  const int chunks = cached_chunks + (kAppend && length > 0);
  const int old_chunks = kAppend ? cached_chunks : chunks - 1;  // written before this step
  constexpr int kStep = kTurns ? kSplits * kWarps : kWarps;     // from one chunk of a warp to the next
  const int first =
      warp + (kTurns ? split * kWarps : static_cast<int>(static_cast<long long>(chunks) * split / kSplits));
  const int end = kTurns ? chunks : static_cast<int>(static_cast<long long>(chunks) * (split + 1) / kSplits);
  const HeadCache<T, kHeadDim, false> cache(args, static_cast<long long>(batch) * kKvHeads + kv_head);

  // Lanes 0 to 3 ask for the parts of K, lanes 4 to 7 for those of V.
  const auto ask = [&](int chunk, int slot) {
    const int here = min_of(kKeys, cached - chunk * kKeys);
    if (lane == 0) bulk_expect(full + slot, 2 * here * Tile::kRowBytes);
    const int part = lane % 4, rows = min_of(Tile::kPartKeys, here - part * Tile::kPartKeys);
    if (lane < 8 && rows > 0) {
      const int key = chunk * kKeys + part * Tile::kPartKeys;
      bulk_copy_once(ring + slot * kSlot + lane / 4 * Tile::kBytes + part * Tile::kPartBytes,
                     lane < 4 ? cache.k_at(key, 0) : cache.v_at(key, 0), rows * Tile::kRowBytes, full + slot);
    }
  };
  if (lane == 0) {
    for (int s = 0; s < kStages; ++s) bulk_barrier_init(full + s);
    bulk_barriers_ready();
  }
  __syncwarp();
  for (int s = 0; s < kStages; ++s)
    if (first + s * kStep < min_of(end, old_chunks)) ask(first + s * kStep, s);
  using Fresh = RingAppend<kGroup, kHeadDim>;
  unsigned char* const new_tile = shared + kAppendOffset;
  [[maybe_unused]] Fresh& fresh = *reinterpret_cast<Fresh*>(new_tile + kSlot);
  if constexpr (kAppend) fresh.rotate_to(args, length - 1);
  pdl_launch_next();
  pdl_wait();
  if constexpr (!kAppend)
    for (int s = 0; s < kStages; ++s)
      if (first + s * kStep < end && first + s * kStep == chunks - 1) ask(chunks - 1, s);

  if constexpr (kAppend) {
    __syncthreads();
    if (length > 0) {
      const bool owner = split == kSplits - 1;
      fresh.template take<T, kQHeads, kKvHeads, kWarps * 32>(
          args, batch, kv_head * kGroup, reinterpret_cast<T*>(new_tile),
          reinterpret_cast<T*>(new_tile + Tile::kBytes), owner ? cache.k_at(length - 1, 0) : nullptr,
          owner ? cache.v_at(length - 1, 0) : nullptr);
    }
    __syncthreads();
  }

  // Step s of the pair (2s, 2s + 1) takes elements 32 s + 8 t to + 7 of rows g and g + 8.
  unsigned q[kSteps][2][4] = {};
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    const int head = g + 8 * half;
    if (head >= kGroup) continue;
    const T* row = static_cast<const T*>(args.q) +
                   (static_cast<long long>(batch) * kQHeads + kv_head * kGroup + head) * kHeadDim;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      Vec<T, 8> x{};
      if constexpr (kAppend) {
        if (length > 0) x = from_float<T>(load_vec<8>(fresh.q[head] + s * 32 + t * 8));
      } else {
        x = load_vec<8>(row + s * 32 + t * 8);
      }
      const unsigned* words = reinterpret_cast<const unsigned*>(&x);
#pragma unroll
      for (int i = 0; i < 4; ++i) q[s][i / 2][i % 2 * 2 + half] = words[i];
    }
  }

  float top[kHalves], sum[kHalves];  // of heads g and g + 8; sums: this lane's columns
  float out[kHalves][kHeadDim / 16][4] = {};
#pragma unroll
  for (int half = 0; half < kHalves; ++half) top[half] = -WARPTUNE_INFINITY, sum[half] = 0;
  const float scale = args.scale * kLog2e;
  const int k_lane = Tile::row_of(g) + t * 16;
  const int v_even = Tile::row_of(2 * t) + g * 16, v_odd = Tile::row_of(2 * t + 1) + g * 16;

  int slot = 0;
  unsigned parity = 0;
  for (int chunk = first; chunk < end; chunk += kStep) {
    const bool is_new = kAppend && chunk == cached_chunks;
    if (!is_new) bulk_wait(full + slot, parity);
    unsigned char* const k = is_new ? new_tile : ring + slot * kSlot;
    unsigned char* const v = k + Tile::kBytes;
    const int valid = is_new ? 1 : min_of(kKeys, cached - chunk * kKeys);
    if (valid < kKeys) {  // rows that were not copied hold anything, and 0 times anything may be NaN
      for (int at = lane; at < (kKeys - valid) * (kHeadDim / 8); at += 32) {
        const int key = valid + at / (kHeadDim / 8);
        *reinterpret_cast<uint4*>(v + key / Tile::kPartKeys * Tile::kPartBytes +
                                  key % Tile::kPartKeys * Tile::kRowBytes + at % (kHeadDim / 8) * 16) = {};
      }
      __syncwarp();
    }

    float p[kKeys / 8][4] = {};
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
#pragma unroll
      for (int nt = 0; nt < kKeys / 8; ++nt) {
        const uint4 x = *reinterpret_cast<const uint4*>(k + k_lane + nt * 2 * Tile::kRowBytes + s * 64);
        mma_m16n8k16<T>(p[nt], q[s][0], x.x, x.y);
        mma_m16n8k16<T>(p[nt], q[s][1], x.z, x.w);
      }
    if (valid < kKeys) {
#pragma unroll
      for (int nt = 0; nt < kKeys / 8; ++nt)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (Tile::key_of(nt, 2 * t + i % 2) >= valid) p[nt][i] = -WARPTUNE_INFINITY;
    }

#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      float high = top[half];
#pragma unroll
      for (int nt = 0; nt < kKeys / 8; ++nt) high = fmaxf(high, fmaxf(p[nt][2 * half], p[nt][2 * half + 1]));
      high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 1));
      high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 2));
      if (__any_sync(0xffffffffu, high > top[half])) {
        const float shrink = exp2_fast((top[half] - high) * scale);
        sum[half] *= shrink;
        top[half] = high;
        const float even = __shfl_sync(0xffffffffu, shrink, 8 * t),
                    odd = __shfl_sync(0xffffffffu, shrink, 8 * t + 4);
#pragma unroll
        for (int m = 0; m < kHeadDim / 16; ++m)
#pragma unroll
          for (int i = 0; i < 4; ++i) out[half][m][i] *= i % 2 ? odd : even;
      }
      const float offset = high * scale;
#pragma unroll
      for (int nt = 0; nt < kKeys / 8; ++nt)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& x = p[nt][2 * half + i];
          sum[half] += x = exp2_fast(fmaf(x, scale, -offset));
        }
    }

#pragma unroll
    for (int pair = 0; pair < kKeys / 16; ++pair) {
      unsigned weights[kHalves][2];
#pragma unroll
      for (int half = 0; half < kHalves; ++half)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          weights[half][i] = pack2<T>(p[2 * pair + i][2 * half], p[2 * pair + i][2 * half + 1]);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        uint4 rows[4];  // of columns 2t and 2t + 1 of both n-tiles
#pragma unroll
        for (int i = 0; i < 4; ++i)
          rows[i] = *reinterpret_cast<const uint4*>(v + (i % 2 ? v_odd : v_even) +
                                                    (2 * pair + i / 2) * 2 * Tile::kRowBytes + c * 128);
        const auto multiply = [&](int m, unsigned a, unsigned b, unsigned c2, unsigned d) {
          const unsigned fragment[4] = {low_halves(a, b), high_halves(a, b), low_halves(c2, d),
                                        high_halves(c2, d)};
#pragma unroll
          for (int half = 0; half < kHalves; ++half)
            mma_m16n8k16<T>(out[half][m], fragment, weights[half][0], weights[half][1]);
        };
        multiply(4 * c + 0, rows[0].x, rows[1].x, rows[2].x, rows[3].x);
        multiply(4 * c + 1, rows[0].y, rows[1].y, rows[2].y, rows[3].y);
        multiply(4 * c + 2, rows[0].z, rows[1].z, rows[2].z, rows[3].z);
        multiply(4 * c + 3, rows[0].w, rows[1].w, rows[2].w, rows[3].w);
      }
    }

    __syncwarp();
    if (chunk + kStages * kStep < min_of(end, cached_chunks)) ask(chunk + kStages * kStep, slot);
    if (++slot == kStages) {
      slot = 0;
      parity ^= 1;
    }
  }

  __syncthreads();  // nobody reads the rings any more
  const long long first_row = static_cast<long long>(batch) * kQHeads + kv_head * kGroup;
  T* to = static_cast<T*>(args.out) + first_row * kHeadDim;
  if (length == 0) {
    if (split == 0) store_zeros<T, kGroup, kHeadDim, kWarps * 32>(to);
    return;
  }
  using Merge = RingMerge<kWarps, kGroup, kHeadDim, kSplits>;
  Merge& merge = *reinterpret_cast<Merge*>(shared);
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    float total = sum[half];
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    total += __shfl_xor_sync(0xffffffffu, total, 2);
    if (t == 0 && g + 8 * half < kGroup)
      merge.warps.states[warp][g + 8 * half] = {fmaxf(top[half] * scale, kNoScore), total};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int head = 8 * half + 2 * t + i;
      if (head >= kGroup) continue;
#pragma unroll
      for (int m = 0; m < kHeadDim / 16; ++m)
        *reinterpret_cast<float2*>(&merge.warps.rows[warp][head][m / 4 * 64 + g * 8 + m % 4 * 2]) = {
            out[half][m][i], out[half][m][2 + i]};
    }
  }
  __syncthreads();
  merge.template finish<T, kQHeads, kCluster>(args, first_row, to);
}

}  // namespace warptune
