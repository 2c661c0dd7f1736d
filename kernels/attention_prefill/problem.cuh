#pragma once
// What the kernels of attention_prefill share: dims fixed at compile time, the mask as key ranges, addresses
// of K and V rows, score bias, dropout and lse. Features that a problem lacks compile to nothing.
#include "kernels/attention_prefill/args.h"
#include "kernels/common/numeric.cuh"
#include "kernels/common/philox.cuh"
#include "kernels/common/score_bias.h"
#include "kernels/common/softmax.cuh"

namespace warptune {

template <bool kStrided>
struct SelectArgs {
  using Type = AttentionPrefillArgs;
};
template <>
struct SelectArgs<true> {
  using Type = StridedAttentionPrefillArgs;
};

/// Dims of a problem that kernels are compiled for. `causal`, `score_bias`, `kv_layout` and `bias_shape` are
/// values of CausalMask, ScoreBias, KvLayout and BiasShape; `window` and `dropout` say whether there is any;
/// `dsx`: K has the layout [D/x, S, x].
template <int q_heads, int kv_heads, int head_dim, int head_dim_v, int causal, bool window, int score_bias,
          bool dropout, int kv_layout, int page_size, bool lse, bool dsx, int bias_shape>
struct ProblemShape {
  static constexpr int kQHeads = q_heads, kKvHeads = kv_heads, kHeadDim = head_dim, kHeadDimV = head_dim_v,
                       kPageSize = page_size;
  static constexpr bool kCausal = causal != static_cast<int>(CausalMask::none),
                        kTopLeft = causal == static_cast<int>(CausalMask::top_left),
                        kOffset = causal == static_cast<int>(CausalMask::offset), kWindow = window;
  static constexpr bool kAdditive = score_bias == static_cast<int>(ScoreBias::additive),
                        kAlibi = score_bias == static_cast<int>(ScoreBias::alibi),
                        kBias = kAdditive || kAlibi, kDropout = dropout, kLse = lse;
  static constexpr auto kLayout = static_cast<KvLayout>(kv_layout);
  /// Sequences start at rows seqstart_k of packed rows.
  static constexpr bool kPacked = kLayout == KvLayout::packed || kLayout == KvLayout::qkv;
  static constexpr bool kStridedKv = kLayout == KvLayout::bshd || kLayout == KvLayout::qkv, kDsx = dsx;
  static constexpr bool kStridedBias = bias_shape != static_cast<int>(BiasShape::heads);
  /// What a kernel takes. Functions take AttentionPrefillArgs and cast it if they need strides.
  using Args = typename SelectArgs<kStridedKv || kStridedBias>::Type;
};

struct Sequence {
  int first_token;  // row of q
  int q_len;
  int kv_len;
};

__device__ __forceinline__ Sequence load_sequence(const AttentionPrefillArgs& args, int b) {
  const int first_token = args.cu_seqlens[b];
  return {first_token, args.cu_seqlens[b + 1] - first_token, args.kv_lens[b]};
}

/// The position of query i among the keys; `diagonal` as in args.h.
template <class Shape>
__device__ __forceinline__ int position_of(const Sequence& s, int i, int diagonal) {
  if constexpr (Shape::kOffset) return i + diagonal;
  return Shape::kTopLeft ? i : i + s.kv_len - s.q_len;
}

/// Query i sees keys [key_begin(), key_end()). The end is at most kv_len; it may be negative (no key).
template <class Shape>
__device__ __forceinline__ int key_end(const AttentionPrefillArgs& args, const Sequence& s, int i) {
  return Shape::kCausal ? min(s.kv_len, position_of<Shape>(s, i, args.diagonal) + 1) : s.kv_len;
}
template <class Shape>
__device__ __forceinline__ int key_begin(const AttentionPrefillArgs& args, const Sequence& s, int i) {
  return Shape::kWindow ? max(0, key_end<Shape>(args, s, i) - args.window) : 0;
}

/// The query tile of the nth block. Causal: the last tile sees the most keys and comes first.
template <class Shape>
__device__ __forceinline__ int longest_first(int nth, int tiles) {
  return Shape::kCausal ? tiles - 1 - nth : nth;
}

/// Addresses of the K rows (or V rows), of kDim elements, that a query head of sequence b sees.
template <class T, class Shape, bool kIsKey>
struct KvRows {
  static constexpr int kDim = kIsKey ? Shape::kHeadDim : Shape::kHeadDimV;
  static constexpr int kX = 16 / static_cast<int>(sizeof(T));
  /// K as [D/x, S, x]: a row is kDim / kX vectors of 16 bytes, each next to those of the neighboring keys.
  static constexpr bool kDsx = kIsKey && Shape::kDsx;
  /// Whether row_stride() is an argument; otherwise it is kStride.
  static constexpr bool kHasStrides = Shape::kStridedKv;
  static constexpr long long kStride = kDsx ? kX : Shape::kPacked ? Shape::kKvHeads * kDim : kDim;
  /// Whether kRows neighboring rows, from a multiple of kRows on, share a page.
  template <int kRows>
  static constexpr bool kSharePage = Shape::kPageSize % kRows == 0;

