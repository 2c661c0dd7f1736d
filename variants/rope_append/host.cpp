// Host variants of rope_append.
#include <cmath>

#include "harness/core/parallel.h"
#include "kernels/rope_append/args.h"
#include "variants/helpers/head_norm.h"
#include "variants/helpers/host_pair.h"
#include "variants/helpers/kv_cache.h"
#include "variants/helpers/rope.h"
#include "variants/rope_append/rope_append.h"

namespace warptune {
namespace {

/// The constants of a plan.
struct Shape {
  std::int64_t q_heads, kv_heads, head_dim, rotary_dim, page;
  bool interleaved, dynamic, split, norm;
  DType cache;
};

/// The row of a key of a KV head, counted over the whole cache.
std::int64_t row_of(const RopeAppendArgs& a, const Shape& s, std::int64_t sequence, std::int64_t kv_head,
                    std::int64_t position) {
  if (s.page == 0) return (sequence * s.kv_heads + kv_head) * a.capacity + position;
  const std::int64_t page = a.block_table[sequence * (a.capacity / s.page) + position / s.page];
  return (page * s.kv_heads + kv_head) * s.page + position % s.page;
}

/// Rounds a row to T and stores it in the format of the cache.
template <class T>
void store_row(const RopeAppendArgs& a, const Shape& s, bool is_k, std::int64_t row,
               const std::vector<float>& x) {
  float inverse = 1;
  if (float* scales = is_k ? a.k_scale : a.v_scale) {
    float largest = 0;
    for (const float value : x) largest = std::max(largest, std::abs(static_cast<float>(T(value))));
    scales[row] = largest / largest_code(s.cache);
    inverse = scales[row] == 0 ? 0 : 1 / scales[row];
  }
  const std::int64_t piece = elements_of_16_bytes(s.cache), rows = s.page == 0 ? a.capacity : s.page,
                     within = row % rows;
  for (std::int64_t d = 0; d < s.head_dim; ++d) {
    const float y = T(x[d]) * inverse;
    const std::int64_t at =
        is_k && s.split ? (row - within) * s.head_dim + (d / piece * rows + within) * piece + d % piece
                        : row * s.head_dim + d;
    store(s.cache, is_k ? a.k_cache : a.v_cache, at, y);
  }
}

template <class T>
void append_token(const RopeAppendArgs& a, const Shape& s, std::int64_t token) {
  const std::int64_t heads = s.q_heads + 2 * s.kv_heads, half = s.head_dim / 2, position = a.position[token];
  if (position < 0) return;
  const std::int64_t sequence = a.sequence[token];
  std::vector<float> x(s.head_dim), sine(half), cosine(half);
  for (std::int64_t i = 0; i < half; ++i) {
    float inv_freq = a.inv_freq[i];
    if (s.dynamic && a.lengths[sequence] > a.max_position && i < s.rotary_dim / 2)
      inv_freq = rope_grown_inv_freq(a.theta, a.factor, a.max_position, a.lengths[sequence], s.rotary_dim, i);
    const float angle = position * inv_freq;
    sine[i] = std::sin(angle);
    cosine[i] = std::cos(angle);
  }
  for (std::int64_t head = 0; head < heads; ++head) {
    const T* row = static_cast<const T*>(a.qkv) + (token * heads + head) * s.head_dim;
    const T* bias = a.bias ? static_cast<const T*>(a.bias) + head * s.head_dim : nullptr;
    for (std::int64_t d = 0; d < s.head_dim; ++d) x[d] = row[d] + (bias ? static_cast<float>(bias[d]) : 0.0f);
    if (head < s.q_heads + s.kv_heads) {
      if (s.norm) {
        const auto& norm = static_cast<const NormRopeAppendArgs&>(a);
        normalize_head<T>(x, norm.qk_norm, head < s.q_heads, norm.eps);
      }
      for (std::int64_t i = 0; i < half; ++i) {
        const auto [first, second] =
            s.interleaved ? std::pair(2 * i, 2 * i + 1) : half_split_pair(i, s.head_dim, s.rotary_dim);
        float &x0 = x[first], &x1 = x[second];
        const float sn = sine[i], cs = cosine[i];
        const float turned = x0 * cs - x1 * sn;
        x1 = x0 * sn + x1 * cs;
        x0 = turned;
      }
    }
    if (head < s.q_heads) {
      T* q = static_cast<T*>(a.q) + (token * s.q_heads + head) * s.head_dim;
      for (const float value : x) *q++ = value;
    } else {
      const std::int64_t kv_head = (head - s.q_heads) % s.kv_heads;
      store_row<T>(a, s, head < s.q_heads + s.kv_heads, row_of(a, s, sequence, kv_head, position), x);
    }
  }
}

HostFunction run(const Problem& p, int threads) {
  const Shape shape{.q_heads = p["q_heads"],
                    .kv_heads = p["kv_heads"],
                    .head_dim = p["head_dim"],
                    .rotary_dim = rotary_dim(p),
                    .page = p["page_size"],
                    .interleaved = is_interleaved(p),
                    .dynamic = is_dynamic_ntk(p),
                    .split = p["k_layout"] == 1,
                    .norm = p["qk_norm"] == 1,
                    .cache = rope_cache_dtype(p)};
  return [=, dtype = p.dtype](const void* raw) {
    const auto& a = *static_cast<const RopeAppendArgs*>(raw);
    with_float_dtype(dtype, [&]<class T>() {
      parallel_for(a.tokens, threads, [&](std::int64_t token) { append_token<T>(a, shape, token); });
    });
  };
}

}  // namespace

std::vector<Variant> rope_append_host() {
  return host_pair("One thread computes tokens one by one.", "Tokens over threads.",
                   {"threads <= sms", "threads <= tokens || threads == 1"}, run, {1, 2, 4, 8});
}

}  // namespace warptune
