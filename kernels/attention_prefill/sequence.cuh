#pragma once
// What the kernels of attention_prefill share: what is fixed for a problem, which keys a query sees and where
// they are, what is added to scores, what dropout drops. What does not apply costs nothing.
#include "kernels/attention_prefill/args.h"
#include "kernels/common/numeric.cuh"
#include "kernels/common/philox.cuh"
#include "kernels/common/softmax.cuh"

namespace warptune {

/// The dims of a problem that kernels are compiled for; `window`, `dropout`: whether there is any.
template <int q_heads, int kv_heads, int head_dim, int head_dim_v, int causal, bool window, int score_bias,
          bool dropout, bool packed, int page_size, bool lse>
struct Shape {
  static constexpr int kQHeads = q_heads, kKvHeads = kv_heads, kHeadDim = head_dim, kHeadDimV = head_dim_v,
                       kCausal = causal, kPageSize = page_size;
  static constexpr bool kWindow = window, kAdditive = score_bias == 1, kAlibi = score_bias == 2,
                        kBias = kAdditive || kAlibi, kDropout = dropout, kPacked = packed, kLse = lse;
};

struct Sequence {
  int first;   // its first row of q
  int q_len;   // its queries
  int kv_len;  // its keys
};

__device__ __forceinline__ Sequence load_sequence(const AttentionPrefillArgs& args, int b) {
  const int first = args.cu_seqlens[b];
  return {first, args.cu_seqlens[b + 1] - first, args.kv_lens[b]};
}

/// Where query i stands among the keys. kCausal: 2 is top left.
template <int kCausal>
__device__ __forceinline__ int position_of(const Sequence& s, int i) {
  return kCausal == 2 ? i : i + s.kv_len - s.q_len;
}

/// Query i sees the keys below this one; 0 and below: none. Not above kv_len.
template <int kCausal>
__device__ __forceinline__ int visible_keys(const Sequence& s, int i) {
  return kCausal != 0 ? min(s.kv_len, position_of<kCausal>(s, i) + 1) : s.kv_len;
}

/// The first key that query i sees.
template <class S>
__device__ __forceinline__ int first_visible(const AttentionPrefillArgs& args, const Sequence& s, int i) {
  return S::kWindow ? max(0, visible_keys<S::kCausal>(s, i) - args.window) : 0;
}

/// The K (or V) rows, of kDim elements, that a query head of sequence b sees.
template <class T, class S, int kDim>
struct KeyRows {
  static constexpr long long kStride = S::kPacked ? S::kKvHeads * kDim : kDim;
  /// Whether kRows neighbouring rows, from a multiple of kRows on, lie kStride apart.
  template <int kRows>
  static constexpr bool kTogether = S::kPageSize % kRows == 0;

  const T* base;
  const int* pages;

  __device__ __forceinline__ KeyRows(const AttentionPrefillArgs& args, const void* cache, long long b,
                                     int head)
      : base(static_cast<const T*>(cache)), pages(nullptr) {
    const int kv_head = head / (S::kQHeads / S::kKvHeads);
    if constexpr (S::kPageSize > 0) {
      pages = args.block_table + b * args.max_pages;
      base += static_cast<long long>(kv_head) * S::kPageSize * kDim;
    } else if constexpr (S::kPacked) {
      base += (static_cast<long long>(args.seqstart_k[b]) * S::kKvHeads + kv_head) * kDim;
    } else {
      base += (b * S::kKvHeads + kv_head) * args.capacity * kDim;
    }
  }
  /// A key that the sequence has: others have no page.
  __device__ __forceinline__ const T* at(int key) const {
    if constexpr (S::kPageSize > 0) {
      const long long page = pages[key / S::kPageSize];
      return base + (page * (S::kKvHeads * S::kPageSize) + key % S::kPageSize) * kDim;
    } else {
      return base + key * kStride;
    }
  }
};

/// What is added to the scores of a head, in units of log2(e): scores are powers of two there.
template <class T, class S>
struct ScoreBias {
  const T* rows = nullptr;
  long long stride = 0;
  float slope = 0;
  Sequence sequence = {};