  const T* base;
  const int* pages;
  long long stride;  // row_stride() of layouts with strides
  int capacity;      // rows of a sequence, or of a page

  __device__ __forceinline__ KvRows(const AttentionPrefillArgs& args, long long b, int head)
      : base(static_cast<const T*>(kIsKey ? args.k_cache : args.v_cache)),
        pages(nullptr),
        capacity(Shape::kPageSize > 0 ? Shape::kPageSize : args.capacity) {
    const int kv_head = head / (Shape::kQHeads / Shape::kKvHeads);
    if constexpr (Shape::kStridedKv) {
      const auto& strided = static_cast<const StridedAttentionPrefillArgs&>(args);
      const KvStrides& strides = kIsKey ? strided.k_strides : strided.v_strides;
      stride = strides.row;
      base += (Shape::kPacked ? args.seqstart_k[b] * stride : b * strides.batch) + kv_head * strides.head;
    } else if constexpr (Shape::kPageSize > 0) {
      pages = args.block_table + b * args.max_pages;
      base += static_cast<long long>(kv_head) * Shape::kPageSize * kDim;
    } else if constexpr (Shape::kPacked) {
      base += (static_cast<long long>(args.seqstart_k[b]) * Shape::kKvHeads + kv_head) * kDim;
    } else {
      base += (b * Shape::kKvHeads + kv_head) * args.capacity * kDim;
    }
  }
  /// Elements from a row to the next.
  __device__ __forceinline__ long long row_stride() const { return kHasStrides ? stride : kStride; }
  /// Element 0 of the row of `key`, which must be below kv_len: other keys have no page.
  __device__ __forceinline__ const T* at(int key) const {
    if constexpr (Shape::kPageSize > 0) {
      const long long page = pages[key / Shape::kPageSize];
      if constexpr (kDsx)
        return base + page * (Shape::kKvHeads * Shape::kPageSize * kDim) + key % Shape::kPageSize * kX;
      return base + (page * (Shape::kKvHeads * Shape::kPageSize) + key % Shape::kPageSize) * kDim;
    } else {
      if constexpr (kHasStrides) return base + key * stride;
      return base + key * kStride;
    }
  }
  /// Elements from element 0 of a row to element i.
  __device__ __forceinline__ long long offset(int i) const {
    if constexpr (kDsx) return static_cast<long long>(i / kX) * capacity * kX + i % kX;
    return i;
  }
};
template <class T, class Shape>
using KeyRows = KvRows<T, Shape, true>;
template <class T, class Shape>
using ValueRows = KvRows<T, Shape, false>;

/// The score bias of one head, in base-2 units (times log2(e)), as all scores are: exp2 replaces exp.
template <class T, class Shape>
struct HeadBias {
  const T* rows = nullptr;
  long long stride = 0;
  float slope = 0;
  int diagonal = 0;
  Sequence sequence = {};

