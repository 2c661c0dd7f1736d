// What attention_decode is: one query token per sequence against its KV cache, grouped-query heads.
// Source: Vaswani et al., "Attention Is All You Need", 2017; Ainslie et al., "GQA", 2023; rotation as in Su
// et al., "RoFormer", 2021, half-split pairs; slopes as in Press et al., "ALiBi", 2022; pages as in Kwon et
// al., "PagedAttention", 2023; epilogues as in Xiao et al., "SmoothQuant", 2023.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>

#include "harness/core/error.h"
#include "kernels/attention_decode/args.h"
#include "variants/attention_decode/attention_decode.h"

namespace warptune {
namespace {

float scale_of(const Problem& p) { return 1.0f / std::sqrt(static_cast<float>(p["head_dim"])); }
bool quantised(const Problem& p) { return p["kv_dtype"] != 0; }
ScoreBias score_bias_of(const Problem& p) { return static_cast<ScoreBias>(p["score_bias"]); }
Epilogue epilogue_of(const Problem& p) { return static_cast<Epilogue>(p["epilogue"]); }
/// The largest code of a quantised cache.
double largest_code(const Problem& p) { return cache_dtype(p) == DType::int8 ? 127 : 448; }
/// Elements of a 16-byte piece of the cache.
std::int64_t piece_of(const Problem& p) { return 16 / static_cast<std::int64_t>(size_of(cache_dtype(p))); }
/// The first key that counts.
std::int64_t first_key(const Problem& p, std::int64_t length) {
  return p["window"] == 0 ? 0 : std::max<std::int64_t>(0, length - p["window"]);
}
constexpr float kOutScale = 100.0f;

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

/// Where sequences have their pages: shuffled, and nowhere where no key counts.
std::vector<std::int32_t> block_table_of(const Problem& p, std::uint64_t seed) {
  const std::int64_t size = p["page_size"], per_sequence = cache_capacity(p) / size;
  const std::vector<std::int32_t> lengths = lengths_of(p, seed);
  std::vector<std::int32_t> table(static_cast<std::size_t>(p["batch"] * per_sequence));
  std::iota(table.begin(), table.end(), 0);
  for (std::size_t i = table.size(); i > 1; --i) std::swap(table[i - 1], table[random_bits(seed, i) % i]);
  for (std::size_t i = 0; i < table.size(); ++i) {
    const std::int64_t length = lengths[i / static_cast<std::size_t>(per_sequence)],
                       key = static_cast<std::int64_t>(i) % per_sequence * size;
    if (key >= length || key + size <= first_key(p, length)) table[i] = -1;
  }
  return table;
}

/// The slopes of ALiBi, a geometric series; those that no power of two of heads has lie between them.
std::vector<float> alibi_slopes(std::int64_t heads) {
  const auto whole = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  std::vector<float> slopes;
  for (std::int64_t h = 0; h < heads; ++h) {
    const double power = h < whole
                             ? 8.0 * static_cast<double>(h + 1) / static_cast<double>(whole)
                             : 4.0 * static_cast<double>(2 * (h - whole) + 1) / static_cast<double>(whole);
    slopes.push_back(static_cast<float>(std::exp2(-power)));
  }
  return slopes;
}

/// Scales of heads: positive, as rows are quantised by them.
std::vector<float> head_scales(const Problem& p, std::uint64_t first) {
  std::vector<float> scales;
  for (std::int64_t h = 0; h < p["kv_heads"]; ++h)
    scales.push_back(
        static_cast<float>((1 + random_value(first, static_cast<std::uint64_t>(h), 0.5f)) / largest_code(p)));
  return scales;
}

std::vector<TensorSpec> tensors(const Problem& p, std::uint64_t seed) {
  const std::int64_t batch = p["batch"], heads = p["q_heads"], kv_heads = p["kv_heads"], d = p["head_dim"],
                     capacity = cache_capacity(p), x = piece_of(p), page = p["page_size"];
  const bool append = p["append"] != 0, per_token = p["kv_scale"] != 0;
  const Role cache_role = append ? Role::inout : Role::input;
  const DType stored = cache_dtype(p);
  // Sequences, or pages; and the rows of each.
  const std::int64_t parts = page == 0 ? batch : batch * (capacity / page),
                     rows = page == 0 ? capacity : page;
  const std::vector<std::int64_t> row_major = {parts, kv_heads, rows, d},
                                  pieces = {parts, kv_heads, d / x, rows, x};
  const float codes = quantised(p) ? static_cast<float>(largest_code(p)) : 1.0f;
  std::vector<TensorSpec> specs = {
      {.name = "q",
       .dtype = p.dtype,
       .shape = {batch, append ? heads + 2 * kv_heads : heads, d},
       .cache = CacheState::hot,
       .scale = 3.0f},
      {.name = "k_cache",
       .dtype = stored,
       .shape = p["k_layout"] == 0 ? row_major : pieces,
       .role = cache_role,
       .scale = codes},
      {.name = "v_cache", .dtype = stored, .shape = row_major, .role = cache_role, .scale = codes},
      {.name = "lengths",
       .dtype = DType::int32,
       .shape = {batch},
       .cache = CacheState::hot,
       .values = lengths_of(p, seed)},
      {.name = "out",
       .dtype = decode_out_dtype(p),
       .shape = {batch, heads, d},
       .role = Role::output,
       .cache = CacheState::hot},
  };
  if (append) specs.push_back({.name = "inv_freq", .shape = {d / 2}});
  if (p["bias"] != 0) specs.push_back({.name = "bias", .dtype = p.dtype, .shape = {heads + 2 * kv_heads, d}});
  if (quantised(p))
    for (const char* name : {"k_scale", "v_scale"}) {
      TensorSpec spec{.name = name};
      if (per_token) {
        spec.shape = {parts, kv_heads, rows};
        spec.role = cache_role;
        spec.scale = 1.5f / codes;
      } else {
        spec.shape = {kv_heads};
        spec.cache = CacheState::hot;
        spec.floats = head_scales(p, seed * 2 + (name[0] == 'v'));
      }
      specs.push_back(spec);
    }
  if (page != 0)
    specs.push_back({.name = "block_table",
                     .dtype = DType::int32,
                     .shape = {batch, capacity / page},
                     .cache = CacheState::hot,
                     .values = block_table_of(p, seed)});
  if (score_bias_of(p) == ScoreBias::alibi)
    specs.push_back(
        {.name = "alibi_slopes", .shape = {heads}, .cache = CacheState::hot, .floats = alibi_slopes(heads)});
  if (score_bias_of(p) == ScoreBias::additive)
    specs.push_back(
        {.name = "score_bias", .dtype = p.dtype, .shape = {batch, heads, capacity}, .scale = 3.0f});
  if (p["lse"] != 0)
    specs.push_back({.name = "lse", .shape = {batch, heads}, .role = Role::output, .cache = CacheState::hot});
  if (epilogue_of(p) != Epilogue::none) {
    specs.push_back({.name = "shift", .dtype = p.dtype, .shape = {heads, d}, .scale = 0.5f});
    specs.push_back({.name = "smooth", .dtype = p.dtype, .shape = {heads, d}, .scale = 1.5f});
  }
  return specs;
}

Args bind(const Problem& p, std::span<void* const> t, void* workspace) {
  const std::vector<TensorSpec> specs = tensors(p, 0);
  const auto at = [&](std::string_view name) -> void* {
    const auto it = std::ranges::find(specs, name, &TensorSpec::name);
    return it == specs.end() ? nullptr : t[static_cast<std::size_t>(it - specs.begin())];
  };
  return Args(AttentionDecodeArgs{.q = at("q"),
                                  .k_cache = at("k_cache"),
                                  .v_cache = at("v_cache"),
                                  .lengths = static_cast<const int*>(at("lengths")),
                                  .bias = at("bias"),
                                  .inv_freq = static_cast<const float*>(at("inv_freq")),
                                  .out = at("out"),
                                  .workspace = workspace,
                                  .batch = static_cast<int>(p["batch"]),
                                  .capacity = static_cast<int>(cache_capacity(p)),
                                  .scale = scale_of(p),
                                  .k_scale = static_cast<float*>(at("k_scale")),
                                  .v_scale = static_cast<float*>(at("v_scale")),
                                  .block_table = static_cast<const int*>(at("block_table")),
                                  .alibi_slopes = static_cast<const float*>(at("alibi_slopes")),
                                  .score_bias = at("score_bias"),
                                  .lse = static_cast<float*>(at("lse")),
                                  .shift = at("shift"),
                                  .smooth = at("smooth"),
                                  .out_scale = kOutScale});
}

void check(const Problem& p) {
  if (p["q_heads"] % p["kv_heads"] != 0)
    throw InputError(fmt::format("attention_decode: q_heads ({}) must be a multiple of kv_heads ({})",
                                 p["q_heads"], p["kv_heads"]));
  if (p["head_dim"] % 2 != 0)
    throw InputError(fmt::format("attention_decode: head_dim ({}) must be even", p["head_dim"]));
  if (p["k_layout"] != 0 && p["head_dim"] % piece_of(p) != 0)
    throw InputError(fmt::format("attention_decode: k_layout=dsx needs heads of whole 16 bytes, not {} x {}",
                                 p["head_dim"], name_of(cache_dtype(p))));
  if (p["bias"] != 0 && p["append"] == 0) throw InputError("attention_decode: bias=yes needs append=yes");
  if (p["kv_scale"] != 0 && !quantised(p))
    throw InputError("attention_decode: kv_scale=token needs kv_dtype=int8 or kv_dtype=fp8");
  const std::int64_t page = p["page_size"];
  if (page != 0 && (page < 16 || page > 256 || !std::has_single_bit(static_cast<std::uint64_t>(page))))
    throw InputError(fmt::format(
        "attention_decode: page_size is {}; it must be 0 (contiguous), 16, 32, 64, 128 or 256", page));
}

Cost cost(const Problem& p) {
  const double b = static_cast<double>(size_of(p.dtype)), d = static_cast<double>(p["head_dim"]),
               heads = static_cast<double>(p["q_heads"]), kv_heads = static_cast<double>(p["kv_heads"]);
  const double row = d * static_cast<double>(size_of(cache_dtype(p))) + (p["kv_scale"] != 0 ? 4 : 0);
  const double out = d * static_cast<double>(size_of(decode_out_dtype(p))) + (p["lse"] != 0 ? 4 : 0);
  const std::int64_t page = p["page_size"];
  Cost c;
  for (const std::int32_t length : lengths_of(p, 0)) {
    c.bytes += heads * out + 4;  // lengths
    if (length == 0) continue;
    const std::int64_t first = first_key(p, length);
    const auto keys = static_cast<double>(length - first);
    c.bytes += heads * d * b + 2 * keys * kv_heads * row;
    if (p["append"] != 0) c.bytes += 2 * kv_heads * d * b;  // the new row is read here and written there
    if (page != 0) c.bytes += 4 * static_cast<double>((length - 1) / page - first / page + 1);
    if (score_bias_of(p) == ScoreBias::additive) c.bytes += heads * keys * b;
    c.flops += 4.0 * keys * d * heads;
  }
  if (p["append"] != 0) c.bytes += 2 * d;
  if (p["bias"] != 0) c.bytes += (heads + 2 * kv_heads) * d * b;
  if (quantised(p) && p["kv_scale"] == 0) c.bytes += 2 * kv_heads * 4;
  if (score_bias_of(p) == ScoreBias::alibi) c.bytes += heads * 4;
  if (epilogue_of(p) != Epilogue::none) c.bytes += 2 * heads * d * b;
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

/// Where the rows of one KV head of one sequence are, as the tensors count their elements.
struct Rows {
  const std::int64_t heads, head, first_row, page, in_part, dim, piece;  // piece: elements, 0 for rows of K
  const bool own_scales;
  const Values pages;
  const std::int64_t first_page;

  Rows(const Problem& p, const Inputs& in, std::int64_t b, std::int64_t kv_head)
      : heads(p["kv_heads"]),
        head(kv_head),
        first_row((b * heads + kv_head) * cache_capacity(p)),
        page(p["page_size"]),
        in_part(page == 0 ? cache_capacity(p) : page),
        dim(p["head_dim"]),
        piece(p["k_layout"] == 0 ? 0 : piece_of(p)),
        own_scales(p["kv_scale"] != 0),
        pages(in[page == 0 ? "lengths" : "block_table"]),
        first_page(page == 0 ? 0 : b * (cache_capacity(p) / page)) {}

  /// The row of a key; its V and scales lie by it.
  std::int64_t row(std::int64_t key) const {
    if (page == 0) return first_row + key;
    return (static_cast<std::int64_t>(pages[first_page + key / page]) * heads + head) * page + key % page;
  }
  std::int64_t k(std::int64_t row, std::int64_t i) const {
    if (piece == 0) return row * dim + i;
    const std::int64_t within = row % in_part;
    return (row - within) * dim + (i / piece * in_part + within) * piece + i % piece;
  }
  std::int64_t v(std::int64_t row) const { return row * dim; }
  std::int64_t scale(std::int64_t row) const { return own_scales ? row : head; }
};

/// A row as the cache will hold it: its codes, not yet rounded where they are quantised, and its values.
struct NewRow {
  std::vector<double> codes, values;
  double scale;

  NewRow(const Problem& p, std::vector<double> x, double head_scale)
      : codes(std::move(x)), scale(head_scale) {
    for (double& value : codes) value = round_to(p.dtype, value);
    values = codes;
    if (!quantised(p)) return;
    const double largest = largest_code(p);
    if (p["kv_scale"] != 0) {
      double max = 0;
      for (const double value : codes) max = std::max(max, std::abs(value));
      scale = static_cast<float>(max) / static_cast<float>(largest);
    }
    // In fp32, as every variant does, so that all round alike.
    const float inverse = scale == 0 ? 0.0f : 1.0f / static_cast<float>(scale);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      codes[i] = std::clamp<double>(static_cast<float>(codes[i]) * inverse, -largest, largest);
      values[i] = round_to(cache_dtype(p), codes[i]) * scale;
    }
  }
};

/// A unit is one query head of one sequence. The first head of a group also answers for the appended row.
void reference(const Problem& p, const Inputs& in, std::int64_t unit, Expected& out) {
  const std::int64_t heads = p["q_heads"], kv_heads = p["kv_heads"], d = p["head_dim"],
                     group = heads / kv_heads, capacity = cache_capacity(p);
  const std::int64_t b = unit / heads, head = unit % heads, kv_head = head / group;
  const auto length = static_cast<std::int64_t>(in["lengths"][b]), first = first_key(p, length);
  const auto dims = static_cast<std::size_t>(d);
  const Rows rows(p, in, b, kv_head);
  const bool append = p["append"] != 0 && length > 0, own_scale = p["kv_scale"] != 0;
  const std::int64_t cached = append ? length - 1 : length;
  const Values q_values = in["q"], k = in["k_cache"], v = in["v_cache"];
  const auto scale = [&](std::string_view name, std::int64_t row) {
    return quantised(p) ? in[name][rows.scale(row)] : 1.0;
  };

  std::vector<double> q(dims);
  std::optional<NewRow> k_new, v_new;
  if (append) {
    const std::int64_t at = rows.row(cached);
    q = new_row(p, in, b, head, cached);
    k_new.emplace(p, new_row(p, in, b, heads + kv_head, cached), own_scale ? 1 : scale("k_scale", at));
    v_new.emplace(p, new_row(p, in, b, heads + kv_heads + kv_head, -1), own_scale ? 1 : scale("v_scale", at));
    if (head % group == 0) {
      const std::int64_t run = p["k_layout"] != 0 ? piece_of(p) : d;
      for (std::int64_t i = 0; i < d; i += run)
        out.put("k_cache", rows.k(at, i), {k_new->codes.begin() + i, k_new->codes.begin() + i + run});
      out.put("v_cache", rows.v(at), v_new->codes);
      if (own_scale) {
        out.put("k_scale", at, {k_new->scale});
        out.put("v_scale", at, {v_new->scale});
      }
    }
  } else {
    for (std::size_t i = 0; i < dims; ++i) q[i] = q_values[unit * d + static_cast<std::int64_t>(i)];
  }

  std::vector<double> scores, x(dims, 0.0);
  double max = -INFINITY, sum = 0;
  for (std::int64_t key = first; key < length; ++key) {
    double s = 0;
    if (key >= cached) {
      for (std::size_t i = 0; i < dims; ++i) s += q[i] * k_new->values[i];
    } else {
      const std::int64_t row = rows.row(key);
      for (std::size_t i = 0; i < dims; ++i) s += q[i] * k[rows.k(row, static_cast<std::int64_t>(i))];
      s *= scale("k_scale", row);
    }
    s *= scale_of(p);
    if (score_bias_of(p) == ScoreBias::alibi)
      s += in["alibi_slopes"][head] * static_cast<double>(key - (length - 1));
    if (score_bias_of(p) == ScoreBias::additive) s += in["score_bias"][unit * capacity + key];
    max = std::max(max, s);
    scores.push_back(s);
  }
  if (max > -INFINITY)
    for (std::int64_t key = first; key < length; ++key) {
      const double weight = std::exp(scores[static_cast<std::size_t>(key - first)] - max);
      sum += weight;
      if (key >= cached) {
        for (std::size_t i = 0; i < dims; ++i) x[i] += weight * v_new->values[i];
      } else {
        const std::int64_t row = rows.row(key), at = rows.v(row);
        const double factor = weight * scale("v_scale", row);
        for (std::size_t i = 0; i < dims; ++i) x[i] += factor * v[at + static_cast<std::int64_t>(i)];
      }
    }
  for (std::int64_t i = 0; i < d; ++i) {
    double& y = x[static_cast<std::size_t>(i)];
    if (sum > 0) y /= sum;
    if (epilogue_of(p) == Epilogue::none) continue;
    y = (y + in["shift"][head * d + i]) * in["smooth"][head * d + i];
    if (epilogue_of(p) == Epilogue::quantize) y = std::clamp(y * kOutScale, -127.0, 127.0);
  }
  out.put("out", unit * d, std::move(x));
  if (p["lse"] != 0) out.put("lse", unit, {sum > 0 ? max + std::log(sum) : -INFINITY});
}

/// fp32: the error of a sum grows with its terms; 16 bits: a variant may round the probabilities. Where an
/// appended row is quantised, a rotation that differs in its last bit may take the neighbouring code.
Tolerance tolerance(const Problem& p) {
  if (p["append"] != 0 && quantised(p)) return default_tolerance(DType::bf16, 2);
  return default_tolerance(p.dtype, p.dtype == DType::fp32 ? 4 + static_cast<int>(p["context"] / 16384) : 2);
}

}  // namespace

Op attention_decode() {
  return {
      .name = "attention_decode",
      .summary = "softmax(q . K * scale) . V for one new token per sequence over its KV cache",
      .dims =
          {work_dim({"batch", "sequences"}),
           parallel_dim({"q_heads", "query heads"}),
           parallel_dim({"kv_heads", "key and value heads, each serving q_heads / kv_heads query heads"}),
           {"head_dim", "elements of a head"},
           work_dim({"context", "keys of the longest sequence, the current token included"}),
           data_dim(
               {"uneven", "whether lengths differ, with sequences of one key and of none", 0, {"no", "yes"}}),
           {"k_layout", "K as [S, D] or as [D/x, S, x] with x of 16 bytes", 0, {"sd", "dsx"}},
           {"append", "whether RoPE and the append to the cache are fused in", 0, {"no", "yes"}},
           {"bias", "whether q, k and v get a bias first", 0, {"no", "yes"}},
           {"kv_dtype", "how K and V are stored", 0, {"same", "int8", "fp8"}, 0, true},
           {"kv_scale",
            "what has a scale of its own: a KV head, or each of its rows",
            0,
            {"head", "token"},
            0,
            true},
           {"page_size", "keys per page of a paged cache, 0: contiguous", 0, {}, 0, true},
           {"window", "only the last so many keys count, 0: all", 0, {}, 0, true},
           {"score_bias", "what is added to scores", 0, {"none", "alibi", "additive"}, 0, true},
           {"lse", "whether the logarithm of the sum of exp(score) is an output", 0, {"no", "yes"}, 0, true},
           {"epilogue",
            "(x + shift) * smooth, and its rounding to int8",
            0,
            {"none", "smooth", "quantize"},
            0,
            true},
           {"deterministic",
            "whether a sequence's bits hang neither on the batch nor on what is tuned",
            0,
            {"no", "yes"},
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
      .units = [](const Problem& p) { return p["batch"] * p["q_heads"]; },
      .reference = reference,
      .tolerance = tolerance,
  };
}

}  // namespace warptune
