// How rope_append runs on the CPU.
#include <cmath>

#include "core/parallel.h"
#include "core/rope.h"
#include "rope_append/args.h"
#include "rope_append/rope_append.h"

namespace warptune {
namespace {

/// What is fixed for a plan.
struct Shape {
  std::int64_t q_heads, kv_heads, head_dim;
  bool interleaved, dynamic, split;
};

template <class T>
void append_token(const RopeAppendArgs& a, const Shape& s, std::int64_t token) {
  const std::int64_t heads = s.q_heads + 2 * s.kv_heads, half = s.head_dim / 2, position = a.position[token];
  if (position < 0) return;
  const std::int64_t sequence = a.sequence[token];
  std::vector<float> x(static_cast<std::size_t>(s.head_dim)), sine(static_cast<std::size_t>(half)),
      cosine(static_cast<std::size_t>(half));
  for (std::int64_t i = 0; i < half; ++i) {
    float inv_freq = a.inv_freq[i];
    if (s.dynamic && a.lengths[sequence] > a.max_position)
      inv_freq = rope_grown_inv_freq(a.theta, a.factor, a.max_position, a.lengths[sequence],
                                     static_cast<double>(s.head_dim), static_cast<double>(i));
    const float angle = static_cast<float>(position) * inv_freq;
    sine[static_cast<std::size_t>(i)] = std::sin(angle);
    cosine[static_cast<std::size_t>(i)] = std::cos(angle);
  }
  for (std::int64_t head = 0; head < heads; ++head) {
    const T* row = static_cast<const T*>(a.qkv) + (token * heads + head) * s.head_dim;
    const T* bias = a.bias ? static_cast<const T*>(a.bias) + head * s.head_dim : nullptr;
    for (std::int64_t d = 0; d < s.head_dim; ++d)
      x[static_cast<std::size_t>(d)] =
          static_cast<float>(row[d]) + (bias ? static_cast<float>(bias[d]) : 0.0f);
    if (head < s.q_heads + s.kv_heads) {
      for (std::int64_t i = 0; i < half; ++i) {
        float& x0 = x[static_cast<std::size_t>(s.interleaved ? 2 * i : i)];
        float& x1 = x[static_cast<std::size_t>(s.interleaved ? 2 * i + 1 : i + half)];
        const float sn = sine[static_cast<std::size_t>(i)], cs = cosine[static_cast<std::size_t>(i)];
        const float turned = x0 * cs - x1 * sn;
        x1 = x0 * sn + x1 * cs;
        x0 = turned;
      }
    }
    const bool is_q = head < s.q_heads, is_k = !is_q && head < s.q_heads + s.kv_heads;
    const std::int64_t kv_head = head - s.q_heads - (is_k ? 0 : s.kv_heads);
    const std::int64_t cache_row = (sequence * s.kv_heads + kv_head) * a.capacity;
    constexpr std::int64_t kX = 16 / sizeof(T);
    for (std::int64_t d = 0; d < s.head_dim; ++d) {
      const T y = static_cast<T>(x[static_cast<std::size_t>(d)]);
      if (is_q)
        static_cast<T*>(a.q)[(token * s.q_heads + head) * s.head_dim + d] = y;
      else if (is_k && s.split)
        static_cast<T*>(a.k_cache)[cache_row * s.head_dim + (d / kX * a.capacity + position) * kX + d % kX] =
            y;
      else
        static_cast<T*>(is_k ? a.k_cache : a.v_cache)[(cache_row + position) * s.head_dim + d] = y;
    }
  }
}

HostFunction run(const Problem& p, int threads) {
  const Shape shape{.q_heads = p["q_heads"],
                    .kv_heads = p["kv_heads"],
                    .head_dim = p["head_dim"],
                    .interleaved = p["style"] == 1,
                    .dynamic = p["scaling"] == static_cast<int>(RopeKind::dynamic_ntk),
                    .split = p["k_layout"] == 1};
  return [=, dtype = p.dtype](const void* raw) {
    const auto& a = *static_cast<const RopeAppendArgs*>(raw);
    with_float_dtype(dtype, [&]<class T>() {
      parallel_for(a.tokens, threads, [&](std::int64_t token) { append_token<T>(a, shape, token); });
    });
  };
}

}  // namespace

std::vector<Variant> rope_append_host() {
  return {
      {
          .name = "host_naive",
          .idea = "one token after the other",
          .backend = Backend::host,
          .host = [](const Problem& p, const Config&) { return run(p, 1); },
      },
      {
          .name = "host_threaded",
          .idea = "tokens over threads",
          .backend = Backend::host,
          .parameters = {{"threads", {1, 2, 4, 8}, "worker threads"}},
          .constraints = {"threads <= sms", "threads <= tokens || threads == 1"},
          .host = [](const Problem& p, const Config& c) { return run(p, static_cast<int>(c["threads"])); },
      },
  };
}

}  // namespace warptune
