// How attention_decode runs on the CPU. The new row, if any, is appended first; then every head reads the
// cache.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "harness/core/parallel.h"
#include "kernels/attention_decode/args.h"
#include "variants/attention_decode/dims.h"
#include "variants/helpers/head_norm.h"
#include "variants/helpers/rope.h"

namespace warptune {
namespace {

struct Shape {
  std::int64_t q_heads, kv_heads, head_dim, page, window, hidden;
  bool dsx, append, interleaved, dynamic_ntk, norm;
  bool own_scales;  // a scale per row of the cache, not per head
  DType dtype, cache, out;
  ScoreBias score_bias;
  Epilogue epilogue;

  explicit Shape(const Problem& p)
      : q_heads(p["q_heads"]),
        kv_heads(p["kv_heads"]),
        head_dim(p["head_dim"]),
        page(p["page_size"]),
        window(p["window"]),
        hidden(p["hidden"]),
        dsx(p["k_layout"] != 0),
        append(p["append"] != 0),
        interleaved(is_interleaved(p)),
        dynamic_ntk(is_dynamic_ntk(p)),
        norm(p["qk_norm"] != 0),
        own_scales(p["kv_scale"] != 0),
        dtype(p.dtype),
        cache(cache_dtype(p)),
        out(decode_out_dtype(p)),
        score_bias(score_bias_of(p)),
        epilogue(epilogue_of(p)) {}
  std::int64_t group() const { return q_heads / kv_heads; }
  std::int64_t rows() const { return q_heads + 2 * kv_heads; }
  std::int64_t first_key(std::int64_t length) const {
    return window == 0 ? 0 : std::max<std::int64_t>(0, length - window);
  }
};

/// Calls f.operator()<T, C>() with the host types of the problem and its caches.
template <class F>
void with_types(const Shape& s, F&& f) {
  with_float_dtype(s.dtype, [&]<class T>() {
    if (s.cache == DType::int8)
      f.template operator()<T, std::int8_t>();
    else if (s.cache == DType::fp8)
      f.template operator()<T, fp8>();
    else
      f.template operator()<T, T>();
  });
}

/// The cache of one KV head of one sequence; C: what it holds.
template <class C>
class HeadCache {
 public:
  HeadCache(const AttentionDecodeArgs& a, const Shape& s, std::int64_t b, std::int64_t kv_head)
      : a_(a), s_(s), kv_head_(kv_head), first_row_((b * s.kv_heads + kv_head) * a.capacity) {
    if (s.page != 0) pages_ = a.block_table + b * (a.capacity / s.page);
  }
  float score(const std::vector<float>& q, std::int64_t key) const {
    const std::int64_t at = row(key);
    float sum = 0;
    for (std::int64_t i = 0; i < s_.head_dim; ++i) sum += q[i] * k(at, i);
    return sum * scale(a_.k_scale, at);
  }
  void add_value(std::vector<float>& out, std::int64_t key, float weight) const {
    const std::int64_t at = row(key);
    weight *= scale(a_.v_scale, at);
    for (std::int64_t i = 0; i < s_.head_dim; ++i) out[i] += weight * v(at, i);
  }
  /// Writes the rows of a key as the cache stores them.
  void append(std::int64_t key, const std::vector<float>& new_k, const std::vector<float>& new_v) const {
    const std::int64_t at = row(key);
    const float k_inverse = inverse(a_.k_scale, at, new_k), v_inverse = inverse(a_.v_scale, at, new_v);
    for (std::int64_t i = 0; i < s_.head_dim; ++i) {
      store(s_.cache, &k(at, i), 0, new_k[i] * k_inverse);
      store(s_.cache, &v(at, i), 0, new_v[i] * v_inverse);
    }
  }

