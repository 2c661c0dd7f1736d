// Tensors of attention_prefill: lengths, pages and addresses, and how they become the arguments of kernels.
#include "variants/attention_prefill/tensors.h"

#include <cmath>
#include <numeric>

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
      table.push_back(
          page * p["page_size"] < kv_len
              ? static_cast<std::int32_t>((static_cast<std::int64_t>(table.size()) + 1) * step % pages)
              : -1);
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
    l.q_lens.push_back(static_cast<std::int32_t>(uneven ? std::min(queries[b % 6], q_len) : q_len));
    l.kv_lens.push_back(static_cast<std::int32_t>(uneven ? std::min(keys[b % 6], kv_len) : kv_len));
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
std::int64_t max_pages_of(const Problem& p) { return ceil_div(p["kv_len"], p["page_size"]); }
float scale_of(const Problem& p) { return 1.0f / std::sqrt(static_cast<float>(p["head_dim"])); }

std::vector<TensorSpec> tensors(const Problem& p, std::uint64_t seed) {
  const std::int64_t batch = p["batch"], q_heads = p["q_heads"], kv_heads = p["kv_heads"],
                     page_size = p["page_size"], x = vector_elements(p);
  const Lengths l = lengths_of(p);
  const auto kv_shape = [&](std::int64_t d, bool is_dsx) -> std::vector<std::int64_t> {
    if (packed(p)) return {capacity_of(p), kv_heads, d};
    if (kv_layout(p) == KvLayout::bshd) return {batch, capacity_of(p), kv_heads, d};
    const std::int64_t parts = page_size > 0 ? batch * max_pages_of(p) : batch,
                       rows = page_size > 0 ? page_size : capacity_of(p);
    if (is_dsx) return {parts, kv_heads, d / x, rows, x};
    return {parts, kv_heads, rows, d};
  };
  const auto ints = [](std::string name, std::vector<std::int32_t> values) {
    return TensorSpec{.name = std::move(name),
                      .dtype = DType::int32,
                      .shape = {static_cast<std::int64_t>(values.size())},
                      .cache = CacheState::hot,
                      .values = std::move(values)};
  };
  std::vector<TensorSpec> specs = {{.name = kv_layout(p) == KvLayout::qkv ? "qkv" : "q",
                                    .dtype = p.dtype,
                                    .shape = {tokens_of(p), q_stride_of(p)},
                                    .scale = 2.0f}};
  if (kv_layout(p) != KvLayout::qkv) {
    specs.push_back(
        {.name = "k_cache", .dtype = p.dtype, .shape = kv_shape(p["head_dim"], dsx(p)), .scale = 2.0f});
    specs.push_back({.name = "v_cache", .dtype = p.dtype, .shape = kv_shape(value_dim(p), false)});
  }
  specs.push_back(ints("cu_seqlens", starts_of(l.q_lens, 0)));
  specs.push_back(ints("kv_lens", l.kv_lens));
  specs.push_back({.name = "out",
                   .dtype = p.dtype,
                   .shape = {tokens_of(p), q_heads, value_dim(p)},
                   .role = Role::output});
  if (kv_layout(p) == KvLayout::packed) specs.push_back(ints("seqstart_k", key_starts_of(p)));
  if (page_size > 0) specs.push_back(ints("block_table", block_table_of(p)));
  if (score_bias(p) == ScoreBias::additive) {
    TensorSpec bias{
        .name = "score_bias", .dtype = p.dtype, .shape = {p["q_len"], p["kv_len"]}, .scale = 2.0f};
    if (bias_shape(p) != BiasShape::batch) bias.shape.insert(bias.shape.begin(), q_heads);
    if (bias_shape(p) != BiasShape::heads) bias.shape.insert(bias.shape.begin(), batch);
    specs.push_back(std::move(bias));
  }
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
  std::size_t next = 0;  // tensors, in the order of tensors()
  const bool is_qkv = kv_layout(p) == KvLayout::qkv;
  AttentionPrefillArgs a{.q = t[next++],
                         .batch = static_cast<int>(p["batch"]),
                         .capacity = static_cast<int>(capacity_of(p)),
                         .scale = scale_of(p),
                         .tokens = static_cast<int>(tokens_of(p)),
                         .q_len = static_cast<int>(p["q_len"]),
                         .kv_len = static_cast<int>(p["kv_len"]),
                         .q_stride = q_stride_of(p),
                         .window = static_cast<int>(p["window"]),
                         .diagonal = static_cast<int>(p["diagonal"])};
  const auto kv = [&](bool is_key) -> const void* {
    const auto bytes = static_cast<std::int64_t>(size_of(p.dtype)) * kv_place(p, is_key).first;
    return static_cast<const std::byte*>(is_qkv ? a.q : t[next++]) + bytes;
  };
  a.k_cache = kv(true);
  a.v_cache = kv(false);
  a.cu_seqlens = static_cast<const int*>(t[next++]);
  a.kv_lens = static_cast<const int*>(t[next++]);
  a.out = t[next++];
  a.workspace = workspace;
  if (packed(p)) a.seqstart_k = is_qkv ? a.cu_seqlens : static_cast<const int*>(t[next++]);
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
  if (!has_strides(p)) return Args(a);
  return Args(
      StridedAttentionPrefillArgs{a, kv_place(p, true).strides, kv_place(p, false).strides, bias_strides(p)});
}

}  // namespace warptune::prefill