  ScoreBias() = default;
  __device__ __forceinline__ ScoreBias(const AttentionPrefillArgs& args, const Sequence& s, int head)
      : sequence(s) {
    if constexpr (S::kAdditive) {
      stride = args.kv_len;
      rows = static_cast<const T*>(args.score_bias) + head * args.q_len * stride;
    } else if constexpr (S::kAlibi) {
      slope = args.alibi_slopes[head] * kLog2e;
    }
  }
  /// 0 beyond the queries and the keys.
  __device__ __forceinline__ float at(int i, int key) const {
    if constexpr (S::kAdditive)
      return i < sequence.q_len && key < sequence.kv_len ? to_float(rows[i * stride + key]) * kLog2e : 0.0f;
    if constexpr (S::kAlibi)
      return -slope * static_cast<float>(abs(position_of<S::kCausal>(sequence, i) - key));
    return 0.0f;
  }
  /// Additive: as 16-bit values in units of 1 those of queries i and i + 8 in turn, for a pair of keys from
  /// `key` (even) on, for the pair 8 keys on, and so on; kAll: the sequence has all these keys. Anything
  /// beyond queries and keys.
  template <bool kAll, int kCount>
  __device__ __forceinline__ void fetch(unsigned (&to)[kCount], int i, int key) const {
    const int last = sequence.q_len - 1, last_key = sequence.kv_len - 1;
    const T* const pair[2] = {rows + min(i, last) * stride, rows + min(i + 8, last) * stride};
    const auto at = [=](int n) { return kAll ? key + n / 2 * 8 : min(key + n / 2 * 8, last_key & ~1); };
    if (stride % 2 == 0) {
#pragma unroll
      for (int n = 0; n < kCount; ++n) to[n] = *reinterpret_cast<const unsigned*>(pair[n % 2] + at(n));
    } else {
#pragma unroll
      for (int n = 0; n < kCount; ++n)
        to[n] = pair[n % 2][at(n)].bits | pair[n % 2][min(at(n) + 1, last_key)].bits << 16;
    }
  }
};

/// Which weights of a head are dropped; without dropout none.
template <class S>
struct Dropout {
  uint2 seed = {};
  unsigned head = 0, offset = 0, below = 0;

  Dropout() = default;
  __device__ __forceinline__ Dropout(const AttentionPrefillArgs& args, int b, int q_head) {
    if constexpr (S::kDropout) {
      seed = make_uint2(args.philox[0], args.philox[1]);
      head = static_cast<unsigned>(b * S::kQHeads + q_head) | args.philox[3] << 16;
      offset = args.philox[2];
      below = args.drop_below;
    }
  }
  /// Words for (i, key), (i, key + 1), (i + 8, key), (i + 8, key + 1): i % 16 < 8, and key is even.
  __device__ __forceinline__ uint4 words(int i, int key) const {
    return philox4x32_10(make_uint4(static_cast<unsigned>(key) / 2, i / 16 * 8 + i % 8, head, offset), seed);
  }
  /// Zeros for those of the four weights that are dropped.
  __device__ __forceinline__ void apply(float (&weights)[4], int i, int key) const {
    const uint4 w = words(i, key);
    if (w.x < below) weights[0] = 0;
    if (w.y < below) weights[1] = 0;
    if (w.z < below) weights[2] = 0;
    if (w.w < below) weights[3] = 0;
  }
  __device__ __forceinline__ bool drops(int i, int key) const {
    if constexpr (!S::kDropout) return false;
    const uint4 w = words(i / 16 * 16 + i % 8, key / 2 * 2);
    const unsigned low = key % 2 == 0 ? w.x : w.y, high = key % 2 == 0 ? w.z : w.w;
    return (i / 8 % 2 == 0 ? low : high) < below;
  }
};

/// What the weights of a query are multiplied by; 0 where it saw no key.
template <class S>
__device__ __forceinline__ float normalizer(const AttentionPrefillArgs& args, float sum) {
  return sum > 0 ? (S::kDropout ? args.keep_scale : 1.0f) / sum : 0.0f;
}

/// The rows of lse of a head.
template <class S>
__device__ __forceinline__ float* lse_rows(const AttentionPrefillArgs& args, int b, int head) {
  return args.lse + static_cast<long long>(b * S::kQHeads + head) * (ceil_div(args.q_len, 32) * 32);
}
/// `most` in units of log2(e), `sum` of powers of two below it.
__device__ __forceinline__ float lse_of(float most, float sum) {
  return sum > 0 ? (most + log2f(sum)) * 0.693147181f : -WARPTUNE_INFINITY;
}
/// Infinity for those of `count` rows from `first` on that are no queries; the last ones fill up to the end.
template <class S, int kThreads>
__device__ __forceinline__ void pad_lse(const AttentionPrefillArgs& args, const Sequence& s, int b, int head,
                                        int first, int count) {
  const int end = first + count < args.q_len ? first + count : ceil_div(args.q_len, 32) * 32;
  float* const rows = lse_rows<S>(args, b, head);
  for (int i = max(first, s.q_len) + static_cast<int>(threadIdx.x); i < end; i += kThreads)
    rows[i] = WARPTUNE_INFINITY;
}

}  // namespace warptune
