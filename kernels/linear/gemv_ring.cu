// Idea: few tokens, so time is the stream of the weights. Every warp has its own ring of stages in shared
// memory and keeps it full with bulk copies of contiguous row pieces (sm_90), far more bytes in flight than
// registers could hold. The first stages are asked for before pdl_wait(): the stream goes on while the
// kernels before this one, which only touch activations, still run. Warps share nothing but x; no barrier
// after the start.
#include "kernels/common/pdl.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/tma.cuh"
#include "kernels/common/vec.cuh"
#include "kernels/linear/args.h"

namespace warptune {

template <class T, int kTokens, int kIn, int kOut, bool kBias, int kWarps, int kRows, int kChunk, int kStages>
__global__ void __launch_bounds__(kWarps * 32) linear_gemv_ring(LinearArgs args) {
  constexpr int kVec = kVec16<T>;
  constexpr int kChunks = ceil_div(kIn, kChunk);  // per row
  constexpr int kLast = kIn - (kChunks - 1) * kChunk;
  extern __shared__ __align__(128) unsigned char shared[];
  T* ring = reinterpret_cast<T*>(shared) + (threadIdx.x / 32) * (kStages * kRows * kChunk);
  T* x = reinterpret_cast<T*>(shared) + kWarps * kStages * kRows * kChunk;  // [kTokens, kIn]
  Mbarrier* full = reinterpret_cast<Mbarrier*>(x + kTokens * kIn) + (threadIdx.x / 32) * kStages;

  const int lane = threadIdx.x % 32;
  const int groups = kOut / kRows, warps = gridDim.x * kWarps, warp = blockIdx.x * kWarps + threadIdx.x / 32;
  const int first = static_cast<int>(static_cast<long long>(groups) * warp / warps);
  const int last = static_cast<int>(static_cast<long long>(groups) * (warp + 1) / warps);
  const int steps = (last - first) * kChunks;
  const T* weight = static_cast<const T*>(args.weight) + static_cast<long long>(first) * kRows * kIn;

  int ask_group = 0, ask_chunk = 0, ask_slot = 0;  // lane 0: the next piece to ask for
  const auto ask = [&] {
    const int elements = ask_chunk == kChunks - 1 ? kLast : kChunk;
    mbarrier_arrive_expect_tx(full + ask_slot, kRows * elements * static_cast<int>(sizeof(T)));
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      bulk_copy_evict_first(
          ring + (ask_slot * kRows + r) * kChunk,
          weight + (static_cast<long long>(ask_group) * kRows + r) * kIn + ask_chunk * kChunk,
          elements * static_cast<int>(sizeof(T)), full + ask_slot);
    if (++ask_chunk == kChunks) {
      ask_chunk = 0;
      ++ask_group;
    }
    if (++ask_slot == kStages) ask_slot = 0;
  };
  if (lane == 0) {
    for (int s = 0; s < kStages; ++s) mbarrier_init(full + s);
    mbarrier_init_fence();
    for (int s = 0; s < min_of(kStages, steps); ++s) ask();
  }
  pdl_launch_dependents();
  pdl_wait();
  const T* from = static_cast<const T*>(args.x);
  for (int i = threadIdx.x; i < kTokens * kIn / kVec; i += kWarps * 32)
    store_vec<kVec>(x + i * kVec, load_vec<kVec>(from + i * kVec));
  __syncthreads();

  int slot = 0, step = 0;
  unsigned parity = 0;
  for (int group = first; group < last; ++group) {
    float sum[kTokens][kRows] = {};
    for (int chunk = 0; chunk < kChunks; ++chunk, ++step) {
      mbarrier_wait(full + slot, parity);
      const T* piece = ring + slot * kRows * kChunk;
#pragma unroll
      for (int i = 0; i < kChunk / (32 * kVec); ++i) {
        const int at = (i * 32 + lane) * kVec;
        if (kLast == kChunk || at + chunk * kChunk < kIn) {
          Vec<float, kVec> w[kRows];
#pragma unroll
          for (int r = 0; r < kRows; ++r) w[r] = to_float(load_vec<kVec>(piece + r * kChunk + at));
#pragma unroll
          for (int t = 0; t < kTokens; ++t) {
            const auto v = to_float(load_vec<kVec>(x + t * kIn + chunk * kChunk + at));
#pragma unroll
            for (int r = 0; r < kRows; ++r)
#pragma unroll
              for (int j = 0; j < kVec; ++j) sum[t][r] = fmaf(w[r][j], v[j], sum[t][r]);
          }
        }
      }
      __syncwarp();
      if (lane == 0 && step + kStages < steps) ask();
      if (++slot == kStages) {
        slot = 0;
        parity ^= 1;
      }
    }
#pragma unroll
    for (int t = 0; t < kTokens; ++t)
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        float y = warp_reduce<Sum>(sum[t][r]);
        const int o = group * kRows + r;
        if (lane == r) {
          if constexpr (kBias) y += to_float(static_cast<const T*>(args.bias)[o]);
          static_cast<T*>(args.y)[static_cast<long long>(t) * kOut + o] = from_float<T>(y);
        }
      }
  }
}

}  // namespace warptune
