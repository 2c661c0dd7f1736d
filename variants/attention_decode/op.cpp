// What attention_decode is: one query token per sequence against its KV cache, grouped-query heads.
// Source: Vaswani et al., "Attention Is All You Need", 2017; Ainslie et al., "GQA", 2023; rotation as in Su
// et al., "RoFormer", 2021; slopes as in Press et al., "ALiBi", 2022; pages as in Kwon et
// al., "PagedAttention", 2023; epilogues as in Xiao et al., "SmoothQuant", 2023.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "harness/core/error.h"
#include "kernels/attention_decode/args.h"
#include "variants/attention_decode/dims.h"
#include "variants/helpers/rope.h"

namespace warptune {
namespace {

/// Uneven: full, one key, finished (none), random, repeated. The seed only rotates the batch, so that the
/// cost of a problem does not depend on it.
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

/// Shuffled pages; -1 where a page has no key inside the window.
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

/// The slopes of ALiBi: a geometric series; heads beyond a power of two have slopes in between.
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

/// Scales of heads: positive, because rows are divided by them.
std::vector<float> head_scales(const Problem& p, std::uint64_t first) {
  std::vector<float> scales;
  for (std::int64_t h = 0; h < p["kv_heads"]; ++h)
    scales.push_back(
        static_cast<float>((1 + random_value(first, static_cast<std::uint64_t>(h), 0.5f)) / largest_code(p)));
  return scales;
}

/// The tensors of optional features. `parts`: sequences, or pages of a paged cache; `rows`: those of a part.
void add_feature_tensors(const Problem& p, std::uint64_t seed, std::int64_t parts, std::int64_t rows,
                         std::vector<TensorSpec>& specs) {
  const std::int64_t batch = p["batch"], heads = p["q_heads"], kv_heads = p["kv_heads"], d = p["head_dim"],
                     capacity = cache_capacity(p), page = p["page_size"];
  if (quantized(p))
    for (const char* name : {"k_scale", "v_scale"}) {
      TensorSpec spec{.name = name};
      if (p["kv_scale"] != 0) {
        spec.shape = {parts, kv_heads, rows};
        spec.role = p["append"] != 0 ? Role::inout : Role::input;
        spec.scale = 1.5f / static_cast<float>(largest_code(p));
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
  if (projects(p)) {
    const float scale = 1 / std::sqrt(static_cast<float>(heads * d));
    specs.push_back(
        {.name = "o_weight", .dtype = p.dtype, .shape = {p["hidden"], heads * d}, .scale = scale});
    specs.push_back(
        {.name = "residual", .dtype = p.dtype, .shape = {batch, p["hidden"]}, .cache = CacheState::hot});
  } else if (epilogue_of(p) != Epilogue::none) {
    specs.push_back({.name = "shift", .dtype = p.dtype, .shape = {heads, d}, .scale = 0.5f});
    specs.push_back({.name = "smooth", .dtype = p.dtype, .shape = {heads, d}, .scale = 1.5f});
  }
}

std::vector<TensorSpec> tensors(const Problem& p, std::uint64_t seed) {
  const std::int64_t batch = p["batch"], heads = p["q_heads"], kv_heads = p["kv_heads"], d = p["head_dim"],
                     capacity = cache_capacity(p), x = vector_elements(p), page = p["page_size"];
  const bool append = p["append"] != 0;
  const Role cache_role = append ? Role::inout : Role::input;
  const DType stored = cache_dtype(p);
  // Sequences, or pages; and the rows of each.
  const std::int64_t parts = page == 0 ? batch : batch * (capacity / page),
                     rows = page == 0 ? capacity : page;
  const std::vector<std::int64_t> row_major = {parts, kv_heads, rows, d},
                                  pieces = {parts, kv_heads, d / x, rows, x};
  const float codes = quantized(p) ? static_cast<float>(largest_code(p)) : 1.0f;
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
       .shape = projects(p) ? std::vector{batch, p["hidden"]} : std::vector{batch, heads, d},
       .role = Role::output,
       .cache = CacheState::hot},
  };
  if (append) {
    TensorSpec inv_freq{.name = "inv_freq", .shape = {d / 2}};
    if (p["scaling"] != 0) inv_freq.floats = rope_inv_freq(static_cast<int>(d), rope_scaling(p, capacity));
    specs.push_back(inv_freq);
  }
  if (p["bias"] != 0) specs.push_back({.name = "bias", .dtype = p.dtype, .shape = {heads + 2 * kv_heads, d}});
  add_feature_tensors(p, seed, parts, rows, specs);
  return specs;
}

Args bind(const Problem& p, std::span<void* const> t, void* workspace) {
  const std::vector<TensorSpec> specs = tensors(p, 0);
  const auto at = [&](std::string_view name) -> void* {
    const auto it = std::ranges::find(specs, name, &TensorSpec::name);
    return it == specs.end() ? nullptr : t[static_cast<std::size_t>(it - specs.begin())];
  };
  const AttentionDecodeArgs args{.q = at("q"),
                                 .k_cache = at("k_cache"),
                                 .v_cache = at("v_cache"),
                                 .lengths = static_cast<const int*>(at("lengths")),
                                 .bias = at("bias"),
                                 .inv_freq = static_cast<const float*>(at("inv_freq")),
                                 .out = projects(p) ? workspace : at("out"),
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
                                 .out_scale = kOutScale};
  if (projects(p)) return Args(ProjectDecodeArgs{args, at("o_weight"), at("residual"), at("out")});
  if (!is_dynamic_ntk(p)) return Args(args);
  const RopeScaling scaling = rope_scaling(p, cache_capacity(p));
  return Args(DynamicNtkDecodeArgs{
      {args}, scaling.theta, static_cast<float>(scaling.factor), scaling.original_max_position});
}

void check(const Problem& p) {
  if (p["q_heads"] % p["kv_heads"] != 0)
    throw InputError(fmt::format("attention_decode: q_heads ({}) must be a multiple of kv_heads ({})",
                                 p["q_heads"], p["kv_heads"]));
  if (p["head_dim"] % 2 != 0)
    throw InputError(fmt::format("attention_decode: head_dim ({}) must be even", p["head_dim"]));
  if (p["k_layout"] != 0 && p["head_dim"] % vector_elements(p) != 0)
    throw InputError(fmt::format("attention_decode: k_layout=dsx needs heads of whole 16 bytes, not {} x {}",
                                 p["head_dim"], name_of(cache_dtype(p))));
  if (p["bias"] != 0 && p["append"] == 0) throw InputError("attention_decode: bias=yes needs append=yes");
  if (p["append"] == 0 && (p["style"] != 0 || p["scaling"] != 0))
    throw InputError("attention_decode: style and scaling are those of the append: they need append=yes");
  if (is_dynamic_ntk(p) && p["head_dim"] < 4)
    throw InputError("attention_decode: scaling=dynamic_ntk needs heads of 4 elements or more");
  if (p["kv_scale"] != 0 && !quantized(p))
    throw InputError("attention_decode: kv_scale=token needs kv_dtype=int8 or kv_dtype=fp8");
  if (projects(p) != (p["hidden"] != 0))
    throw InputError(
        "attention_decode: hidden is the width of epilogue=project; a problem has both or neither");
  if (projects(p) && (p["append"] == 0 || p["lse"] != 0 || p["deterministic"] != 0 || is_dynamic_ntk(p)))
    throw InputError(
        "attention_decode: epilogue=project needs append=yes, lse=no, deterministic=no and a fixed theta");
  const std::int64_t page = p["page_size"];
  if (page != 0 && (page < 16 || page > 256 || !std::has_single_bit(static_cast<std::uint64_t>(page))))
    throw InputError(fmt::format(
        "attention_decode: page_size is {}; it must be 0 (contiguous), 16, 32, 64, 128 or 256", page));
}

Cost cost(const Problem& p) {
  const double b = static_cast<double>(size_of(p.dtype)), d = static_cast<double>(p["head_dim"]),
               heads = static_cast<double>(p["q_heads"]), kv_heads = static_cast<double>(p["kv_heads"]);
  const double row = d * static_cast<double>(size_of(cache_dtype(p))) + (p["kv_scale"] != 0 ? 4 : 0);
  const double out =
      projects(p) ? 0 : d * static_cast<double>(size_of(decode_out_dtype(p))) + (p["lse"] != 0 ? 4 : 0);
  const std::int64_t page = p["page_size"];
  const bool append = p["append"] != 0, additive = score_bias_of(p) == ScoreBias::additive;
  Cost c;
  for (const std::int32_t length : lengths_of(p, 0)) {
    c.bytes += heads * out + 4;  // lengths
    if (length == 0) continue;
    const std::int64_t first = first_key(p, length);
    const auto keys = static_cast<double>(length - first);
    c.bytes += heads * d * b + 2 * keys * kv_heads * row;
    if (append) c.bytes += 2 * kv_heads * d * b;  // the new row is read here and written there
    if (page != 0) c.bytes += 4 * static_cast<double>((length - 1) / page - first / page + 1);
    if (additive) c.bytes += heads * keys * b;
    c.flops += 4.0 * keys * d * heads;
  }
  if (append) c.bytes += 2 * d;
  if (p["bias"] != 0) c.bytes += (heads + 2 * kv_heads) * d * b;
  if (quantized(p) && p["kv_scale"] == 0) c.bytes += 2 * kv_heads * 4;
  if (score_bias_of(p) == ScoreBias::alibi) c.bytes += heads * 4;
  if (projects(p)) {
    const auto hidden = static_cast<double>(p["hidden"]), batch = static_cast<double>(p["batch"]);
    c.bytes += (hidden * heads * d + 2 * batch * hidden) * b;
    c.flops += 2 * batch * hidden * heads * d;
  } else if (epilogue_of(p) != Epilogue::none) {
    c.bytes += 2 * heads * d * b;
  }
  return c;
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
           {"k_layout", "layout of K: [S,D] (sd) or [D/x,S,x] with x of 16 bytes (dsx)", 0, {"sd", "dsx"}},
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
           {"score_bias", "what is added to the scores", 0, {"none", "additive", "alibi"}, 0, true},
           {"lse", "whether the logarithm of the sum of exp(score) is an output", 0, {"no", "yes"}, 0, true},
           {"epilogue",
            "(x + shift) * smooth, and its rounding to int8; or the output projection and the residual add",
            0,
            {"none", "smooth", "quantize", "project"},
            0,
            true},
           {"hidden", "epilogue=project: elements of the projected row", 0, {}, 0, true},
           {"deterministic",
            "bitwise reproducible across batch sizes and configurations",
            0,
            {"no", "yes"},
            0,
            true},
           {"style", "append: which elements are a pair", 0, {"half_split", "interleaved"}, 0, true},
           {"scaling",
            "append: scaling of the angles",
            0,
            {"none", "linear", "dynamic_ntk", "llama3"},
            0,
            true}},
      .check = check,
      .tensors = tensors,
      .bind = bind,
      .fields = {field("q", &AttentionDecodeArgs::q),
                 field("k_cache", &AttentionDecodeArgs::k_cache),
                 field("v_cache", &AttentionDecodeArgs::v_cache),
                 field("lengths", &AttentionDecodeArgs::lengths),
                 field("bias", &AttentionDecodeArgs::bias),
                 field("inv_freq", &AttentionDecodeArgs::inv_freq),
                 field("out", &AttentionDecodeArgs::out),
                 field("workspace", &AttentionDecodeArgs::workspace),
                 field("batch", &AttentionDecodeArgs::batch),
                 field("capacity", &AttentionDecodeArgs::capacity),
                 field("scale", &AttentionDecodeArgs::scale),
                 field("k_scale", &AttentionDecodeArgs::k_scale),
                 field("v_scale", &AttentionDecodeArgs::v_scale),
                 field("block_table", &AttentionDecodeArgs::block_table),
                 field("alibi_slopes", &AttentionDecodeArgs::alibi_slopes),
                 field("score_bias", &AttentionDecodeArgs::score_bias),
                 field("lse", &AttentionDecodeArgs::lse),
                 field("shift", &AttentionDecodeArgs::shift),
                 field("smooth", &AttentionDecodeArgs::smooth),
                 field("out_scale", &AttentionDecodeArgs::out_scale),
                 field("o_weight", &ProjectDecodeArgs::o_weight),
                 field("residual", &ProjectDecodeArgs::residual),
                 field("y", &ProjectDecodeArgs::y),
                 field("theta", &DynamicNtkDecodeArgs::theta),
                 field("factor", &DynamicNtkDecodeArgs::factor),
                 field("max_position", &DynamicNtkDecodeArgs::max_position)},
      .cost = cost,
      .sharing =
          [](const Problem& p) {
            return static_cast<double>(p["q_heads"]) / static_cast<double>(p["kv_heads"]);
          },
      .units = [](const Problem& p) { return p["batch"] * (projects(p) ? 1 : p["q_heads"]); },
      .reference = decode_reference,
      .tolerance = decode_tolerance,
  };
}

}  // namespace warptune
