// Tensors of attention_prefill: lengths, pages, and places of K and V in memory.
#include "variants/attention_prefill/tensors.h"

#include <cmath>
#include <numeric>

#include "variants/helpers/specs.h"

namespace warptune::prefill {
namespace {

/// First rows of packed sequences of these lengths, and the end of the last one; `gap` unused rows lie
/// between two sequences.
std::vector<std::int32_t> starts_of(const std::vector<std::int32_t>& lengths, std::int32_t gap) {
  std::vector<std::int32_t> starts = {0};
  for (const std::int32_t length : lengths) starts.push_back(starts.back() + length + gap);
  return starts;
}

std::vector<std::int32_t> key_starts_of(const Problem& p) {
  return starts_of(lengths_of(p).kv_lens, p["uneven"] == 1 ? 3 : 0);
}

/// Page numbers in a scattered order (a step coprime to their count); -1 where a sequence has no keys.
std::vector<std::int32_t> block_table_of(const Problem& p) {
  const std::int64_t max_pages = max_pages_of(p), pages = p["batch"] * max_pages;
  std::int64_t step = pages * 5 / 8 + 1;
  while (std::gcd(step, pages) != 1) ++step;
  std::vector<std::int32_t> table;
  for (const std::int32_t kv_len : lengths_of(p).kv_lens)
    for (std::int64_t page = 0; page < max_pages; ++page)
      table.push_back(page * p["page_size"] < kv_len ? (table.size() + 1) * step % pages : -1);
  return table;
}

}  // namespace

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
    l.q_lens.push_back(uneven ? std::min(queries[b % 6], q_len) : q_len);
    l.kv_lens.push_back(uneven ? std::min(keys[b % 6], kv_len) : kv_len);
    if (kv_layout(p) == KvLayout::qkv) l.kv_lens.back() = l.q_lens.back();
  }
  return l;
}

std::int64_t tokens_of(const Problem& p) {
  const Lengths l = lengths_of(p);
  return std::accumulate(l.q_lens.begin(), l.q_lens.end(), std::int64_t{0});
}
std::int64_t capacity_of(const Problem& p) {
  if (kv_layout(p) == KvLayout::qkv) return tokens_of(p);
  return packed(p) ? key_starts_of(p).back() : p["kv_len"] + 8;
}
std::int64_t q_stride_of(const Problem& p) {
  if (kv_layout(p) == KvLayout::qkv) return (p["q_heads"] + 2 * p["kv_heads"]) * p["head_dim"];
  return p["q_stride"] == 0 ? p["q_heads"] * p["head_dim"] : p["q_stride"];
}

KvPlace kv_place(const Problem& p, bool is_key) {
  const std::int64_t d = is_key ? p["head_dim"] : value_dim(p), kv_heads = p["kv_heads"],
                     rows = p["page_size"] > 0 ? p["page_size"] : capacity_of(p);
  switch (kv_layout(p)) {
    case KvLayout::packed:
      return {0, {.batch = 0, .head = d, .row = kv_heads * d}};
    case KvLayout::bshd:
      return {0, {.batch = rows * kv_heads * d, .head = d, .row = kv_heads * d}};
    case KvLayout::qkv:
      return {(p["q_heads"] + (is_key ? 0 : kv_heads)) * p["head_dim"],
              {.batch = 0, .head = d, .row = q_stride_of(p)}};
    default:
      return {0, {.batch = kv_heads * rows * d, .head = rows * d, .row = d}};
  }
}
BiasStrides bias_strides(const Problem& p) {
  const std::int64_t row = p["kv_len"], head = p["q_len"] * row;
  switch (bias_shape(p)) {
    case BiasShape::batch_heads:
      return {.batch = p["q_heads"] * head, .head = head, .row = row};
    case BiasShape::batch:
      return {.batch = head, .head = 0, .row = row};
    default:
      return {.batch = 0, .head = head, .row = row};
  }
}
std::int64_t max_pages_of(const Problem& p) {
  return p["page_size"] > 0 ? ceil_div(p["kv_len"], p["page_size"]) : 0;
}
float scale_of(const Problem& p) { return 1.0f / std::sqrt(static_cast<float>(p["head_dim"])); }

std::vector<TensorSpec> tensors(const Problem& p, std::uint64_t seed) {
  const std::int64_t batch = p["batch"], q_heads = p["q_heads"], kv_heads = p["kv_heads"],
                     d_qk = p["head_dim"], d_v = value_dim(p);
  const bool is_qkv = kv_layout(p) == KvLayout::qkv;
  const Lengths l = lengths_of(p);
  const auto ints = [](std::string name, std::vector<std::int32_t> values) {
    const std::int64_t count = values.size();
    return given_ints(std::move(name), {count}, std::move(values));
  };
  std::vector<TensorSpec> specs = {{.name = is_qkv ? "qkv" : "q",
                                    .dtype = p.dtype,
                                    .shape = {tokens_of(p), q_stride_of(p)},
                                    .scale = 2.0f}};
  if (!is_qkv) {
    const KvCacheShape cache(p, p.dtype, p["page_size"] > 0 ? p["kv_len"] : capacity_of(p));
    TensorSpec k = cache.keys({.scale = 2.0f}, d_qk, dsx(p)), v = cache.values({}, d_v);
    if (kv_layout(p) != KvLayout::cache)
      for (TensorSpec* spec : {&k, &v}) {
        spec->shape = {capacity_of(p), kv_heads, spec == &k ? d_qk : d_v};
        if (!packed(p)) spec->shape.insert(spec->shape.begin(), batch);
      }
    specs.insert(specs.end(), {k, v});
  }
  specs.push_back(ints("cu_seqlens", starts_of(l.q_lens, 0)));
  specs.push_back(ints("kv_lens", l.kv_lens));
  specs.push_back(
      {.name = "out", .dtype = p.dtype, .shape = {tokens_of(p), q_heads, d_v}, .role = Role::output});
  if (kv_layout(p) == KvLayout::packed) specs.push_back(ints("seqstart_k", key_starts_of(p)));
  if (p["page_size"] > 0) specs.push_back(ints("block_table", block_table_of(p)));
  if (score_bias(p) == ScoreBias::additive) {
    TensorSpec bias{
        .name = "score_bias", .dtype = p.dtype, .shape = {p["q_len"], p["kv_len"]}, .scale = 2.0f};
    if (bias_shape(p) != BiasShape::batch) bias.shape.insert(bias.shape.begin(), q_heads);
    if (bias_shape(p) != BiasShape::heads) bias.shape.insert(bias.shape.begin(), batch);
    specs.push_back(std::move(bias));
  }
  if (score_bias(p) == ScoreBias::alibi) {
    TensorSpec slopes{.name = "alibi_slopes", .shape = {q_heads}, .cache = CacheState::hot};
    for (std::int64_t h = 1; h <= q_heads; ++h) slopes.floats.push_back(std::exp2(-8.0f * h / q_heads));
    specs.push_back(std::move(slopes));
  }
  if (p["dropout"] > 0) {
    std::vector<std::int32_t> words;
    for (int i = 0; i < 4; ++i) words.push_back(random_bits(seed, i) & (i < 3 ? ~0u : 0xffffu));
    specs.push_back(ints("philox", words));
  }
  if (p["lse"] == 1)
    specs.push_back({.name = "lse", .shape = {batch, q_heads, lse_rows(p["q_len"])}, .role = Role::output});
  return specs;
}

}  // namespace warptune::prefill