  HeadBias() = default;
  __device__ __forceinline__ HeadBias(const AttentionPrefillArgs& args, const Sequence& s, long long b,
                                      int head)
      : sequence(s) {
    if constexpr (Shape::kAdditive && Shape::kStridedBias) {
      const BiasStrides& strides = static_cast<const StridedAttentionPrefillArgs&>(args).bias_strides;
      stride = strides.row;
      rows = static_cast<const T*>(args.score_bias) + b * strides.batch + head * strides.head;
    } else if constexpr (Shape::kAdditive) {
      stride = args.kv_len;
      rows = static_cast<const T*>(args.score_bias) + static_cast<long long>(head) * args.q_len * stride;
    } else if constexpr (Shape::kAlibi) {
      slope = args.alibi_slopes[head] * kLog2e;
      diagonal = args.diagonal;
    }
  }
  /// 0 beyond the queries and the keys.
  __device__ __forceinline__ float at(int i, int key) const {
    if constexpr (Shape::kAdditive)
      return i < sequence.q_len && key < sequence.kv_len ? to_float(rows[i * stride + key]) * kLog2e : 0.0f;
    if constexpr (Shape::kAlibi)
      return -slope * static_cast<float>(abs(position_of<Shape>(sequence, i, diagonal) - key));
    return 0.0f;
  }
  /// Additive bias of an m16n8 accumulator fragment row pair, as raw 16-bit pairs: to[2n] is query i and
  /// to[2n + 1] query i + 8, keys key + 8n and key + 8n + 1 (`key` is even). kInBounds: the sequence has all
  /// these keys. Values beyond queries and keys are undefined.
  template <bool kInBounds, int kCount>
  __device__ __forceinline__ void load(unsigned (&to)[kCount], int i, int key) const {
    const int last = sequence.q_len - 1, last_key = sequence.kv_len - 1;
    const T* const pair[2] = {rows + min(i, last) * stride, rows + min(i + 8, last) * stride};
    const auto at = [=](int n) { return kInBounds ? key + n / 2 * 8 : min(key + n / 2 * 8, last_key & ~1); };
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

/// Dropout of the weights of one head; args.h says which weights are dropped.
template <class Shape>
struct Dropout {
  uint2 seed = {};
  unsigned head = 0, offset = 0, below = 0;

  Dropout() = default;
  __device__ __forceinline__ Dropout(const AttentionPrefillArgs& args, int b, int q_head) {
    if constexpr (Shape::kDropout) {
      seed = make_uint2(args.philox[0], args.philox[1]);
      head = static_cast<unsigned>(b * Shape::kQHeads + q_head) | args.philox[3] << 16;
      offset = args.philox[2];
      below = args.drop_below;
    }
  }
  /// Philox words of (i, key), (i, key + 1), (i + 8, key), (i + 8, key + 1): i % 16 < 8, and key is even.
  __device__ __forceinline__ uint4 words(int i, int key) const {
    return philox4x32_10(make_uint4(static_cast<unsigned>(key) / 2, i / 16 * 8 + i % 8, head, offset), seed);
  }
  /// Zeroes the dropped ones of the four weights that words() covers.
  __device__ __forceinline__ void apply(float (&weights)[4], int i, int key) const {
    const uint4 w = words(i, key);
    if (w.x < below) weights[0] = 0;
    if (w.y < below) weights[1] = 0;
    if (w.z < below) weights[2] = 0;
    if (w.w < below) weights[3] = 0;
  }
  __device__ __forceinline__ bool drops(int i, int key) const {
    if constexpr (!Shape::kDropout) return false;
    const uint4 w = words(i / 16 * 16 + i % 8, key / 2 * 2);
    const unsigned low = key % 2 == 0 ? w.x : w.y, high = key % 2 == 0 ? w.z : w.w;
    return (i / 8 % 2 == 0 ? low : high) < below;
  }
};

/// The factor of an unnormalized output row, from its row sum; 0 where the query sees no key.
template <class Shape>
__device__ __forceinline__ float output_scale(const AttentionPrefillArgs& args, float row_sum) {
  return row_sum > 0 ? (Shape::kDropout ? args.keep_scale : 1.0f) / row_sum : 0.0f;
}

/// The lse row of a head.
template <class Shape>
__device__ __forceinline__ float* lse_row(const AttentionPrefillArgs& args, int b, int head) {
  return args.lse + static_cast<long long>(b * Shape::kQHeads + head) * (ceil_div(args.q_len, 32) * 32);
}
/// `row_max` in base-2 units; `row_sum` of exp2(score - row_max).
__device__ __forceinline__ float log_sum_exp(float row_max, float row_sum) {
  return row_sum > 0 ? (row_max + log2f(row_sum)) * 0.693147181f : -WARPTUNE_INFINITY;
}
/// Writes +infinity to entries [first, first + count) that are beyond the queries; the last tile also fills
/// the padding of the row.
template <class Shape, int kThreads>
__device__ __forceinline__ void pad_lse(const AttentionPrefillArgs& args, const Sequence& s, int b, int head,
                                        int first, int count) {
  const int end = first + count < args.q_len ? first + count : ceil_div(args.q_len, 32) * 32;
  float* const rows = lse_row<Shape>(args, b, head);
  for (int i = max(first, s.q_len) + static_cast<int>(threadIdx.x); i < end; i += kThreads)
    rows[i] = WARPTUNE_INFINITY;
}

}  // namespace warptune
