// How attention_prefill runs on the CPU.
#include <algorithm>
#include <cmath>

#include "attention_prefill/args.h"
#include "attention_prefill/attention_prefill.h"
#include "core/parallel.h"

namespace warptune {
namespace {

/// What is fixed for a plan.
struct Shape {
  std::int64_t q_heads, kv_heads, head_dim;
  bool causal;
};

/// One query of one head; keys in steps of `tile` with an online softmax.
template <class T>
void attend(const AttentionPrefillArgs& a, const Shape& s, std::int64_t tile, std::int64_t unit) {
  const std::int64_t row = unit / s.q_heads, head = unit % s.q_heads, head_dim = s.head_dim;
  std::int64_t b = 0;
  while (a.cu_seqlens[b + 1] <= row) ++b;
  const std::int64_t q_len = a.cu_seqlens[b + 1] - a.cu_seqlens[b], kv_len = a.kv_lens[b];
  const std::int64_t seen = s.causal ? std::min(kv_len, row - a.cu_seqlens[b] + kv_len - q_len + 1) : kv_len;
  const std::int64_t cache = (b * s.kv_heads + head / (s.q_heads / s.kv_heads)) * a.capacity * head_dim;
  const T* q = static_cast<const T*>(a.q) + unit * head_dim;
  const T* k = static_cast<const T*>(a.k_cache) + cache;
  const T* v = static_cast<const T*>(a.v_cache) + cache;

  std::vector<float> sums(static_cast<std::size_t>(head_dim), 0.0f), scores(static_cast<std::size_t>(tile));
  float most = -INFINITY, total = 0;
  for (std::int64_t first = 0; first < seen; first += tile) {
    const std::int64_t count = std::min(tile, seen - first);
    float tile_most = most;
    for (std::int64_t i = 0; i < count; ++i) {
      float score = 0;
      for (std::int64_t d = 0; d < head_dim; ++d)
        score += static_cast<float>(q[d]) * static_cast<float>(k[(first + i) * head_dim + d]);
      scores[static_cast<std::size_t>(i)] = score * a.scale;
      tile_most = std::max(tile_most, score * a.scale);
    }
    const float shrink = std::exp(most - tile_most);
    most = tile_most;
    total *= shrink;
    for (float& x : sums) x *= shrink;
    for (std::int64_t i = 0; i < count; ++i) {
      const float weight = std::exp(scores[static_cast<std::size_t>(i)] - most);
      total += weight;
      for (std::int64_t d = 0; d < head_dim; ++d)
        sums[static_cast<std::size_t>(d)] += weight * static_cast<float>(v[(first + i) * head_dim + d]);
    }
  }
  T* out = static_cast<T*>(a.out) + unit * head_dim;
  for (std::int64_t d = 0; d < head_dim; ++d)
    out[d] = static_cast<T>(total > 0 ? sums[static_cast<std::size_t>(d)] / total : 0.0f);
}

/// `tile` 0: all keys of the longest sequence in one step, a plain softmax.
HostFunction run(const Problem& p, int threads, std::int64_t tile) {
  const Shape shape{.q_heads = p["q_heads"],
                    .kv_heads = p["kv_heads"],
                    .head_dim = p["head_dim"],
                    .causal = p["causal"] == 1};
  return [=, dtype = p.dtype](const void* raw) {
    const auto& a = *static_cast<const AttentionPrefillArgs*>(raw);
    const std::int64_t step =
        tile > 0 ? tile : std::max(1, *std::max_element(a.kv_lens, a.kv_lens + a.batch));
    with_float_dtype(dtype, [&]<class T>() {
      parallel_for(a.cu_seqlens[a.batch] * shape.q_heads, threads,
                   [&](std::int64_t unit) { attend<T>(a, shape, step, unit); });
    });
  };
}

}  // namespace

std::vector<Variant> attention_prefill_host() {
  return {
      {
          .name = "host_naive",
          .idea = "one query after the other, all its keys at once",
          .backend = Backend::host,
          .host = [](const Problem& p, const Config&) { return run(p, 1, 0); },
      },
      {
          .name = "host_blocked",
          .idea = "queries over threads, online softmax over blocks of keys",
          .backend = Backend::host,
          .parameters = {{"threads", {1, 2, 4, 8}, "worker threads"},
                         {"block", {16, 64, 256}, "keys per step"}},
          .constraints = {"threads <= sms", "block <= kv_len || block == 16"},
          .host = [](const Problem& p,
                     const Config& c) { return run(p, static_cast<int>(c["threads"]), c["block"]); },
      },
  };
}

}  // namespace warptune
