// The op attention_prefill: dims, tensors, cost and fp64 reference. Sources: Vaswani et al., "Attention Is
// All You Need", 2017; Press et al., "Train Short, Test Long" (ALiBi), 2021; Kwon et al., "PagedAttention",
// 2023. Masks are aligned as args.h says.
#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "harness/core/error.h"
#include "kernels/attention_prefill/args.h"
#include "kernels/common/vec_width.h"
#include "variants/attention_prefill/attention_prefill.h"
#include "variants/attention_prefill/problem.h"

namespace warptune {
namespace {

using namespace prefill;

/// Lengths of the sequences of a problem; without `uneven` all have q_len queries and kv_len keys.
struct Lengths {
  std::vector<std::int32_t> q_lens, kv_lens;
};

Lengths lengths_of(const Problem& p) {
  const std::int64_t q_len = p["q_len"], kv_len = p["kv_len"];
  const std::int64_t queries[] = {q_len, 1, 0, q_len - q_len / 3, q_len / 3 + 1, q_len / 2 + 1};
  const std::int64_t keys[] = {kv_len,
                               std::max<std::int64_t>(1, kv_len - q_len + 1),
                               kv_len / 2 + 1,
                               kv_len / 3 + 1,
                               kv_len - kv_len / 4,
                               0};
  Lengths l;
  for (std::int64_t b = 0; b < p["batch"]; ++b) {
    const bool uneven = p["uneven"] == 1;
    l.q_lens.push_back(static_cast<std::int32_t>(uneven ? std::min(queries[b % 6], q_len) : q_len));
    l.kv_lens.push_back(static_cast<std::int32_t>(uneven ? std::min(keys[b % 6], kv_len) : kv_len));
  }
  return l;
}

/// First rows of packed sequences of these lengths, and the end of the last one; `gap` unused rows lie
/// between two sequences.
std::vector<std::int32_t> starts_of(const std::vector<std::int32_t>& lengths, std::int32_t gap) {
  std::vector<std::int32_t> starts = {0};
  for (const std::int32_t length : lengths) starts.push_back(starts.back() + length + gap);
  return starts;
}

std::int64_t tokens_of(const Problem& p) {
  const Lengths l = lengths_of(p);
  return std::accumulate(l.q_lens.begin(), l.q_lens.end(), std::int64_t{0});
}
std::vector<std::int32_t> key_starts_of(const Problem& p) {
  return starts_of(lengths_of(p).kv_lens, p["uneven"] == 1 ? 3 : 0);
}
std::int64_t capacity_of(const Problem& p) { return packed(p) ? key_starts_of(p).back() : p["kv_len"] + 8; }
std::int64_t q_stride_of(const Problem& p) {
  return p["q_stride"] == 0 ? p["q_heads"] * p["head_dim"] : p["q_stride"];
}
std::int64_t max_pages_of(const Problem& p) { return ceil_div(p["kv_len"], p["page_size"]); }
float scale_of(const Problem& p) { return 1.0f / std::sqrt(static_cast<float>(p["head_dim"])); }

/// Page numbers in a scattered order (a step coprime to their count); -1 where a sequence has no keys.
std::vector<std::int32_t> block_table_of(const Problem& p) {
  const std::int64_t max_pages = max_pages_of(p), pages = p["batch"] * max_pages;
  std::int64_t step = pages * 5 / 8 + 1;
  while (std::gcd(step, pages) != 1) ++step;
  std::vector<std::int32_t> table;
  for (const std::int32_t kv_len : lengths_of(p).kv_lens)
    for (std::int64_t page = 0; page < max_pages; ++page)
      table.push_back(
          page * p["page_size"] < kv_len
              ? static_cast<std::int32_t>((static_cast<std::int64_t>(table.size()) + 1) * step % pages)
              : -1);
  return table;
}

void check(const Problem& p) {
  const auto require = [](bool holds, const std::string& sentence) {
    if (!holds) throw InputError("attention_prefill: " + sentence);
  };
  require(p["q_heads"] % p["kv_heads"] == 0,
          fmt::format("q_heads ({}) must be a multiple of kv_heads ({})", p["q_heads"], p["kv_heads"]));
  require(p["batch"] * p["q_heads"] <= 65535,
          fmt::format("batch * q_heads ({}) must be at most 65535", p["batch"] * p["q_heads"]));
  require(p["batch"] * p["q_len"] <= (1 << 30) && p["kv_len"] <= (1 << 30),
          fmt::format("batch * q_len ({}) and kv_len ({}) must be at most 2^30", p["batch"] * p["q_len"],
                      p["kv_len"]));
  require(p["window"] == 0 || causal_mask(p) != CausalMask::none,
          fmt::format("window ({}) needs causal=yes or causal=top_left", p["window"]));
  require(p["dropout"] < 100, fmt::format("dropout ({}) is in percent and must be below 100", p["dropout"]));
  const std::int64_t page_size = p["page_size"];
  require(page_size == 0 || (page_size >= 16 && page_size <= 256 && (page_size & (page_size - 1)) == 0),
          fmt::format("page_size ({}) must be 0 or a power of two from 16 to 256", page_size));
  require(page_size == 0 || !packed(p), "K and V are either packed or paged, not both");
  require(p["precision"] == 0 || p.dtype == DType::fp32,
          fmt::format("precision=tf32 needs dtype=fp32, not {}", name_of(p.dtype)));
  const std::int64_t row = p["q_heads"] * p["head_dim"], q_stride = p["q_stride"];
  const std::int64_t vector = vec_width(16 / static_cast<int>(size_of(p.dtype)), p["head_dim"]);
  require(q_stride == 0 || q_stride >= row,
          fmt::format("q_stride ({}) is below the {} elements of a row", q_stride, row));
  require(
      q_stride % vector == 0,
      fmt::format("q_stride ({}) must be a multiple of {} elements, as head_dim is, for rows to stay aligned",
                  q_stride, vector));
}

std::vector<TensorSpec> tensors(const Problem& p, std::uint64_t seed) {
  const std::int64_t batch = p["batch"], q_heads = p["q_heads"], kv_heads = p["kv_heads"],
                     page_size = p["page_size"];
  const Lengths l = lengths_of(p);
  const auto kv_shape = [&](std::int64_t d) -> std::vector<std::int64_t> {
    if (packed(p)) return {capacity_of(p), kv_heads, d};
    if (page_size > 0) return {batch * max_pages_of(p), kv_heads, page_size, d};
    return {batch, kv_heads, capacity_of(p), d};
  };
  const auto ints = [](std::string name, std::vector<std::int32_t> values) {
    return TensorSpec{.name = std::move(name),
                      .dtype = DType::int32,
                      .shape = {static_cast<std::int64_t>(values.size())},
                      .cache = CacheState::hot,
                      .values = std::move(values)};
  };
  std::vector<TensorSpec> specs = {
      {.name = "q", .dtype = p.dtype, .shape = {tokens_of(p), q_stride_of(p)}, .scale = 2.0f},
      {.name = "k_cache", .dtype = p.dtype, .shape = kv_shape(p["head_dim"]), .scale = 2.0f},
      {.name = "v_cache", .dtype = p.dtype, .shape = kv_shape(value_dim(p))},
      ints("cu_seqlens", starts_of(l.q_lens, 0)),
      ints("kv_lens", l.kv_lens),
      {.name = "out", .dtype = p.dtype, .shape = {tokens_of(p), q_heads, value_dim(p)}, .role = Role::output},
  };
  if (packed(p)) specs.push_back(ints("seqstart_k", key_starts_of(p)));
  if (page_size > 0) specs.push_back(ints("block_table", block_table_of(p)));
  if (score_bias(p) == ScoreBias::additive)
    specs.push_back(
        {.name = "score_bias", .dtype = p.dtype, .shape = {q_heads, p["q_len"], p["kv_len"]}, .scale = 2.0f});
  if (score_bias(p) == ScoreBias::alibi) {
    TensorSpec slopes{.name = "alibi_slopes", .shape = {q_heads}, .cache = CacheState::hot};
    for (std::int64_t h = 1; h <= q_heads; ++h)
      slopes.floats.push_back(std::exp2(-8.0f * static_cast<float>(h) / static_cast<float>(q_heads)));
    specs.push_back(std::move(slopes));
  }
  if (p["dropout"] > 0)
    specs.push_back(ints("philox", {static_cast<std::int32_t>(random_bits(seed, 0)),
                                    static_cast<std::int32_t>(random_bits(seed, 1)),
                                    static_cast<std::int32_t>(random_bits(seed, 2)),
                                    static_cast<std::int32_t>(random_bits(seed, 3) & 0xffff)}));
  if (p["lse"] == 1)
    specs.push_back({.name = "lse", .shape = {batch, q_heads, lse_rows(p["q_len"])}, .role = Role::output});
  return specs;
}

Args bind(const Problem& p, std::span<void* const> t, void* workspace) {
  AttentionPrefillArgs a{.q = t[0],
                         .k_cache = t[1],
                         .v_cache = t[2],
                         .cu_seqlens = static_cast<const int*>(t[3]),
                         .kv_lens = static_cast<const int*>(t[4]),
                         .out = t[5],
                         .workspace = workspace,
                         .batch = static_cast<int>(p["batch"]),
                         .capacity = static_cast<int>(capacity_of(p)),
                         .scale = scale_of(p),
                         .tokens = static_cast<int>(tokens_of(p)),
                         .q_len = static_cast<int>(p["q_len"]),
                         .kv_len = static_cast<int>(p["kv_len"]),
                         .q_stride = q_stride_of(p),
                         .window = static_cast<int>(p["window"])};
  std::size_t next = 6;  // optional tensors, in the order of tensors()
  if (packed(p)) a.seqstart_k = static_cast<const int*>(t[next++]);
  if (p["page_size"] > 0) {
    a.block_table = static_cast<const int*>(t[next++]);
    a.max_pages = static_cast<int>(max_pages_of(p));
  }
  if (score_bias(p) == ScoreBias::additive) a.score_bias = t[next++];
  if (score_bias(p) == ScoreBias::alibi) a.alibi_slopes = static_cast<const float*>(t[next++]);
  if (p["dropout"] > 0) {
    a.philox = static_cast<const unsigned*>(t[next++]);
    a.drop_below = drop_below(p["dropout"]);
    a.keep_scale = static_cast<float>(keep_scale(p["dropout"]));
  }
  if (p["lse"] == 1) a.lse = static_cast<float*>(t[next++]);
  return Args(a);
}

/// Element 0 of the K (or V) row of key `key` of a KV head, rows of `d` elements.
std::int64_t row_of(const Problem& p, const Inputs& in, std::int64_t b, std::int64_t head, std::int64_t key,
                    std::int64_t d) {
  const std::int64_t kv_heads = p["kv_heads"], page_size = p["page_size"];
  if (packed(p)) return ((static_cast<std::int64_t>(in["seqstart_k"][b]) + key) * kv_heads + head) * d;
  if (page_size == 0) return ((b * kv_heads + head) * capacity_of(p) + key) * d;
  const auto page = static_cast<std::int64_t>(in["block_table"][b * max_pages_of(p) + key / page_size]);
  return ((page * kv_heads + head) * page_size + key % page_size) * d;
}

/// Units: one query of one head each; then, with lse, the padding of lse of each head.
void reference(const Problem& p, const Inputs& in, std::int64_t unit, Expected& out) {
  const std::int64_t q_heads = p["q_heads"], d_qk = p["head_dim"], d_v = value_dim(p);
  const CausalMask causal = causal_mask(p);
  const std::int64_t padded = lse_rows(p["q_len"]), beyond = unit - tokens_of(p) * q_heads;
  const Values q = in["q"], k = in["k_cache"], v = in["v_cache"], starts = in["cu_seqlens"];
  if (beyond >= 0) {
    const auto q_len = static_cast<std::int64_t>(starts[beyond / q_heads + 1] - starts[beyond / q_heads]);
    out.put("lse", beyond * padded + q_len,
            std::vector<double>(static_cast<std::size_t>(padded - q_len), INFINITY));
    return;
  }
  const std::int64_t row = unit / q_heads, head = unit % q_heads, kv_head = head / (q_heads / p["kv_heads"]);
  std::int64_t b = 0;
  while (starts[b + 1] <= static_cast<double>(row)) ++b;
  const auto first = static_cast<std::int64_t>(starts[b]), i = row - first;
  const auto q_len = static_cast<std::int64_t>(starts[b + 1]) - first;
  const auto kv_len = static_cast<std::int64_t>(in["kv_lens"][b]);
  const KeyRange keys = visible_keys(causal, p["window"], q_len, kv_len, i);

  std::vector<double> query, scores, result(static_cast<std::size_t>(d_v), 0.0);
  for (std::int64_t d = 0; d < d_qk; ++d) query.push_back(q[row * q_stride_of(p) + head * d_qk + d]);
  double row_max = -INFINITY, row_sum = 0;
  for (std::int64_t key = keys.first; key < keys.last; ++key) {
    const std::int64_t at = row_of(p, in, b, kv_head, key, d_qk);
    double score = 0;
    for (std::int64_t d = 0; d < d_qk; ++d) score += query[static_cast<std::size_t>(d)] * k[at + d];
    score *= scale_of(p);
    if (score_bias(p) == ScoreBias::additive)
      score += in["score_bias"][(head * p["q_len"] + i) * p["kv_len"] + key];
    if (score_bias(p) == ScoreBias::alibi)
      score -=
          in["alibi_slopes"][head] * static_cast<double>(std::abs(position(causal, q_len, kv_len, i) - key));
    scores.push_back(score);
    row_max = std::max(row_max, score);
  }
  std::array<std::uint32_t, 4> state{};
  if (p["dropout"] > 0)
    for (std::size_t w = 0; w < 4; ++w)
      state[w] =
          static_cast<std::uint32_t>(static_cast<std::int64_t>(in["philox"][static_cast<std::int64_t>(w)]));
  for (std::int64_t key = keys.first; key < keys.last && row_max > -INFINITY; ++key) {
    double weight = std::exp(scores[static_cast<std::size_t>(key - keys.first)] - row_max);
    row_sum += weight;
    if (p["dropout"] > 0)
      weight *=
          drops(state, drop_below(p["dropout"]), b * q_heads + head, i, key) ? 0 : keep_scale(p["dropout"]);
    if (weight == 0) continue;
    const std::int64_t at = row_of(p, in, b, kv_head, key, d_v);
    for (std::int64_t d = 0; d < d_v; ++d) result[static_cast<std::size_t>(d)] += weight * v[at + d];
  }
  if (row_sum > 0)
    for (double& x : result) x /= row_sum;
  out.put("out", unit * d_v, std::move(result));
  if (p["lse"] == 1) out.put("lse", (b * q_heads + head) * padded + i, {row_max + std::log(row_sum)});
}

Cost cost(const Problem& p) {
  const Lengths l = lengths_of(p);
  const auto size = static_cast<double>(size_of(p.dtype));
  const auto q_heads = static_cast<double>(p["q_heads"]), kv_heads = static_cast<double>(p["kv_heads"]),
             d_qk = static_cast<double>(p["head_dim"]), d_v = static_cast<double>(value_dim(p));
  double rows = 0, keys = 0, pages = 0, pairs = 0, most_pairs = 0;  // a pair: a query and a key that it sees
  double one_pairs = 0, one_keys = 0;
  for (std::size_t b = 0; b < l.kv_lens.size(); ++b) {
    const std::int64_t q_len = l.q_lens[b], kv_len = l.kv_lens[b];
    if (b == 0 || p["uneven"] == 1) {
      one_pairs = 0;
      std::int64_t first = kv_len, last = 0;
      for (std::int64_t i = 0; i < q_len; ++i) {
        const KeyRange seen = visible_keys(causal_mask(p), p["window"], q_len, kv_len, i);
        if (seen.last == 0) continue;
        one_pairs += static_cast<double>(seen.last - seen.first);
        first = std::min(first, seen.first), last = std::max(last, seen.last);
      }
      one_keys = static_cast<double>(std::max<std::int64_t>(0, last - first));
    }
    rows += static_cast<double>(q_len);
    keys += one_keys;
    pairs += one_pairs;
    most_pairs = std::max(most_pairs, one_pairs);
    if (p["page_size"] > 0) pages += std::ceil(one_keys / static_cast<double>(p["page_size"]));
  }
  Cost c{.bytes = (rows * q_heads + keys * kv_heads) * (d_qk + d_v) * size + 4 * pages,
         .flops = 2 * pairs * q_heads * (d_qk + d_v)};
  if (score_bias(p) == ScoreBias::additive) c.bytes += most_pairs * q_heads * size;
  if (p["lse"] == 1) c.bytes += 4.0 * static_cast<double>(p["batch"] * p["q_heads"] * lse_rows(p["q_len"]));
  return c;
}

}  // namespace

Op attention_prefill() {
  return {
      .name = "attention_prefill",
      .summary = "softmax(q . K * scale + bias) . V for many queries per sequence",
      .dims = {work_dim({"batch", "sequences"}),
               work_dim({"q_len", "queries of the longest sequence"}),
               work_dim({"kv_len", "keys of the longest sequence, its queries' own included"}),
               parallel_dim({"q_heads", "query heads"}),
               parallel_dim({"kv_heads", "key and value heads"}),
               {"head_dim", "elements per head"},
               {"causal",
                "causal mask; yes: bottom-right alignment (the last query sees all keys), top_left: the "
                "first sees one",
                1,
                {"no", "yes", "top_left"}},
               data_dim({"uneven",
                         "sequences of different lengths (varlen), some without queries or keys",
                         0,
                         {"no", "yes"}}),
               {"head_dim_v", "elements per head of V and the output; 0: head_dim", 0, {}, 0, true},
               {"window",
                "sliding window: number of keys that a query sees, the last ones; 0: all",
                0,
                {},
                0,
                true},
               {"score_bias", "what is added to the scores", 0, {"none", "additive", "alibi"}, 0, true},
               {"dropout", "percent of the weights that are dropped", 0, {}, 0, true},
               {"kv_layout",
                "K and V as a cache of fixed capacity per sequence, or as packed rows",
                0,
                {"cache", "packed"},
                0,
                true},
               {"page_size", "keys per page of a paged cache; 0: contiguous", 0, {}, 0, true},
               {"q_stride", "elements from a row of q to the next; 0: q_heads * head_dim", 0, {}, 0, true},
               {"lse", "whether the log-sum-exp of the scores is an output", 0, {"no", "yes"}, 0, true},
               {"precision",
                "of fp32 products; tf32: operands may be rounded to 10 bits of mantissa",
                0,
                {"ieee", "tf32"},
                0,
                true}},
      .check = check,
      .tensors = tensors,
      .bind = bind,
      .cost = cost,
      .sharing =
          [](const Problem& p) {
            return static_cast<double>(p["q_heads"]) / static_cast<double>(p["kv_heads"]);
          },
      .units =
          [](const Problem& p) { return (tokens_of(p) + (p["lse"] == 1 ? p["batch"] : 0)) * p["q_heads"]; },
      .reference = reference,
      // TF32 has the mantissa of fp16.
      .tolerance =
          [](const Problem& p) { return default_tolerance(p["precision"] == 1 ? DType::fp16 : p.dtype, 3); },
  };
}

}  // namespace warptune
