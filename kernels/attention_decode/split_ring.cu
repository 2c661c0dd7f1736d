// Idea: decode attention is the stream of K and V, each byte once. The keys of a sequence are split over
// blocks, in chunks over the warps of a block; every warp keeps its own ring of them full (key_ring.cuh,
// sm_90) and runs an online softmax over them. Four lanes share a key, so that
// two shuffles finish eight scores; for P.V the lanes lie along head_dim. kHeads query heads of a GQA group
// share each chunk.
//
// Append: ring_append.cuh, merging: ring_merge.cuh. Flash-decoding: Dao et al., 2023.
#include "kernels/attention_decode/key_ring.cuh"
#include "kernels/attention_decode/ring_append.cuh"
#include "kernels/attention_decode/ring_merge.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/vec.cuh"

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

template <class P, int kHeads, int kWarps, int kKeys, int kStages, int kAhead, int kSplits, int kCombine>
__global__ void __launch_bounds__(kWarps * 32) attention_decode_split_ring(AttentionDecodeArgs args) {
  using T = typename P::T;
  using Ring = KeyRing<P, kKeys, kWarps, kStages, kAhead, kSplits>;
  using Fresh = RingAppend<P, 0, kWarps * 32, float>;
  using Merge = RingMerge<P, kWarps, kHeads, kSplits, kCombine>;
  constexpr int kHeadDim = P::kHeadDim, kVec = kVec16<T>;
  constexpr int kPieces = kHeadDim / kVec;  // 16-byte pieces of a row: 8, 16 or 32
  constexpr int kMine = kPieces / 4;        // of them, a lane's share in q . k
  constexpr int kRound = kKeys / 8;         // scores of a chunk per lane
  extern __shared__ __align__(128) unsigned char shared[];
  [[maybe_unused]] Fresh& fresh = *reinterpret_cast<Fresh*>(shared + Ring::kEnd);

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int split = blockIdx.x, batch = blockIdx.z;
  const int kv_head = blockIdx.y / (P::kGroup / kHeads);
  const int q_head = kv_head * P::kGroup + blockIdx.y % (P::kGroup / kHeads) * kHeads;
  const bool owner = split == kSplits - 1;  // of the new key
  // Neighbouring keys take their pieces in another order, so that a quarter warp touches all banks once.
  const int flip = lane / 4 % 2;
  const auto column = [&](int j) { return ((j ^ flip) * 4 + lane % 4) * kVec; };
  const auto at = [&](int h, int j) { return h * kHeadDim + column(j); };
  using Queries = QueryPieces<T, kHeads, kMine, kVec>;
  [[maybe_unused]] const typename Fresh::Weights weights(args, q_head, owner);
  [[maybe_unused]] Queries bias;
  if (P::kAppend && args.bias) bias.load(static_cast<const T*>(args.bias) + q_head * kHeadDim, at);
  Ring ring(args, batch, kv_head, split, shared);
  ring.ask_old();
  if (ring.lets_in_at_once()) pdl_launch_dependents();
  if constexpr (P::kAppend) fresh.rotate(ring.share.length - 1, weights);
  pdl_wait();
  const int length = ring.share.length;
  const Output<P> output(args, batch, q_head);
  if (length == 0) {
    if (split == 0) output.template put_nothing<kHeads, kWarps * 32>();
    return;
  }
  ring.ask_new();
  Queries queries;
  queries.load(query_row<P>(args, batch, q_head), at);
  if constexpr (P::kAppend) {
    fresh.template take<true>(args, ring.cache, batch, q_head, length - 1, weights, owner,
                              owner && q_head % P::kGroup == 0);
  }

  float q[kHeads][kMine][kVec];
  const float scale = args.scale * kLog2e;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    Vec<float, kVec> x[kMine];
#pragma unroll
    for (int j = 0; j < kMine; ++j) x[j] = to_float(queries.x[h][j]);
    if constexpr (P::kAppend) fresh.turn(x, bias.x[h], column);
#pragma unroll
    for (int j = 0; j < kMine; ++j)
#pragma unroll
      for (int i = 0; i < kVec; ++i) q[h][j][i] = x[j][i] * scale;
  }

  float top[kHeads], sum[kHeads], out[kHeads][kVec];  // running maximum, this lane's sum of p, P.V
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    top[h] = -WARPTUNE_INFINITY;
    sum[h] = 0;
#pragma unroll
    for (int i = 0; i < kVec; ++i) out[h][i] = 0;
  }

  const long long first_row = static_cast<long long>(batch) * P::kQHeads + q_head;
  unsigned drawn = 0;
  if (ring.holds_all()) drawn = Merge::draw(args, first_row);
  for (int chunk = ring.share.first; chunk < ring.share.end; chunk += kWarps) {
    ring.wait();
    const int valid = ring.share.valid(chunk), cached = ring.share.cached(chunk);
    if constexpr (P::kAppend)
      if (cached < valid) fresh.put(ring.keys() + cached * kHeadDim, ring.values() + cached * kHeadDim);
    const T* k = ring.keys();
    const T* v = ring.values();

    float p[kHeads][kRound];
#pragma unroll
    for (int r = 0; r < kRound; ++r) {
      const int key = r * 8 + lane / 4;
#pragma unroll
      for (int h = 0; h < kHeads; ++h) p[h][r] = 0;
#pragma unroll
      for (int j = 0; j < kMine; ++j) {
        const auto x = to_float(load_vec<kVec>(k + key * kHeadDim + column(j)));
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

    if (ring.next(chunk)) drawn = Merge::draw(args, first_row);
    if (ring.lets_in_behind(chunk)) pdl_launch_dependents();
  }

  __syncthreads();  // nobody reads the rings any more
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
  merge.finish(args, first_row, split, output, drawn);
}

}  // namespace warptune
