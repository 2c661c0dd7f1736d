// How attention_decode runs on the CPU. The new row, if any, is appended first; then every head reads the
// cache.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attention_decode/args.h"
#include "attention_decode/attention_decode.h"
#include "core/parallel.h"

namespace warptune {
namespace {

struct Shape {
  std::int64_t q_heads, kv_heads, head_dim;
  bool dsx, append;

  explicit Shape(const Problem& p)
      : q_heads(p["q_heads"]),
        kv_heads(p["kv_heads"]),
        head_dim(p["head_dim"]),
        dsx(p["k_layout"] != 0),
        append(p["append"] != 0) {}
  std::int64_t group() const { return q_heads / kv_heads; }
  std::int64_t rows() const { return q_heads + 2 * kv_heads; }
};

/// The cache of one KV head of one sequence.
template <class T>
class HeadCache {
 public:
  HeadCache(const AttentionDecodeArgs& a, const Shape& s, std::int64_t b, std::int64_t kv_head)
      : capacity_(a.capacity), head_dim_(s.head_dim), dsx_(s.dsx) {
    const std::int64_t first = (b * s.kv_heads + kv_head) * capacity_ * head_dim_;
    k_ = static_cast<T*>(a.k_cache) + first;
    v_ = static_cast<T*>(a.v_cache) + first;
  }
  T& k(std::int64_t key, std::int64_t i) const {
    constexpr std::int64_t x = 16 / sizeof(T);
    return k_[dsx_ ? (i / x * capacity_ + key) * x + i % x : key * head_dim_ + i];
  }
  T& v(std::int64_t key, std::int64_t i) const { return v_[key * head_dim_ + i]; }
  float score(const std::vector<float>& q, std::int64_t key) const {
    float s = 0;
    for (std::int64_t i = 0; i < head_dim_; ++i)
      s += q[static_cast<std::size_t>(i)] * static_cast<float>(k(key, i));
    return s;
  }
  void add_value(std::vector<float>& out, std::int64_t key, float weight) const {
    for (std::int64_t i = 0; i < head_dim_; ++i)
      out[static_cast<std::size_t>(i)] += weight * static_cast<float>(v(key, i));
  }