 private:
  std::int64_t row(std::int64_t key) const {
    if (!pages_) return first_row_ + key;
    return (pages_[key / s_.page] * s_.kv_heads + kv_head_) * s_.page + key % s_.page;
  }
  C& k(std::int64_t row, std::int64_t i) const {
    C* data = static_cast<C*>(a_.k_cache);
    if (!s_.dsx) return data[row * s_.head_dim + i];
    constexpr std::int64_t x = 16 / sizeof(C);
    const std::int64_t rows = pages_ ? s_.page : a_.capacity, within = row % rows;
    return data[(row - within) * s_.head_dim + (i / x * rows + within) * x + i % x];
  }
  C& v(std::int64_t row, std::int64_t i) const { return static_cast<C*>(a_.v_cache)[row * s_.head_dim + i]; }
  float scale(const float* scales, std::int64_t row) const {
    return scales ? scales[s_.own_scales ? row : kv_head_] : 1.0f;
  }
  /// What a new row is multiplied by; writes its scale where rows have their own.
  float inverse(float* scales, std::int64_t row, const std::vector<float>& x) const {
    if (!scales) return 1;
    if (s_.own_scales) {
      float max = 0;
      for (const float value : x) max = std::max(max, std::abs(value));
      scales[row] = max / largest_code(s_.cache);
    }
    const float by = scale(scales, row);
    return by == 0 ? 0 : 1 / by;
  }

