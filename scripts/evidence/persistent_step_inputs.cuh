#pragma once
// The inputs of the ops of persistent_step.cuh, from packets to shared memory. All consumer warps call.
#include "kernels/common/mma.cuh"
#include "kernels/common/rope.cuh"
#include "kernels/common/vec.cuh"
#include "scripts/evidence/persistent_step_packets.cuh"

namespace warptune::persistent {

template <class S, Mode kMode>
class Inputs {
 public:
  __device__ Inputs(const Args& args, Shared<S>& shared)
      : args_(args), s_(shared), lane_(threadIdx.x % 32), warp_(threadIdx.x / 32) {}

  /// Before the first packet.
  __device__ void begin() { first_tag_ = *args_.step * static_cast<unsigned>(args_.layers) + 1; }
  /// The tag of the packets that a layer sends.
  __device__ unsigned tag_of(int layer) const { return (first_tag_ + layer) & 0xffffu; }

  /// The residual, and the residual times the weight of the norm. `scale` becomes 1 / rms.
  __device__ const bf16* gather_normalized(const Instruction& i, int second, float& scale) {
    constexpr int kVectors = S::kHidden / 4, kPerThread = per_thread(kVectors);
    const bf16* const norm = args_.norms + (i.layer * 2 + second) * S::kHidden;
    Vec<float, 4> weight[kPerThread];
#pragma unroll
    for (int n = 0; n < kPerThread; ++n)
      if (const int v = threadIdx.x + n * kConsumerThreads; v < kVectors)
        weight[n] = to_float(load_vec<4>(norm + v * 4));
    uint4 p[kPerThread];
    const bool first = i.op == kQkv && i.layer == 0;
    if (!first)
      receive(second ? args_.exchange.middle : args_.exchange.residual, kVectors,
              tag_of(second ? i.layer : i.layer - 1), place(0x30, i), p);
    float squares = 0;
#pragma unroll
    for (int n = 0; n < kPerThread; ++n) {
      const int v = threadIdx.x + n * kConsumerThreads;
      if (v >= kVectors) continue;
      Vec<unsigned, 2> raw;
      if (first)
        raw = load_vec<2>(
            reinterpret_cast<const unsigned*>(args_.embedding + 1ll * *args_.token * S::kHidden) + v * 2);
      else
        raw = {values_of(p[n].x, p[n].y), values_of(p[n].z, p[n].w)};
      store_vec<2>(reinterpret_cast<unsigned*>(s_.residual) + v * 2, raw);
      unsigned word[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float low = __uint_as_float(raw[j] << 16), high = __uint_as_float(raw[j] & 0xffff0000u);
        squares += low * low + high * high;
        word[j] = pack2<bf16>(low * weight[n][2 * j], high * weight[n][2 * j + 1]);
      }
      store_x(s_.x[0], v, word[0], word[1]);
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) squares += __shfl_xor_sync(~0u, squares, mask);
    if (lane_ == 0) s_.squares[second][warp_] = squares;
    named_barrier_sync(1, kConsumerThreads);
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kConsumers; ++w) sum += s_.squares[second][w];
    scale = rsqrtf(sum / S::kHidden + 1e-5f);
    return s_.x[0];
  }

  /// A warp per head: the query heads of the group, key and value of the new token, with RoPE.
  __device__ void gather_heads(const Instruction& i) {
    static_assert(S::kGroup + 2 <= kConsumers);
    const int kv_head = i.first / S::kSplits;
    AttentionShared<S>& a = s_.attention;
    if (warp_ < S::kGroup + 2) {
      const int head = warp_ < S::kGroup    ? kv_head * S::kGroup + warp_
                       : warp_ == S::kGroup ? S::kQHeads + kv_head
                                            : S::kQHeads + S::kKvHeads + kv_head;
      float sine, cosine;
      sin_cos(args_.position * args_.inv_freq[lane_], sine, cosine);
      const unsigned* const from = args_.exchange.qkv + head * S::kHeadDim + lane_;
      const unsigned tag = tag_of(i.layer);
      Watchdog dog{args_.stuck, place(0x40, i)};
      unsigned p[2];
      for (;; dog.spin()) {
        p[0] = peek(from);
        p[1] = peek(from + 32);
        if (kMode == kStreamOnly || (((p[0] ^ tag) | (p[1] ^ tag)) & 0xffffu) == 0) break;
      }
      __syncwarp();
      float x = value_of(p[0]), y = value_of(p[1]);
      if (warp_ <= S::kGroup) {
        const float turned = x * cosine - y * sine;
        y = y * cosine + x * sine;
        x = turned;
      }
      bf16* const to = warp_ < S::kGroup ? a.q[warp_] : warp_ == S::kGroup ? a.k : a.v;
      to[lane_] = from_float<bf16>(x);
      to[lane_ + 32] = from_float<bf16>(y);
    }
    named_barrier_sync(1, kConsumerThreads);
  }

