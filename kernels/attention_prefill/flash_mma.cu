// Idea: tensor cores and online softmax. A block takes kTileM queries of one head and walks over key tiles of
// kTileN from the last visible one down, so that the few tiles that need a mask come first and the rest run
// without. K and V tiles come by cp.async into XOR-swizzled shared memory, kStages deep (with one stage, V is
// fetched under Q.K and the next K under P.V). Each warp owns 16 or 32 queries: scores, probabilities and the
// output stay in its registers (the accumulator layout of Q.K is the A layout of P.V), rows are reduced by
// butterflies over the four lanes that share them; the fragments of Q too stay there with kHoldQ. Few queries
// over many keys: kSplits blocks share the keys, and another kernel merges what they leave; kPack query heads
// that see the same keys are rows of one tile. Fragment layouts: common/mma.cuh.
#include "kernels/attention_prefill/partials.cuh"
#include "kernels/attention_prefill/score_tile.cuh"
#include "kernels/attention_prefill/sequence.cuh"
#include "kernels/attention_prefill/swizzled_tile.cuh"
#include "kernels/common/cp_async.cuh"
#include "kernels/common/mma.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/softmax.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

/// s = q . k^T for the 16 * kRowTiles queries of a warp and kTileN keys.
template <class T, int kHeadDim, int kTileN, int kRowTiles, bool kHold, int kHeld>
__device__ __forceinline__ void multiply_keys(float (&s)[kRowTiles][kTileN / 8][4],
                                              const unsigned (&held)[kRowTiles][kHeld][4], unsigned q,
                                              unsigned k) {
  using Tile = SwizzledTile<T, kHeadDim>;
  const int lane = threadIdx.x % 32;
  const typename Tile::Reader queries(q, lane % 16, lane / 16),
      keys(k, lane / 16 * 8 + lane % 8, lane / 8 % 2);
#pragma unroll
  for (int mt = 0; mt < kRowTiles; ++mt)
#pragma unroll
    for (int nt = 0; nt < kTileN / 8; ++nt)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[mt][nt][i] = 0;
#pragma unroll
  for (int kk = 0; kk < kHeadDim / 16; ++kk) {
    unsigned a[kRowTiles][4];
#pragma unroll
    for (int mt = 0; mt < kRowTiles; ++mt) {
      if constexpr (kHold) {
#pragma unroll
        for (int i = 0; i < 4; ++i) a[mt][i] = held[mt][kk][i];
      } else {
        ldmatrix_x4(a[mt], queries.at(kk * 2, mt * 16));
      }
    }
#pragma unroll
    for (int np = 0; np < kTileN / 16; ++np) {
      unsigned b[4];  // keys 0-7: b[0], b[1]; keys 8-15: b[2], b[3]
      ldmatrix_x4(b, keys.at(kk * 2, np * 16));
#pragma unroll
      for (int mt = 0; mt < kRowTiles; ++mt) {
        mma_m16n8k16<T>(s[mt][2 * np], a[mt], b[0], b[1]);
        mma_m16n8k16<T>(s[mt][2 * np + 1], a[mt], b[2], b[3]);
      }
    }
  }
}

/// o += p . v, where the scores registers hold p.
template <class T, int kHeadDim, int kTileN, int kRowTiles>
__device__ __forceinline__ void multiply_values(float (&o)[kRowTiles][kHeadDim / 8][4],
                                                const float (&p)[kRowTiles][kTileN / 8][4], unsigned v) {
  using Tile = SwizzledTile<T, kHeadDim>;
  const int lane = threadIdx.x % 32;
  const typename Tile::Reader values(v, lane % 16, lane / 16);
#pragma unroll
  for (int kt = 0; kt < kTileN / 16; ++kt) {
    unsigned a[kRowTiles][4];
#pragma unroll
    for (int mt = 0; mt < kRowTiles; ++mt) {
      a[mt][0] = pack2<T>(p[mt][2 * kt][0], p[mt][2 * kt][1]);
      a[mt][1] = pack2<T>(p[mt][2 * kt][2], p[mt][2 * kt][3]);
      a[mt][2] = pack2<T>(p[mt][2 * kt + 1][0], p[mt][2 * kt + 1][1]);
      a[mt][3] = pack2<T>(p[mt][2 * kt + 1][2], p[mt][2 * kt + 1][3]);
    }
#pragma unroll
    for (int dp = 0; dp < kHeadDim / 16; ++dp) {
      unsigned b[4];  // elements 0-7 of the 16: b[0], b[1]; elements 8-15: b[2], b[3]
      ldmatrix_x4_trans(b, values.at(dp * 2, kt * 16));
#pragma unroll
      for (int mt = 0; mt < kRowTiles; ++mt) {
        mma_m16n8k16<T>(o[mt][2 * dp], a[mt], b[0], b[1]);
        mma_m16n8k16<T>(o[mt][2 * dp + 1], a[mt], b[2], b[3]);
      }
    }
  }
}