  const AttentionDecodeArgs& a_;
  const Shape& s_;
  std::int64_t kv_head_, first_row_;
  const int* pages_ = nullptr;
};

/// The inverse frequency of a pair for the token at `position`, the last of its sequence.
float inv_freq_of(const AttentionDecodeArgs& a, const Shape& s, std::int64_t position, std::int64_t pair) {
  const int length = position + 1;
  if (!s.dynamic_ntk) return a.inv_freq[pair];
  const auto& ntk = static_cast<const DynamicNtkDecodeArgs&>(a);
  if (length <= ntk.max_position) return a.inv_freq[pair];
  return rope_grown_inv_freq(ntk.theta, ntk.factor, ntk.max_position, length, s.head_dim, pair);
}

/// Row `row` of q (or of the fused qkv, then with bias, and normalized and rotated unless `position` is below
/// 0).
template <class T>
std::vector<float> load_row(const AttentionDecodeArgs& a, const Shape& s, std::int64_t b, std::int64_t row,
                            std::int64_t position) {
  const std::int64_t d = s.head_dim;
  const T* from = static_cast<const T*>(a.q) + (b * (s.append ? s.rows() : s.q_heads) + row) * d;
  std::vector<float> x(from, from + d);
  if (!s.append) return x;
  if (a.bias) {
    const T* bias = static_cast<const T*>(a.bias) + row * d;
    for (std::int64_t i = 0; i < d; ++i) x[i] += bias[i];
  }
  if (position < 0) return x;
  if (s.norm) {
    const auto& norm = static_cast<const NormDecodeArgs&>(a);
    normalize_head<T>(x, norm.qk_norm, row < s.q_heads, norm.eps);
  }
  const std::int64_t half = d / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    const float angle = position * inv_freq_of(a, s, position, i);
    const std::int64_t first = s.interleaved ? 2 * i : i, second = s.interleaved ? 2 * i + 1 : i + half;
    const float c = std::cos(angle), sn = std::sin(angle), low = x[first], high = x[second];
    x[first] = low * c - high * sn;
    x[second] = high * c + low * sn;
  }
  return x;
}

template <class T, class C>
void append_row(const AttentionDecodeArgs& a, const Shape& s, std::int64_t b, std::int64_t kv_head) {
  const std::int64_t position = a.lengths[b] - 1;
  if (position < 0) return;
  auto k = load_row<T>(a, s, b, s.q_heads + kv_head, position);
  auto v = load_row<T>(a, s, b, s.q_heads + s.kv_heads + kv_head, -1);
  for (auto* row : {&k, &v})
    for (float& value : *row) value = T(value);
  HeadCache<C>(a, s, b, kv_head).append(position, k, v);
}

/// What is added to the score of a key.
template <class T>
float score_bias(const AttentionDecodeArgs& a, const Shape& s, std::int64_t b, std::int64_t head,
                 std::int64_t key) {
  if (s.score_bias == ScoreBias::alibi) return a.alibi_slopes[head] * (key - (a.lengths[b] - 1));
  if (s.score_bias == ScoreBias::additive)
    return static_cast<const T*>(a.score_bias)[(b * s.q_heads + head) * a.capacity + key];
  return 0;
}

/// What leaves: the weighted sum of V over the sum of weights, those relative to a score of `max`.
template <class T>
void store_out(const AttentionDecodeArgs& a, const Shape& s, std::int64_t b, std::int64_t head,
               const std::vector<float>& sums, float sum, float max) {
  const std::int64_t row = b * s.q_heads + head;
  for (std::int64_t i = 0; i < s.head_dim; ++i) {
    float x = sum > 0 ? sums[i] / sum : 0.0f;
    const auto of_row = [&](const void* vector) -> float {
      return static_cast<const T*>(vector)[head * s.head_dim + i];
    };
    if (s.epilogue == Epilogue::smooth || s.epilogue == Epilogue::quantize)
      x = (x + of_row(a.shift)) * of_row(a.smooth);
    if (s.epilogue == Epilogue::quantize) x *= a.out_scale;
    store(s.out, a.out, row * s.head_dim + i, x);
  }
  if (a.lse) a.lse[row] = sum > 0 ? max + std::log(sum) : -std::numeric_limits<float>::infinity();
}

/// All scores, then softmax, then the weighted sum of V.
template <class T, class C>
void attend_naive(const AttentionDecodeArgs& a, const Shape& s, std::int64_t b, std::int64_t head) {
  const std::int64_t length = a.lengths[b], first = s.first_key(length);
  const HeadCache<C> cache(a, s, b, head / s.group());
  std::vector<float> sums(s.head_dim), scores;
  float sum = 0, max = -std::numeric_limits<float>::infinity();
  if (length > 0) {
    const auto q = load_row<T>(a, s, b, head, length - 1);
    for (std::int64_t key = first; key < length; ++key)
      scores.push_back(cache.score(q, key) * a.scale + score_bias<T>(a, s, b, head, key));
    max = *std::ranges::max_element(scores);
  }
  if (std::isfinite(max))
    for (std::int64_t key = first; key < length; ++key) {
      const float weight = std::exp(scores[key - first] - max);
      sum += weight;
      cache.add_value(sums, key, weight);
    }
  store_out<T>(a, s, b, head, sums, sum, max);
}

/// Online softmax over tiles of keys, all query heads of a KV head together: K and V are read once.
template <class T, class C>
void attend_blocked(const AttentionDecodeArgs& a, const Shape& s, std::int64_t b, std::int64_t kv_head,
                    std::int64_t tile_kv) {
  const std::int64_t length = a.lengths[b], group = s.group();
  const HeadCache<C> cache(a, s, b, kv_head);
  struct Head {
    std::vector<float> q, sums;
    float max = -std::numeric_limits<float>::infinity(), sum = 0;
  };
  std::vector<Head> heads(group);
  for (std::int64_t h = 0; h < group; ++h) {
    Head& head = heads[h];
    head.sums.assign(s.head_dim, 0.0f);
    if (length > 0) head.q = load_row<T>(a, s, b, kv_head * group + h, length - 1);
  }
  std::vector<float> scores(tile_kv);
  for (std::int64_t first = s.first_key(length); first < length; first += tile_kv) {
    const std::int64_t n = std::min(tile_kv, length - first);
    for (std::int64_t h = 0; h < group; ++h) {
      Head& head = heads[h];
      float max = head.max;
      for (std::int64_t i = 0; i < n; ++i)
        max = std::max(max, scores[i] = cache.score(head.q, first + i) * a.scale +
                                        score_bias<T>(a, s, b, kv_head * group + h, first + i));
      if (std::isinf(max)) continue;  // every key so far is masked
      const float rescale = std::exp(head.max - max);
      head.max = max;
      head.sum *= rescale;
      for (float& value : head.sums) value *= rescale;
      for (std::int64_t i = 0; i < n; ++i) {
        const float weight = std::exp(scores[i] - max);
        head.sum += weight;
        cache.add_value(head.sums, first + i, weight);
      }
    }
  }
  for (std::int64_t h = 0; h < group; ++h) {
    const Head& head = heads[h];
    store_out<T>(a, s, b, kv_head * group + h, head.sums, head.sum, head.max);
  }
}

template <class T, class C>
void append_all(const AttentionDecodeArgs& a, const Shape& s, int threads) {
  if (!s.append) return;
  parallel_for(a.batch * s.kv_heads, threads,
               [&](std::int64_t i) { append_row<T, C>(a, s, i / s.kv_heads, i % s.kv_heads); });
}

/// Epilogue::project, after the rows of all heads.
template <class T>
void project_all(const AttentionDecodeArgs& decode, const Shape& s, int threads) {
  if (s.epilogue != Epilogue::project) return;
  const auto& a = static_cast<const ProjectDecodeArgs&>(decode);
  const std::int64_t n = s.q_heads * s.head_dim;
  parallel_for(a.batch * s.hidden, threads, [&](std::int64_t i) {
    const T* const x = static_cast<const T*>(a.out) + i / s.hidden * n;
    const T* const weight = static_cast<const T*>(a.o_weight) + i % s.hidden * n;
    float sum = static_cast<const T*>(a.residual)[i];
    for (std::int64_t j = 0; j < n; ++j) sum += static_cast<float>(weight[j]) * x[j];
    static_cast<T*>(a.y)[i] = sum;
  });
}

}  // namespace