  /// The outputs of attention, combined over the splits.
  __device__ const bf16* gather_attention(const Instruction& i) {
    constexpr int kVectors = S::kQWidth / 4, kPerThread = per_thread(kVectors);
    const unsigned tag = tag_of(i.layer);
    unsigned long long lse[kPerThread][S::kSplits];
    uint4 p[kPerThread][S::kSplits];
    const auto load = [&](int n, int split, int v) {
      lse[n][split] = peek(args_.exchange.lse + split * S::kQHeads + v * 4 / S::kHeadDim);
      p[n][split] = peek4(args_.exchange.attention + split * S::kQWidth + v * 4);
    };
#pragma unroll
    for (int n = 0; n < kPerThread; ++n)
#pragma unroll
      for (int split = 0; split < S::kSplits; ++split)
        if (const int v = threadIdx.x + n * kConsumerThreads; v < kVectors) load(n, split, v);
#pragma unroll
    for (int n = 0; n < kPerThread; ++n) {
      const int v = threadIdx.x + n * kConsumerThreads;
      if (v >= kVectors) continue;
      float maximum = -INFINITY, sum = 0;
      Vec<float, 4> y = {};
#pragma unroll
      for (int split = 0; split < S::kSplits; ++split) {
        Watchdog dog{args_.stuck, place(0x50, i)};
        while (kMode != kStreamOnly &&
               !(static_cast<unsigned>(lse[n][split]) == tag && has_tag(p[n][split], tag))) {
          dog.spin();
          load(n, split, v);
        }
        maximum = fmaxf(maximum, __uint_as_float(static_cast<unsigned>(lse[n][split] >> 32)));
      }
#pragma unroll
      for (int split = 0; split < S::kSplits; ++split) {
        const float factor = __expf(__uint_as_float(static_cast<unsigned>(lse[n][split] >> 32)) - maximum);
        sum += factor;
        y[0] += factor * value_of(p[n][split].x), y[1] += factor * value_of(p[n][split].y);
        y[2] += factor * value_of(p[n][split].z), y[3] += factor * value_of(p[n][split].w);
      }
      const float scale = 1 / sum;
      store_x(s_.x[1], v, pack2<bf16>(y[0] * scale, y[1] * scale), pack2<bf16>(y[2] * scale, y[3] * scale));
    }
    named_barrier_sync(1, kConsumerThreads);
    return s_.x[1];
  }

  __device__ const bf16* gather_inner(const Instruction& i) {
    constexpr int kVectors = S::kInner / 4, kPerThread = per_thread(kVectors);
    uint4 p[kPerThread];
    receive(args_.exchange.inner, kVectors, tag_of(i.layer), place(0x60, i), p);
#pragma unroll
    for (int n = 0; n < kPerThread; ++n)
      if (const int v = threadIdx.x + n * kConsumerThreads; v < kVectors)
        store_x(s_.inner, v, values_of(p[n].x, p[n].y), values_of(p[n].z, p[n].w));
    named_barrier_sync(1, kConsumerThreads);
    return s_.inner;
  }

 private:
  static constexpr __device__ int per_thread(int vectors) { return ceil_div(vectors, kConsumerThreads); }

  /// Loads N vectors of four packets per thread; vectors are kConsumerThreads apart.
  template <int N>
  __device__ void receive(const unsigned* from, int vectors, unsigned tag, unsigned where, uint4 (&p)[N]) {
#pragma unroll
    for (int n = 0; n < N; ++n)
      if (const int v = threadIdx.x + n * kConsumerThreads; v < vectors) p[n] = peek4(from + v * 4);
#pragma unroll
    for (int n = 0; n < N; ++n)
      if (const int v = threadIdx.x + n * kConsumerThreads; v < vectors) {
        Watchdog dog{args_.stuck, where};
        for (; kMode != kStreamOnly && !has_tag(p[n], tag); p[n] = peek4(from + v * 4)) dog.spin();
      }
  }

  /// Stores four elements of an input, two per word. Of 32 elements, the four words that one lane of
  /// multiply() needs lie together.
  static __device__ void store_x(bf16* x, int vector, unsigned low, unsigned high) {
    const int word = vector * 2 % 16;
    unsigned* const to = reinterpret_cast<unsigned*>(x) + vector / 8 * 16 + word % 4 * 4 + word / 4;
    to[0] = low;
    to[4] = high;
  }

  const Args& args_;
  Shared<S>& s_;
  const int lane_, warp_;
  unsigned first_tag_ = 0;
};

}  // namespace warptune::persistent