template <class T, class S, int kTileM, int kTileN, int kWarps, int kStages, bool kHoldQ, bool kHeadFirst,
          int kSplits, int kPack>
__global__ void __launch_bounds__(kWarps * 32, 1) attention_prefill_flash_mma(AttentionPrefillArgs args) {
  constexpr int kHeadDim = S::kHeadDim, kHeadDimV = S::kHeadDimV;
  using Tile = SwizzledTile<T, kHeadDim>;
  using ValueTile = SwizzledTile<T, kHeadDimV>;
  constexpr int kThreads = kWarps * 32, kRowTiles = kTileM / kWarps / 16, kKeyTiles = kTileN / 8;
  constexpr int kHeld = kHoldQ ? kHeadDim / 16 : 1;
  static_assert(kHeadDim % 16 == 0 && kHeadDimV % 16 == 0);
  static_assert(kTileM % (kWarps * 16) == 0 && kTileN % 16 == 0);
  extern __shared__ __align__(128) unsigned char shared[];
  T* const q_tile = reinterpret_cast<T*>(shared);  // in the end the output
  T* const k_tiles = q_tile + kTileM * max_of(kHeadDim, kHeadDimV);
  T* const v_tiles = k_tiles + kStages * kTileN * kHeadDim;

  pdl_wait();
  constexpr int kHeads = S::kQHeads / kPack;
  const int tiles_m = gridDim.x / kHeads;
  const int head = (kHeadFirst ? blockIdx.x % kHeads : blockIdx.x / tiles_m) * kPack;  // the first one
  const int nth = kHeadFirst ? blockIdx.x / kHeads : blockIdx.x % tiles_m;
  const int first_row = (S::kCausal != 0 ? tiles_m - 1 - nth : nth) * kTileM;  // causal: the longest first
  const Sequence sequence = load_sequence(args, blockIdx.y);
  const int all_rows = sequence.q_len * kPack;  // row i is head i % kPack of query i / kPack
  if constexpr (S::kLse && kPack == 1)
    if (blockIdx.z == 0) pad_lse<S, kThreads>(args, sequence, blockIdx.y, head, first_row, kTileM);
  if constexpr (S::kLse && kPack > 1)
    if (blockIdx.z == 0 && first_row == 0)
      for (int i = 0; i < kPack; ++i)
        pad_lse<S, kThreads>(args, sequence, blockIdx.y, head + i, 0, args.q_len);
  if (first_row >= all_rows) return;

  const int rows = min(kTileM, all_rows - first_row);
  const int first_query = first_row / kPack, last_query = (first_row + rows - 1) / kPack;
  const KeyRows<T, S, kHeadDim> keys(args, args.k_cache, blockIdx.y, head);
  const KeyRows<T, S, kHeadDimV> values(args, args.v_cache, blockIdx.y, head);
  const ScoreBias<T, S> bias(args, sequence, head);
  const Dropout<S> dropout(args, blockIdx.y, head);
  const int visible_most = max(0, visible_keys<S::kCausal>(sequence, last_query));
  const int visible_least = max(0, visible_keys<S::kCausal>(sequence, first_query));
  int begin = first_visible<S>(args, sequence, first_query) / kTileN, end = ceil_div(visible_most, kTileN);
  if constexpr (kSplits > 1) {
    const int share = ceil_div(end - begin, kSplits);
    begin = min(end, begin + static_cast<int>(blockIdx.z) * share);
    end = min(end, begin + share);
  }
  const int tiles = end - begin;
  // The last keys need a mask, and the first that a window shows: tiles [masked, clear) of the walk need
  // none.
  const int masked = min(tiles, end - visible_least / kTileN);
  int clear = tiles;
  if constexpr (S::kWindow) {
    const int hidden_most = first_visible<S>(args, sequence, last_query);
    clear = max(masked, min(tiles, end - ceil_div(hidden_most, kTileN)));
  }

  // The nth tile of the walk, from the last keys down: all but the first are full.
  const auto fetch_keys = [&](int nth_tile, int stage, bool is_full) __attribute__((always_inline)) {
    const int first_key = (end - 1 - nth_tile) * kTileN;
    Tile::template fetch_keys<kTileN, kThreads>(k_tiles + stage * kTileN * kHeadDim, keys, first_key,
                                                is_full ? first_key + kTileN : sequence.kv_len);
  };
  const auto fetch_values = [&](int nth_tile, int stage, bool is_full) __attribute__((always_inline)) {
    const int first_key = (end - 1 - nth_tile) * kTileN;
    ValueTile::template fetch_keys<kTileN, kThreads>(v_tiles + stage * kTileN * kHeadDimV, values, first_key,
                                                     is_full ? first_key + kTileN : sequence.kv_len);
  };

  // One group for q, then kStages - 1 groups of a K and a V tile (one K tile for a single stage).
  constexpr int kAhead = kStages == 1 ? 1 : kStages - 1;
  const T* q = static_cast<const T*>(args.q) + sequence.first * args.q_stride + head * kHeadDim;
  Tile::template fetch<kTileM, kThreads>(
      q_tile,
      [&](int row) {
        row += first_row;
        return q + row / kPack * args.q_stride + row % kPack * kHeadDim;
      },
      rows);
  cp_async_commit();
  for (int stage = 0; stage < kAhead; ++stage) {
    if (stage < tiles) {
      fetch_keys(stage, stage, false);
      if constexpr (kStages > 1) fetch_values(stage, stage, false);
    }
    cp_async_commit();
  }
  cp_async_wait<kAhead>();
  __syncthreads();

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  T* const q_rows = q_tile + warp * kRowTiles * 16 * kHeadDim;  // of this warp
  unsigned held[kRowTiles][kHeld][4];
  if constexpr (kHoldQ) {
#pragma unroll
    for (int mt = 0; mt < kRowTiles; ++mt)
#pragma unroll
      for (int kk = 0; kk < kHeld; ++kk)
        ldmatrix_x4(held[mt][kk], Tile::at(q_rows, mt * 16 + lane % 16, kk * 2 + lane / 16));
  }

  const unsigned q_address = shared_address(q_rows), k_address = shared_address(k_tiles),
                 v_address = shared_address(v_tiles);
  float o[kRowTiles][kHeadDimV / 8][4] = {};
  // Of rows lane / 4 and lane / 4 + 8: maxima in units of log2(e); sums of this lane.
  float row_max[kRowTiles][2], row_sum[kRowTiles][2];
#pragma unroll
  for (int mt = 0; mt < kRowTiles; ++mt)
#pragma unroll
    for (int r = 0; r < 2; ++r) row_max[mt][r] = -WARPTUNE_INFINITY, row_sum[mt][r] = 0;
  const float to_log2 = args.scale * kLog2e;
  const float scale = S::kBias ? 1.0f : to_log2;  // what is left of it where a bias comes in between
  const int my_row = first_row + warp * kRowTiles * 16 + lane / 4;

  const auto attend = [&](int tile, bool is_masked) __attribute__((always_inline)) {
    const int stage = kStages == 1 ? 0 : tile % kStages;
    float s[kRowTiles][kKeyTiles][4];
    if constexpr (kStages == 1) {
      cp_async_wait<0>();  // K of this tile
      __syncthreads();     // and nobody reads the last V any more
      fetch_values(tile, 0, !is_masked);
      cp_async_commit();
    } else {
      cp_async_wait<kStages - 2>();  // K and V of this tile
      __syncthreads();               // and nobody reads the stage that is filled next
      if (tile + kStages - 1 < tiles) {
        fetch_keys(tile + kStages - 1, (tile + kStages - 1) % kStages, true);
        fetch_values(tile + kStages - 1, (tile + kStages - 1) % kStages, true);
      }
      cp_async_commit();
    }
    multiply_keys<T, kHeadDim, kTileN, kRowTiles, kHoldQ, kHeld>(
        s, held, q_address, k_address + stage * kTileN * Tile::kRowBytes);
    if constexpr (kStages == 1) {
      cp_async_wait<0>();  // V of this tile
      __syncthreads();     // and nobody reads K any more
      if (tile + 1 < tiles) fetch_keys(tile + 1, 0, true);
      cp_async_commit();
    }

    const int first_key = (end - 1 - tile) * kTileN, my_key = first_key + lane % 4 * 2;
    if constexpr (S::kBias) add_bias(s, bias, to_log2, my_row, my_key);
    if (is_masked) hide_keys<S, kPack>(s, args, sequence, my_row, my_key);

    float shrink[kRowTiles][2];
#pragma unroll
    for (int mt = 0; mt < kRowTiles; ++mt)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float most = -WARPTUNE_INFINITY;
#pragma unroll
        for (int nt = 0; nt < kKeyTiles; ++nt)
          most = fmaxf(most, fmaxf(s[mt][nt][2 * r], s[mt][nt][2 * r + 1]));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
        const float offset = raise_max(row_max[mt][r], most * scale, shrink[mt][r]);
        float sum[2] = {row_sum[mt][r] * shrink[mt][r], 0};
#pragma unroll
        for (int nt = 0; nt < kKeyTiles; ++nt)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float& x = s[mt][nt][2 * r + i];
            x = exp2_fast(fmaf(x, scale, -offset));
            sum[i] += x;
          }
        row_sum[mt][r] = sum[0] + sum[1];
      }
    rescale<(kRowTiles * kHeadDimV >= 4 * kTileN)>(o, shrink);
    if constexpr (S::kDropout) drop_weights(s, dropout, my_row, my_key);
    multiply_values<T, kHeadDimV, kTileN, kRowTiles>(o, s, v_address + stage * kTileN * ValueTile::kRowBytes);
  };
  int tile = 0;
  for (; tile < masked; ++tile) attend(tile, true);
  for (; tile < clear; ++tile) attend(tile, false);
  if constexpr (S::kWindow)
    for (; tile < tiles; ++tile) attend(tile, true);

  // The tile of q takes the output, so that it leaves in 16-byte pieces: rows of a warp are its own as long
  // as those of q and of the output have one length.
  if constexpr (kHeadDim == kHeadDimV || kSplits > 1)
    __syncwarp();
  else
    __syncthreads();
  T* const out_rows = q_tile + warp * kRowTiles * 16 * kHeadDimV;