std::vector<Variant> attention_decode_host() {
  return {
      {
          .name = "host_naive",
          .idea = "head after head: all scores, softmax, weighted sum",
          .backend = Backend::host,
          .constraints = {"!deterministic"},
          .host =
              [](const Problem& p, const Config&) {
                return [s = Shape(p)](const void* raw) {
                  const auto& a = *static_cast<const AttentionDecodeArgs*>(raw);
                  with_types(s, [&]<class T, class C>() {
                    append_all<T, C>(a, s, 1);
                    for (std::int64_t i = 0; i < a.batch * s.q_heads; ++i)
                      attend_naive<T, C>(a, s, i / s.q_heads, i % s.q_heads);
                    project_all<T>(a, s, 1);
                  });
                };
              },
          .workspace = kRowsWorkspace,
      },
      {
          .name = "host_blocked",
          .idea = "KV heads over threads, online softmax over tiles of keys for a whole group",
          .backend = Backend::host,
          .parameters = {{"threads", {1, 2, 4, 8}, "worker threads"},
                         {"tile_kv", {16, 64, 256}, "keys per tile"}},
          .constraints = {"threads <= sms", "threads <= batch * kv_heads || threads == 1",
                          // A deterministic sum has one order: that of this variant with tiles of 64 keys.
                          "tile_kv == 64 || !deterministic",
                          "tile_kv < 2 * context || tile_kv == 16 || deterministic"},
          .host =
              [](const Problem& p, const Config& c) {
                return [s = Shape(p), threads = c["threads"], tile_kv = c["tile_kv"]](const void* raw) {
                  const auto& a = *static_cast<const AttentionDecodeArgs*>(raw);
                  with_types(s, [&]<class T, class C>() {
                    append_all<T, C>(a, s, threads);
                    parallel_for(a.batch * s.kv_heads, threads, [&](std::int64_t i) {
                      attend_blocked<T, C>(a, s, i / s.kv_heads, i % s.kv_heads, tile_kv);
                    });
                    project_all<T>(a, s, threads);
                  });
                };
              },
          .workspace = kRowsWorkspace,
      },
  };
}

}  // namespace warptune