 private:
  T *k_, *v_;
  std::int64_t capacity_, head_dim_;
  bool dsx_;
};

/// Row `row` of q (or of the fused qkv, then with bias, and rotated unless `position` is below 0).
template <class T>
std::vector<float> load_row(const AttentionDecodeArgs& a, const Shape& s, std::int64_t b, std::int64_t row,
                            std::int64_t position) {
  const std::int64_t d = s.head_dim;
  const T* from = static_cast<const T*>(a.q) + (b * (s.append ? s.rows() : s.q_heads) + row) * d;
  std::vector<float> x(from, from + d);
  if (!s.append) return x;
  if (a.bias) {
    const T* bias = static_cast<const T*>(a.bias) + row * d;
    for (std::int64_t i = 0; i < d; ++i) x[static_cast<std::size_t>(i)] += static_cast<float>(bias[i]);
  }
  if (position < 0) return x;
  const auto half = static_cast<std::size_t>(d / 2);
  for (std::size_t i = 0; i < half; ++i) {
    const float angle = static_cast<float>(position) * a.inv_freq[i];
    const float c = std::cos(angle), sn = std::sin(angle), low = x[i], high = x[i + half];
    x[i] = low * c - high * sn;
    x[i + half] = high * c + low * sn;
  }
  return x;
}

template <class T>
void append_row(const AttentionDecodeArgs& a, const Shape& s, std::int64_t b, std::int64_t kv_head) {
  const std::int64_t position = a.lengths[b] - 1;
  if (position < 0) return;
  const HeadCache<T> cache(a, s, b, kv_head);
  const auto k = load_row<T>(a, s, b, s.q_heads + kv_head, position);
  const auto v = load_row<T>(a, s, b, s.q_heads + s.kv_heads + kv_head, -1);
  for (std::int64_t i = 0; i < s.head_dim; ++i) {
    cache.k(position, i) = static_cast<T>(k[static_cast<std::size_t>(i)]);
    cache.v(position, i) = static_cast<T>(v[static_cast<std::size_t>(i)]);
  }
}

template <class T>
void store_out(const AttentionDecodeArgs& a, const Shape& s, std::int64_t b, std::int64_t head,
               const std::vector<float>& sums, float divisor) {
  T* out = static_cast<T*>(a.out) + (b * s.q_heads + head) * s.head_dim;
  for (std::int64_t i = 0; i < s.head_dim; ++i)
    out[i] = static_cast<T>(divisor > 0 ? sums[static_cast<std::size_t>(i)] / divisor : 0.0f);
}

/// All scores, then softmax, then the weighted sum of V.
template <class T>
void attend_naive(const AttentionDecodeArgs& a, const Shape& s, std::int64_t b, std::int64_t head) {
  const std::int64_t length = a.lengths[b];
  const HeadCache<T> cache(a, s, b, head / s.group());
  std::vector<float> sums(static_cast<std::size_t>(s.head_dim)), scores(static_cast<std::size_t>(length));
  float sum = 0;
  if (length > 0) {
    const auto q = load_row<T>(a, s, b, head, length - 1);
    for (std::int64_t key = 0; key < length; ++key)
      scores[static_cast<std::size_t>(key)] = cache.score(q, key) * a.scale;
    const float max = *std::ranges::max_element(scores);
    for (std::int64_t key = 0; key < length; ++key) {
      const float weight = std::exp(scores[static_cast<std::size_t>(key)] - max);
      sum += weight;
      cache.add_value(sums, key, weight);
    }
  }
  store_out<T>(a, s, b, head, sums, sum);
}

/// Online softmax over blocks of keys, all query heads of a KV head together: K and V are read once.
template <class T>
void attend_blocked(const AttentionDecodeArgs& a, const Shape& s, std::int64_t b, std::int64_t kv_head,
                    std::int64_t keys_per_block) {
  const std::int64_t length = a.lengths[b], group = s.group();
  const HeadCache<T> cache(a, s, b, kv_head);
  struct Head {
    std::vector<float> q, sums;
    float max = -std::numeric_limits<float>::infinity(), sum = 0;
  };
  std::vector<Head> heads(static_cast<std::size_t>(group));
  for (std::int64_t h = 0; h < group; ++h) {
    Head& head = heads[static_cast<std::size_t>(h)];
    head.sums.assign(static_cast<std::size_t>(s.head_dim), 0.0f);
    if (length > 0) head.q = load_row<T>(a, s, b, kv_head * group + h, length - 1);
  }
  std::vector<float> scores(static_cast<std::size_t>(keys_per_block));
  for (std::int64_t first = 0; first < length; first += keys_per_block) {
    const std::int64_t n = std::min(keys_per_block, length - first);
    for (Head& head : heads) {
      float max = head.max;
      for (std::int64_t i = 0; i < n; ++i)
        max = std::max(max, scores[static_cast<std::size_t>(i)] = cache.score(head.q, first + i) * a.scale);
      const float rescale = std::exp(head.max - max);
      head.max = max;
      head.sum *= rescale;
      for (float& value : head.sums) value *= rescale;
      for (std::int64_t i = 0; i < n; ++i) {
        const float weight = std::exp(scores[static_cast<std::size_t>(i)] - max);
        head.sum += weight;
        cache.add_value(head.sums, first + i, weight);
      }
    }
  }
  for (std::int64_t h = 0; h < group; ++h) {
    const Head& head = heads[static_cast<std::size_t>(h)];
    store_out<T>(a, s, b, kv_head * group + h, head.sums, head.sum);
  }
}

template <class T>
void append_all(const AttentionDecodeArgs& a, const Shape& s, int threads) {
  if (!s.append) return;
  parallel_for(a.batch * s.kv_heads, threads,
               [&](std::int64_t i) { append_row<T>(a, s, i / s.kv_heads, i % s.kv_heads); });
}

}  // namespace

std::vector<Variant> attention_decode_host() {
  return {
      {
          .name = "host_naive",
          .idea = "head after head: all scores, softmax, weighted sum",
          .backend = Backend::host,
          .host =
              [](const Problem& p, const Config&) {
                return [s = Shape(p), dtype = p.dtype](const void* raw) {
                  const auto& a = *static_cast<const AttentionDecodeArgs*>(raw);
                  with_float_dtype(dtype, [&]<class T>() {
                    append_all<T>(a, s, 1);
                    for (std::int64_t i = 0; i < a.batch * s.q_heads; ++i)
                      attend_naive<T>(a, s, i / s.q_heads, i % s.q_heads);
                  });
                };
              },
      },
      {
          .name = "host_blocked",
          .idea = "KV heads over threads, online softmax over blocks of keys for a whole group",
          .backend = Backend::host,
          .parameters = {{"threads", {1, 2, 4, 8}, "worker threads"},
                         {"keys_per_block", {16, 64, 256}, "keys between two rescalings"}},
          .constraints = {"threads <= sms", "threads <= batch * kv_heads || threads == 1",
                          "keys_per_block < 2 * context || keys_per_block == 16"},
          .host =
              [](const Problem& p, const Config& c) {
                return [s = Shape(p), dtype = p.dtype, threads = static_cast<int>(c["threads"]),
                        keys_per_block = c["keys_per_block"]](const void* raw) {
                  const auto& a = *static_cast<const AttentionDecodeArgs*>(raw);
                  with_float_dtype(dtype, [&]<class T>() {
                    append_all<T>(a, s, threads);
                    parallel_for(a.batch * s.kv_heads, threads, [&](std::int64_t i) {
                      attend_blocked<T>(a, s, i / s.kv_heads, i % s.kv_heads, keys_per_block);
                    });
                  });
                };
              },
      },
  };
}

}  // namespace warptune
