// Variants of attention_prefill on the CPU.
#include <algorithm>
#include <cmath>

#include "harness/core/parallel.h"
#include "kernels/attention_prefill/args.h"
#include "variants/attention_prefill/attention_prefill.h"
#include "variants/attention_prefill/problem.h"

namespace warptune {
namespace {

using namespace prefill;

/// Elements of a 16-byte vector.
template <class T>
constexpr std::int64_t kVector = 16 / sizeof(T);

/// What a plan fixes.
struct Shape {
  std::int64_t q_heads, kv_heads, head_dim, head_dim_v, dropout, page_size;
  Mask mask;
  ScoreBias score_bias;
  BiasShape bias_shape;
  bool packed, has_kv_strides, dsx;
};

/// Rows of K and V that follow each other: of a sequence, or of a page.
std::int64_t rows_of(const AttentionPrefillArgs& a, const Shape& s) {
  return s.page_size > 0 ? s.page_size : a.capacity;
}

/// Strides of K (or V); of a paged cache, with pages as sequences.
KvStrides kv_strides(const AttentionPrefillArgs& a, const Shape& s, bool is_key) {
  if (s.has_kv_strides) {
    const auto& strided = static_cast<const StridedAttentionPrefillArgs&>(a);
    return is_key ? strided.k_strides : strided.v_strides;
  }
  const std::int64_t d = is_key ? s.head_dim : s.head_dim_v, rows = rows_of(a, s);
  if (s.packed) return {.batch = 0, .head = d, .row = s.kv_heads * d};
  return {.batch = s.kv_heads * rows * d, .head = rows * d, .row = d};
}

/// Element 0 of the K (or V) row of a key. With `dsx` the rows of K are a vector apart.
template <class T>
const T* row_of(const AttentionPrefillArgs& a, const Shape& s, bool is_key, std::int64_t b, std::int64_t head,
                std::int64_t key) {
  const KvStrides strides = kv_strides(a, s, is_key);
  const std::int64_t row = is_key && s.dsx ? kVector<T> : strides.row;
  const T* from = static_cast<const T*>(is_key ? a.k_cache : a.v_cache) + head * strides.head;
  if (s.packed) return from + (a.seqstart_k[b] + key) * row;
  if (s.page_size == 0) return from + b * strides.batch + key * row;
  return from + a.block_table[b * a.max_pages + key / s.page_size] * strides.batch + key % s.page_size * row;
}

/// Gathers a K row of the layout [D/x, S, x].
template <class T>
void gather_row(const AttentionPrefillArgs& a, const Shape& s, const T* row, std::vector<T>& to) {
  const std::int64_t vector_stride = rows_of(a, s) * kVector<T>;
  for (std::int64_t d = 0; d < s.head_dim; ++d) to[d] = row[d / kVector<T> * vector_stride + d % kVector<T>];
}

/// The score bias of a key for query i of head h of sequence b.
template <class T>
float bias_of(const AttentionPrefillArgs& a, const Shape& s, std::int64_t b, std::int64_t h, std::int64_t i,
              std::int64_t position, std::int64_t key) {
  if (s.score_bias == ScoreBias::alibi) return -a.alibi_slopes[h] * std::abs(position - key);
  if (s.score_bias != ScoreBias::additive) return 0;
  BiasStrides strides{.batch = 0, .head = 1LL * a.q_len * a.kv_len, .row = a.kv_len};
  if (s.bias_shape != BiasShape::heads)
    strides = static_cast<const StridedAttentionPrefillArgs&>(a).bias_strides;
  return static_cast<const T*>(a.score_bias)[b * strides.batch + h * strides.head + i * strides.row + key];
}

/// One query of one head; online softmax over K/V tiles of `tile` keys.
template <class T>
void attend(const AttentionPrefillArgs& a, const Shape& s, std::int64_t tile, std::int64_t unit) {
  const std::int64_t row = unit / s.q_heads, head = unit % s.q_heads;
  const std::int64_t kv_head = head / (s.q_heads / s.kv_heads);
  std::int64_t b = 0;
  while (a.cu_seqlens[b + 1] <= row) ++b;
  const std::int64_t q_len = a.cu_seqlens[b + 1] - a.cu_seqlens[b], kv_len = a.kv_lens[b];
  const std::int64_t i = row - a.cu_seqlens[b], at = s.mask.position(q_len, kv_len, i);
  const KeyRange keys = s.mask.visible_keys(q_len, kv_len, i);
  const T* q = static_cast<const T*>(a.q) + row * a.q_stride + head * s.head_dim;

  std::vector<float> sums(s.head_dim_v, 0.0f), scores(tile);
  std::vector<T> gathered(s.dsx ? s.head_dim : 0);
  float row_max = -INFINITY, row_sum = 0;
  for (std::int64_t first = keys.first; first < keys.last; first += tile) {
    const std::int64_t count = std::min(tile, keys.last - first);
    float tile_max = row_max;
    for (std::int64_t n = 0; n < count; ++n) {
      const T* k = row_of<T>(a, s, true, b, kv_head, first + n);
      if (s.dsx) gather_row(a, s, k, gathered), k = gathered.data();
      float score = 0;
      for (std::int64_t d = 0; d < s.head_dim; ++d) score += static_cast<float>(q[d]) * k[d];
      score = score * a.scale + bias_of<T>(a, s, b, head, i, at, first + n);
      scores[n] = score;
      tile_max = std::max(tile_max, score);
    }
    if (tile_max == -INFINITY) continue;  // a bias of -infinity hides all keys so far
    const float rescale = std::exp(row_max - tile_max);
    row_max = tile_max;
    row_sum *= rescale;
    for (float& x : sums) x *= rescale;
    for (std::int64_t n = 0; n < count; ++n) {
      float weight = std::exp(scores[n] - row_max);
      row_sum += weight;
      if (s.dropout > 0)
        weight *= drops({a.philox[0], a.philox[1], a.philox[2], a.philox[3]}, a.drop_below,
                        b * s.q_heads + head, i, first + n)
                      ? 0
                      : a.keep_scale;
      const T* v = row_of<T>(a, s, false, b, kv_head, first + n);
      for (std::int64_t d = 0; d < s.head_dim_v; ++d) sums[d] += weight * v[d];
    }
  }
  T* out = static_cast<T*>(a.out) + unit * s.head_dim_v;
  for (std::int64_t d = 0; d < s.head_dim_v; ++d) out[d] = row_sum > 0 ? sums[d] / row_sum : 0;
  if (a.lse) a.lse[(b * s.q_heads + head) * lse_rows(a.q_len) + i] = row_max + std::log(row_sum);
}

/// Writes +infinity to the entries of lse beyond the queries.
void pad_lse(const AttentionPrefillArgs& a, std::int64_t q_heads) {
  const std::int64_t padded = lse_rows(a.q_len);
  for (std::int64_t head = 0; head < a.batch * q_heads; ++head) {
    float* rows = a.lse + head * padded;
    const std::int64_t b = head / q_heads;
    std::fill(rows + a.cu_seqlens[b + 1] - a.cu_seqlens[b], rows + padded, INFINITY);
  }
}

/// `tile` 0: all keys of the longest sequence in one tile, a plain softmax.
HostFunction run(const Problem& p, int threads, std::int64_t tile) {
  const Shape shape{.q_heads = p["q_heads"],
                    .kv_heads = p["kv_heads"],
                    .head_dim = p["head_dim"],
                    .head_dim_v = value_dim(p),
                    .dropout = p["dropout"],
                    .page_size = p["page_size"],
                    .mask = mask_of(p),
                    .score_bias = score_bias(p),
                    .bias_shape = bias_shape(p),
                    .packed = packed(p),
                    .has_kv_strides = has_kv_strides(p),
                    .dsx = dsx(p)};
  return [=, dtype = p.dtype](const void* raw) {
    const auto& a = *static_cast<const AttentionPrefillArgs*>(raw);
    const std::int64_t step =
        tile > 0 ? tile : std::max(1, *std::max_element(a.kv_lens, a.kv_lens + a.batch));
    with_float_dtype(dtype, [&]<class T>() {
      parallel_for(a.cu_seqlens[a.batch] * shape.q_heads, threads,
                   [&](std::int64_t unit) { attend<T>(a, shape, step, unit); });
    });
    if (a.lse) pad_lse(a, shape.q_heads);
  };
}

}  // namespace

std::vector<Variant> attention_prefill_host() {
  return {
      {
          .name = "host_naive",
          .idea = "plain softmax over all keys, one query at a time",
          .backend = Backend::host,
          .host = [](const Problem& p, const Config&) { return run(p, 1, 0); },
      },
      {
          .name = "host_blocked",
          .idea = "online softmax over K/V tiles, queries in parallel on threads",
          .backend = Backend::host,
          .parameters = {{"threads", {1, 2, 4, 8}, "worker threads"},
                         {"tile_n", {16, 64, 256}, "keys per K/V tile"}},
          .constraints = {"threads <= sms", "tile_n <= kv_len || tile_n == 16"},
          .host = [](const Problem& p, const Config& c) { return run(p, c["threads"], c["tile_n"]); },
      },
  };
}

}  // namespace warptune
