// What attention_decode is: one query token per sequence against its KV cache, grouped-query heads.
// Source: Vaswani et al., "Attention Is All You Need", 2017; Ainslie et al., "GQA", 2023; rotation as in Su
// et al., "RoFormer", 2021, half-split pairs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "attention_decode/args.h"
#include "attention_decode/attention_decode.h"
#include "core/error.h"

namespace warptune {
namespace {

std::int64_t capacity_of(const Problem& p) { return ceil_div(p["context"], 16) * 16; }
float scale_of(const Problem& p) { return 1.0f / std::sqrt(static_cast<float>(p["head_dim"])); }

/// Uneven: full, one key, finished (none), anything, again and again. The seed only turns the batch around,
/// so that the cost of a problem does not depend on it.
std::vector<std::int32_t> lengths_of(const Problem& p, std::uint64_t seed) {
  const auto batch = static_cast<std::size_t>(p["batch"]);
  const std::int64_t context = p["context"];
  std::vector<std::int32_t> lengths(batch, static_cast<std::int32_t>(context));
  if (p["uneven"] == 0) return lengths;
  for (std::size_t b = 0; b < batch; ++b) {
    const auto any = 1 + static_cast<std::int64_t>(random_bits(b, 0)) % context;
    const std::int64_t kinds[] = {b == 0 ? context : any, 1, 0, any};
    lengths[(b + seed) % batch] = static_cast<std::int32_t>(kinds[b % 4]);
  }
  return lengths;
}

std::vector<TensorSpec> tensors(const Problem& p, std::uint64_t seed) {
  const std::int64_t batch = p["batch"], heads = p["q_heads"], kv_heads = p["kv_heads"], d = p["head_dim"],
                     capacity = capacity_of(p), x = 16 / static_cast<std::int64_t>(size_of(p.dtype));
  const bool append = p["append"] != 0;
  const Role cache_role = append ? Role::inout : Role::input;
  std::vector<TensorSpec> specs = {
      {.name = "q",
       .dtype = p.dtype,
       .shape = {batch, append ? heads + 2 * kv_heads : heads, d},
       .cache = CacheState::hot,
       .scale = 3.0f},
      {.name = "k_cache",
       .dtype = p.dtype,
       .shape = p["k_layout"] == 0 ? std::vector{batch, kv_heads, capacity, d}
                                   : std::vector{batch, kv_heads, d / x, capacity, x},
       .role = cache_role},
      {.name = "v_cache", .dtype = p.dtype, .shape = {batch, kv_heads, capacity, d}, .role = cache_role},
      {.name = "lengths",
       .dtype = DType::int32,
       .shape = {batch},
       .cache = CacheState::hot,
       .values = lengths_of(p, seed)},
      {.name = "out",
       .dtype = p.dtype,
       .shape = {batch, heads, d},
       .role = Role::output,
       .cache = CacheState::hot},
  };
  if (append) specs.push_back({.name = "inv_freq", .shape = {d / 2}});
  if (p["bias"] != 0) specs.push_back({.name = "bias", .dtype = p.dtype, .shape = {heads + 2 * kv_heads, d}});
  return specs;
}

Args bind(const Problem& p, std::span<void* const> t, void* workspace) {
  return Args(AttentionDecodeArgs{.q = t[0],
                                  .k_cache = t[1],
                                  .v_cache = t[2],
                                  .lengths = static_cast<const int*>(t[3]),
                                  .bias = p["bias"] != 0 ? t[6] : nullptr,
                                  .inv_freq = p["append"] != 0 ? static_cast<const float*>(t[5]) : nullptr,
                                  .out = t[4],
                                  .workspace = workspace,
                                  .batch = static_cast<int>(p["batch"]),
                                  .capacity = static_cast<int>(capacity_of(p)),
                                  .scale = scale_of(p)});
}

void check(const Problem& p) {
  if (p["q_heads"] % p["kv_heads"] != 0)
    throw InputError(fmt::format("attention_decode: q_heads ({}) must be a multiple of kv_heads ({})",
                                 p["q_heads"], p["kv_heads"]));
  if (p["head_dim"] % 2 != 0)
    throw InputError(fmt::format("attention_decode: head_dim ({}) must be even", p["head_dim"]));
  if (p["k_layout"] != 0 && p["head_dim"] * static_cast<std::int64_t>(size_of(p.dtype)) % 16 != 0)
    throw InputError(fmt::format("attention_decode: k_layout dsx needs heads of whole 16 bytes, not {} x {}",
                                 p["head_dim"], name_of(p.dtype)));
  if (p["bias"] != 0 && p["append"] == 0) throw InputError("attention_decode: bias=yes needs append=yes");
}

Cost cost(const Problem& p) {
  const double b = static_cast<double>(size_of(p.dtype)), d = static_cast<double>(p["head_dim"]),
               heads = static_cast<double>(p["q_heads"]), kv_heads = static_cast<double>(p["kv_heads"]);
  Cost c;
  for (const std::int32_t length : lengths_of(p, 0)) {
    c.bytes += heads * d * b + 4;  // out, lengths
    if (length == 0) continue;
    c.bytes += heads * d * b + 2.0 * length * kv_heads * d * b;
    if (p["append"] != 0) c.bytes += 2 * kv_heads * d * b;  // the new row is read here and written there
    c.flops += 4.0 * length * d * heads;
  }
  if (p["append"] != 0) c.bytes += 2 * d;
  if (p["bias"] != 0) c.bytes += (heads + 2 * kv_heads) * d * b;
  return c;
}

/// Row `row` of the fused qkv of sequence b, bias added; rotated at `position` unless below 0.
std::vector<double> new_row(const Problem& p, const Inputs& in, std::int64_t b, std::int64_t row,
                            std::int64_t position) {
  const std::int64_t d = p["head_dim"], rows = p["q_heads"] + 2 * p["kv_heads"];
  const Values qkv = in["q"];
  std::vector<double> x(static_cast<std::size_t>(d));
  for (std::int64_t i = 0; i < d; ++i) {
    x[static_cast<std::size_t>(i)] = qkv[(b * rows + row) * d + i];
    if (p["bias"] != 0) x[static_cast<std::size_t>(i)] += in["bias"][row * d + i];
  }
  if (position < 0) return x;
  const Values inv_freq = in["inv_freq"];
  const auto half = static_cast<std::size_t>(d / 2);
  for (std::size_t i = 0; i < half; ++i) {
    const float angle =
        static_cast<float>(position) * static_cast<float>(inv_freq[static_cast<std::int64_t>(i)]);
    const double c = std::cos(static_cast<double>(angle)), s = std::sin(static_cast<double>(angle));
    const double low = x[i], high = x[i + half];
    x[i] = low * c - high * s;
    x[i + half] = high * c + low * s;
  }
  return x;
}

/// A unit is one query head of one sequence. The first head of a group also answers for the appended row.
void reference(const Problem& p, const Inputs& in, std::int64_t unit, Expected& out) {
  const std::int64_t heads = p["q_heads"], kv_heads = p["kv_heads"], d = p["head_dim"],
                     group = heads / kv_heads, capacity = capacity_of(p),
                     x = 16 / static_cast<std::int64_t>(size_of(p.dtype));
  const std::int64_t b = unit / heads, head = unit % heads, kv_head = head / group;
  const auto length = static_cast<std::int64_t>(in["lengths"][b]);
  const auto dims = static_cast<std::size_t>(d);
  std::vector<double> result(dims, 0.0);
  if (length == 0) {
    out.put("out", unit * d, std::move(result));
    return;
  }
  const bool append = p["append"] != 0, dsx = p["k_layout"] != 0;
  const std::int64_t cached = append ? length - 1 : length, cache = (b * kv_heads + kv_head) * capacity * d;
  const auto k_index = [&](std::int64_t key, std::int64_t i) {
    return cache + (dsx ? (i / x * capacity + key) * x + i % x : key * d + i);
  };
  const Values q_values = in["q"], k = in["k_cache"], v = in["v_cache"];
  std::vector<double> q(dims), k_new, v_new;
  if (append) {
    q = new_row(p, in, b, head, length - 1);
    k_new = new_row(p, in, b, heads + kv_head, length - 1);
    v_new = new_row(p, in, b, heads + kv_heads + kv_head, -1);
    for (auto* row : {&k_new, &v_new})
      for (double& value : *row) value = round_to(p.dtype, value);
    if (head % group == 0) {
      const std::int64_t run = dsx ? x : d;
      for (std::int64_t i = 0; i < d; i += run)
        out.put("k_cache", k_index(length - 1, i), {k_new.begin() + i, k_new.begin() + i + run});
      out.put("v_cache", cache + (length - 1) * d, v_new);
    }
  } else {
    for (std::size_t i = 0; i < dims; ++i) q[i] = q_values[unit * d + static_cast<std::int64_t>(i)];
  }
  std::vector<double> scores(static_cast<std::size_t>(length));
  double max = -INFINITY, sum = 0;
  for (std::int64_t key = 0; key < length; ++key) {
    double s = 0;
    for (std::size_t i = 0; i < dims; ++i)
      s += q[i] * (key < cached ? k[k_index(key, static_cast<std::int64_t>(i))] : k_new[i]);
    max = std::max(max, scores[static_cast<std::size_t>(key)] = s * scale_of(p));
  }
  for (std::int64_t key = 0; key < length; ++key) {
    const double weight = std::exp(scores[static_cast<std::size_t>(key)] - max);
    sum += weight;
    for (std::size_t i = 0; i < dims; ++i)
      result[i] += weight * (key < cached ? v[cache + key * d + static_cast<std::int64_t>(i)] : v_new[i]);
  }
  for (double& value : result) value /= sum;
  out.put("out", unit * d, std::move(result));
}

}  // namespace

Op attention_decode() {
  return {
      .name = "attention_decode",
      .summary = "softmax(q . K * scale) . V for one new token per sequence over its KV cache",
      .dims = {{"batch", "sequences"},
               {"q_heads", "query heads"},
               {"kv_heads", "key and value heads, each serving q_heads / kv_heads query heads"},
               {"head_dim", "elements of a head"},
               {"context", "keys of the longest sequence, the current token included"},
               {"uneven", "whether lengths differ, with sequences of one key and of none", 0, {"no", "yes"}},
               {"k_layout", "K as [S, D] or as [D/x, S, x] with x of 16 bytes", 0, {"sd", "dsx"}},
               {"append", "whether RoPE and the append to the cache are fused in", 0, {"no", "yes"}},
               {"bias", "whether q, k and v get a bias first", 0, {"no", "yes"}}},
      .check = check,
      .tensors = tensors,
      .bind = bind,
      .cost = cost,
      .units = [](const Problem& p) { return p["batch"] * p["q_heads"]; },
      .reference = reference,
      // fp32: the error of a sum grows with its terms; 16 bits: a variant may round the probabilities.
      .tolerance =
          [](const Problem& p) {
            return default_tolerance(p.dtype,
                                     p.dtype == DType::fp32 ? 4 + static_cast<int>(p["context"] / 16384) : 2);
          },
  };
}

}  // namespace warptune