#pragma unroll
  for (int mt = 0; mt < kRowTiles; ++mt)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = row_sum[mt][r];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      const int row = my_row + mt * 16 + r * 8;
      if constexpr (kSplits > 1) {
        if (row >= all_rows) continue;
        const Partials<S, kSplits> partials(args);
        const long long index = partials.index(blockIdx.z, sequence.first + row / kPack, head + row % kPack);
        if (lane % 4 == 0) partials.states[index] = make_float2(row_max[mt][r], sum);
        float* const to = partials.rows + index * kHeadDimV + lane % 4 * 2;
#pragma unroll
        for (int dt = 0; dt < kHeadDimV / 8; ++dt)
          *reinterpret_cast<float2*>(to + dt * 8) = make_float2(o[mt][dt][2 * r], o[mt][dt][2 * r + 1]);
      } else {
        if constexpr (S::kLse)
          if (lane % 4 == 0 && row < all_rows)
            lse_rows<S>(args, blockIdx.y, head + row % kPack)[row / kPack] = lse_of(row_max[mt][r], sum);
        const float inverse = normalizer<S>(args, sum);
#pragma unroll
        for (int dt = 0; dt < kHeadDimV / 8; ++dt) {
          T* to = ValueTile::at(out_rows, mt * 16 + r * 8 + lane / 4, dt) + lane % 4 * 2;
          *reinterpret_cast<unsigned*>(to) =
              pack2<T>(o[mt][dt][2 * r] * inverse, o[mt][dt][2 * r + 1] * inverse);
        }
      }
    }
  if constexpr (kSplits == 1) {
    __syncwarp();
    constexpr long long kOutStride = static_cast<long long>(S::kQHeads) * kHeadDimV;
    T* const out = static_cast<T*>(args.out) + sequence.first * kOutStride + head * kHeadDimV;
    for (int piece = lane; piece < kRowTiles * 16 * ValueTile::kChunks; piece += 32) {
      const int row = piece / ValueTile::kChunks, chunk = piece % ValueTile::kChunks;
      const int to = first_row + warp * kRowTiles * 16 + row;
      if (to < all_rows)
        store_vec<8>(out + to / kPack * kOutStride + to % kPack * kHeadDimV + chunk * 8,
                     load_vec<8>(ValueTile::at(out_rows, row, chunk)));
    }
  }
}

}  // namespace warptune
