// What attention_prefill is. Source: Vaswani et al., "Attention Is All You Need", 2017; the causal mask is
// aligned to the bottom right.
#include <algorithm>
#include <cmath>

#include "attention_prefill/args.h"
#include "attention_prefill/attention_prefill.h"
#include "core/error.h"

namespace warptune {
namespace {

/// The lengths of a problem; all the longest unless uneven.
struct Lengths {
  std::vector<std::int32_t> cu_seqlens = {0}, kv_lens;
};

Lengths lengths_of(const Problem& p) {
  const std::int64_t q_len = p["q_len"], kv_len = p["kv_len"];
  Lengths l;
  for (std::int64_t b = 0; b < p["batch"]; ++b) {
    std::int64_t q = q_len, kv = kv_len;
    if (p["uneven"] == 1) {
      const std::int64_t queries[] = {q_len, 1, 0, q_len - q_len / 3, q_len / 3 + 1};
      const std::int64_t keys[] = {kv_len, std::max<std::int64_t>(1, kv_len - q_len + 1), kv_len / 2 + 1,
                                   kv_len / 3 + 1, kv_len - kv_len / 4};
      q = queries[b % 5], kv = keys[b % 5];
    }
    l.cu_seqlens.push_back(l.cu_seqlens.back() + static_cast<std::int32_t>(q));
    l.kv_lens.push_back(static_cast<std::int32_t>(std::min(kv, kv_len)));
  }
  return l;
}

std::int64_t capacity_of(const Problem& p) { return p["kv_len"] + 8; }

void check(const Problem& p) {
  if (p["q_heads"] % p["kv_heads"] != 0)
    throw InputError("attention_prefill: q_heads must be a multiple of kv_heads");
  if (p["batch"] * p["q_heads"] > 65535)
    throw InputError("attention_prefill: batch * q_heads is above 65535");
  if (p["batch"] * p["q_len"] > (1 << 30) || p["kv_len"] > (1 << 30))
    throw InputError("attention_prefill: lengths must stay below 2^30");
}

std::vector<TensorSpec> tensors(const Problem& p, std::uint64_t) {
  Lengths l = lengths_of(p);
  const std::vector<std::int64_t> rows = {l.cu_seqlens.back(), p["q_heads"], p["head_dim"]};
  const std::vector<std::int64_t> cache = {p["batch"], p["kv_heads"], capacity_of(p), p["head_dim"]};
  return {
      {.name = "q", .dtype = p.dtype, .shape = rows, .scale = 2.0f},
      {.name = "k_cache", .dtype = p.dtype, .shape = cache, .scale = 2.0f},
      {.name = "v_cache", .dtype = p.dtype, .shape = cache},
      {.name = "cu_seqlens",
       .dtype = DType::int32,
       .shape = {p["batch"] + 1},
       .cache = CacheState::hot,
       .values = std::move(l.cu_seqlens)},
      {.name = "kv_lens",
       .dtype = DType::int32,
       .shape = {p["batch"]},
       .cache = CacheState::hot,
       .values = std::move(l.kv_lens)},
      {.name = "out", .dtype = p.dtype, .shape = rows, .role = Role::output},
  };
}

float scale_of(const Problem& p) { return 1.0f / std::sqrt(static_cast<float>(p["head_dim"])); }

/// A unit is one query of one head.
void reference(const Problem& p, const Inputs& in, std::int64_t unit, Expected& out) {
  const std::int64_t q_heads = p["q_heads"], kv_heads = p["kv_heads"], head_dim = p["head_dim"];
  const std::int64_t row = unit / q_heads, head = unit % q_heads;
  const Values q = in["q"], k = in["k_cache"], v = in["v_cache"], starts = in["cu_seqlens"];
  std::int64_t b = 0;
  while (starts[b + 1] <= static_cast<double>(row)) ++b;
  const auto first = static_cast<std::int64_t>(starts[b]);
  const auto q_len = static_cast<std::int64_t>(starts[b + 1]) - first;
  const auto kv_len = static_cast<std::int64_t>(in["kv_lens"][b]);
  const std::int64_t seen = p["causal"] == 1 ? std::min(kv_len, row - first + kv_len - q_len + 1) : kv_len;
  const std::int64_t cache = (b * kv_heads + head / (q_heads / kv_heads)) * capacity_of(p) * head_dim;

  std::vector<double> query, scores, result(static_cast<std::size_t>(head_dim), 0.0);
  for (std::int64_t d = 0; d < head_dim; ++d) query.push_back(q[unit * head_dim + d]);
  double most = -INFINITY, sum = 0;
  for (std::int64_t key = 0; key < seen; ++key) {
    double score = 0;
    for (std::int64_t d = 0; d < head_dim; ++d)
      score += query[static_cast<std::size_t>(d)] * k[cache + key * head_dim + d];
    scores.push_back(score * scale_of(p));
    most = std::max(most, scores.back());
  }
  for (std::int64_t key = 0; key < seen; ++key) {
    const double weight = std::exp(scores[static_cast<std::size_t>(key)] - most);
    sum += weight;
    for (std::int64_t d = 0; d < head_dim; ++d)
      result[static_cast<std::size_t>(d)] += weight * v[cache + key * head_dim + d];
  }
  if (seen > 0)
    for (double& x : result) x /= sum;
  out.put("out", unit * head_dim, std::move(result));
}

Cost cost(const Problem& p) {
  const Lengths l = lengths_of(p);
  double rows = 0, keys = 0, pairs = 0;  // pairs of a query and a key that it sees
  for (std::size_t b = 0; b < l.kv_lens.size(); ++b) {
    const double q = l.cu_seqlens[b + 1] - l.cu_seqlens[b], kv = l.kv_lens[b];
    rows += q;
    if (q > 0) keys += kv;
    const double seeing = std::min(q, kv);  // causal: the last queries, which see kv - seeing + 1 to kv keys
    pairs += p["causal"] == 1 ? seeing * (kv - seeing) + seeing * (seeing + 1) / 2 : q * kv;
  }
  const double head_dim = static_cast<double>(p["head_dim"]), q_heads = static_cast<double>(p["q_heads"]);
  return Cost{.bytes = 2 * head_dim * (rows * q_heads + keys * static_cast<double>(p["kv_heads"])) *
                       static_cast<double>(size_of(p.dtype)),
              .flops = 4 * pairs * q_heads * head_dim};
}

}  // namespace

Op attention_prefill() {
  return {
      .name = "attention_prefill",
      .summary = "softmax(q . K * scale) . V for many queries per sequence, causal or not",
      .dims = {{"batch", "sequences"},
               {"q_len", "queries of the longest sequence"},
               {"kv_len", "keys of the longest sequence, its queries' own included"},
               {"q_heads", "query heads"},
               {"kv_heads", "key and value heads"},
               {"head_dim", "elements per head"},
               {"causal", "a query does not see later keys", 1, {"no", "yes"}},
               {"uneven", "sequences of different lengths", 0, {"no", "yes"}}},
      .check = check,
      .tensors = tensors,
      .bind =
          [](const Problem& p, std::span<void* const> t, void* workspace) {
            return Args(AttentionPrefillArgs{.q = t[0],
                                             .k_cache = t[1],
                                             .v_cache = t[2],
                                             .cu_seqlens = static_cast<const int*>(t[3]),
                                             .kv_lens = static_cast<const int*>(t[4]),
                                             .out = t[5],
                                             .workspace = workspace,
                                             .batch = static_cast<int>(p["batch"]),
                                             .capacity = static_cast<int>(capacity_of(p)),
                                             .scale = scale_of(p)});
          },
      .cost = cost,
      .units = [](const Problem& p) { return lengths_of(p).cu_seqlens.back() * p["q_heads"]; },
      .reference = reference,
      .tolerance = [](const Problem& p) { return default_tolerance(p.dtype, 3); },
  };
}

}  // namespace warptune
