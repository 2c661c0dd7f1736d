// What attention_decode is: one query token per sequence against its KV cache, grouped-query heads.
// Source: Vaswani et al., "Attention Is All You Need", 2017; Ainslie et al., "GQA", 2023; rotation as in Su
// et al., "RoFormer", 2021; slopes as in Press et al., "ALiBi", 2022; pages as in Kwon et
// al., "PagedAttention", 2023; epilogues as in Xiao et al., "SmoothQuant", 2023.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "harness/core/error.h"
#include "kernels/attention_decode/args.h"
#include "variants/attention_decode/dims.h"
#include "variants/helpers/head_norm.h"
#include "variants/helpers/rope.h"
#include "variants/helpers/specs.h"

namespace warptune {
namespace {

/// Uneven: full, one key, finished (none), random, repeated. The seed only rotates the batch, so that the
/// cost of a problem does not depend on it.
std::vector<std::int32_t> lengths_of(const Problem& p, std::uint64_t seed) {
  const std::int64_t batch = p["batch"], context = p["context"];
  std::vector<std::int32_t> lengths(batch, context);
  if (p["uneven"] == 0) return lengths;
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t any = 1 + random_bits(b, 0) % context;
    const std::int64_t kinds[] = {b == 0 ? context : any, 1, 0, any};
    lengths[(b + seed) % batch] = kinds[b % 4];
  }
  return lengths;
}

/// Shuffled pages; -1 where a page has no key inside the window.
std::vector<std::int32_t> block_table_of(const Problem& p, std::uint64_t seed) {
  const std::int64_t size = p["page_size"], per_sequence = cache_capacity(p) / size;
  const std::vector<std::int32_t> lengths = lengths_of(p, seed);
  std::vector<std::int32_t> table = shuffled_pages(p["batch"] * per_sequence, seed);
  for (std::size_t i = 0; i < table.size(); ++i) {
    const std::int64_t length = lengths[i / per_sequence], key = i % per_sequence * size;
    if (key >= length || key + size <= first_key(p, length)) table[i] = -1;
  }
  return table;
}

/// The slopes of ALiBi: a geometric series; heads beyond a power of two have slopes in between.
std::vector<float> alibi_slopes(std::int64_t heads) {
  const double whole = std::bit_floor<std::uint64_t>(heads);
  std::vector<float> slopes;
  for (std::int64_t h = 0; h < heads; ++h)
    slopes.push_back(std::exp2(-(h < whole ? 8.0 * (h + 1) / whole : 4.0 * (2 * (h - whole) + 1) / whole)));
  return slopes;
}

/// Scales of heads: positive, because rows are divided by them.
std::vector<float> head_scales(const Problem& p, std::uint64_t first) {
  std::vector<float> scales;
  for (std::int64_t h = 0; h < p["kv_heads"]; ++h)
    scales.push_back((1 + random_value(first, h, 0.5f)) / largest_code(cache_dtype(p)));
  return scales;
}

RopeScaling scaling_of(const Problem& p) { return rope_scaling(p, cache_capacity(p)); }
KvCacheShape cache_shape(const Problem& p) { return {p, cache_dtype(p), cache_capacity(p)}; }

/// The tensors of optional features.
void add_feature_tensors(const Problem& p, std::uint64_t seed, std::vector<TensorSpec>& specs) {
  const std::int64_t batch = p["batch"], heads = p["q_heads"], d = p["head_dim"],
                     capacity = cache_capacity(p), page = p["page_size"];
  if (quantized(p))
    for (const char* name : {"k_scale", "v_scale"}) {
      TensorSpec spec{.name = name};
      if (p["kv_scale"] != 0) {
        spec.shape = cache_shape(p).scales();
        spec.role = p["append"] != 0 ? Role::inout : Role::input;
        spec.scale = 1.5f / largest_code(cache_dtype(p));
      } else {
        spec.shape = {p["kv_heads"]};
        spec.cache = CacheState::hot;
        spec.floats = head_scales(p, seed * 2 + (name[0] == 'v'));
      }
      specs.push_back(spec);
    }
  if (page != 0)
    specs.push_back(given_ints("block_table", {batch, capacity / page}, block_table_of(p, seed)));
  if (score_bias_of(p) == ScoreBias::alibi)
    specs.push_back(
        {.name = "alibi_slopes", .shape = {heads}, .cache = CacheState::hot, .floats = alibi_slopes(heads)});
  if (score_bias_of(p) == ScoreBias::additive)
    specs.push_back(
        {.name = "score_bias", .dtype = p.dtype, .shape = {batch, heads, capacity}, .scale = 3.0f});
  if (p["lse"] != 0) specs.push_back(activation("lse", DType::fp32, {batch, heads}, Role::output));
  if (projects(p)) {
    const float scale = 1 / std::sqrt(static_cast<float>(heads * d));
    specs.push_back(
        {.name = "o_weight", .dtype = p.dtype, .shape = {p["hidden"], heads * d}, .scale = scale});
    specs.push_back(activation("residual", p.dtype, {batch, p["hidden"]}));
  } else if (epilogue_of(p) != Epilogue::none) {
    specs.push_back({.name = "shift", .dtype = p.dtype, .shape = {heads, d}, .scale = 0.5f});
    specs.push_back({.name = "smooth", .dtype = p.dtype, .shape = {heads, d}, .scale = 1.5f});
  }
}

std::vector<TensorSpec> tensors(const Problem& p, std::uint64_t seed) {
  const std::int64_t batch = p["batch"], heads = p["q_heads"], d = p["head_dim"],
                     all_heads = heads + 2 * p["kv_heads"];
  const bool append = p["append"] != 0;
  const KvCacheShape cache = cache_shape(p);
  const TensorSpec kv{.role = append ? Role::inout : Role::input,
                      .scale = quantized(p) ? largest_code(cache.dtype) : 1.0f};
  std::vector<TensorSpec> specs = {
      activation("q", p.dtype, {batch, append ? all_heads : heads, d}, Role::input, 3.0f),
      cache.keys(kv, d, p["k_layout"] != 0), cache.values(kv, d),
      given_ints("lengths", {batch}, lengths_of(p, seed)),
      activation("out", decode_out_dtype(p),
                 projects(p) ? std::vector{batch, p["hidden"]} : std::vector{batch, heads, d}, Role::output)};
  if (append) {
    TensorSpec inv_freq{.name = "inv_freq", .shape = {d / 2}};
    if (p["scaling"] != 0) inv_freq.floats = rope_inv_freq(d, scaling_of(p));
    specs.push_back(inv_freq);
  }
  if (p["bias"] != 0) specs.push_back({.name = "bias", .dtype = p.dtype, .shape = {all_heads, d}});
  if (p["qk_norm"] != 0) specs.push_back({.name = "qk_norm", .dtype = p.dtype, .shape = {2, d}});
  add_feature_tensors(p, seed, specs);
  return specs;
}

// What fills the members that are neither tensors nor dims.
double theta(const Problem& p) { return scaling_of(p).theta; }
double factor(const Problem& p) { return scaling_of(p).factor; }
int max_position(const Problem& p) { return scaling_of(p).original_max_position; }
/// With a projection the tensor is `y`, and `out` holds the rows before it.
void* out_rows(const ArgsSource& s) { return projects(s.problem) ? s.workspace : s.tensor("out"); }
void* projected_rows(const ArgsSource& s) { return projects(s.problem) ? s.tensor("out") : nullptr; }

/// The size of the struct of a problem.
std::size_t args_bytes(const Problem& p) {
  if (p["qk_norm"] != 0) return sizeof(NormDecodeArgs);
  if (projects(p)) return sizeof(ProjectDecodeArgs);
  return is_dynamic_ntk(p) ? sizeof(DynamicNtkDecodeArgs) : sizeof(AttentionDecodeArgs);
}

void check(const Problem& p) {
  if (p["q_heads"] % p["kv_heads"] != 0)
    throw InputError(fmt::format("attention_decode: q_heads ({}) must be a multiple of kv_heads ({})",
                                 p["q_heads"], p["kv_heads"]));
  if (p["head_dim"] % 2 != 0)
    throw InputError(fmt::format("attention_decode: head_dim ({}) must be even", p["head_dim"]));
  check_kv_cache(p, cache_dtype(p));
  if (p["bias"] != 0 && p["append"] == 0) throw InputError("attention_decode: bias=yes needs append=yes");
  if (p["append"] == 0 && (p["style"] != 0 || p["scaling"] != 0 || p["qk_norm"] != 0))
    throw InputError(
        "attention_decode: style, scaling and qk_norm are those of the append: they need append=yes");
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
}

Cost cost(const Problem& p) {
  const double b = size_of(p.dtype), d = p["head_dim"], heads = p["q_heads"], kv_heads = p["kv_heads"];
  const double row = d * size_of(cache_dtype(p)) + (p["kv_scale"] != 0 ? 4 : 0);
  const double out = projects(p) ? 0 : d * size_of(decode_out_dtype(p)) + (p["lse"] != 0 ? 4 : 0);
  const std::int64_t page = p["page_size"];
  const bool append = p["append"] != 0, additive = score_bias_of(p) == ScoreBias::additive;
  Cost c;
  for (const std::int32_t length : lengths_of(p, 0)) {
    c.bytes += heads * out + 4;  // lengths
    if (length == 0) continue;
    const std::int64_t first = first_key(p, length);
    const double keys = length - first;
    c.bytes += heads * d * b + 2 * keys * kv_heads * row;
    if (append) c.bytes += 2 * kv_heads * d * b;  // the new row is read here and written there
    if (page != 0) c.bytes += 4 * ((length - 1) / page - first / page + 1);
    if (additive) c.bytes += heads * keys * b;
    c.flops += 4.0 * keys * d * heads;
  }
  if (append) c.bytes += 2 * d;
  if (p["bias"] != 0) c.bytes += (heads + 2 * kv_heads) * d * b;
  if (p["qk_norm"] != 0) c.bytes += 2 * d * b;
  if (quantized(p) && p["kv_scale"] == 0) c.bytes += 2 * kv_heads * 4;
  if (score_bias_of(p) == ScoreBias::alibi) c.bytes += heads * 4;
  if (projects(p)) {
    const double hidden = p["hidden"], batch = p["batch"];
    c.bytes += (hidden * heads * d + 2 * batch * hidden) * b;
    c.flops += 2 * batch * hidden * heads * d;
  } else if (epilogue_of(p) != Epilogue::none) {
    c.bytes += 2 * heads * d * b;
  }
  return c;
}

}  // namespace

Op attention_decode() {
  using A = AttentionDecodeArgs;
  using Project = ProjectDecodeArgs;
  using DynamicNtk = DynamicNtkDecodeArgs;
  using Norm = NormDecodeArgs;
  return {
      .name = "attention_decode",
      .summary = "softmax(q . K * scale) . V for one new token per sequence over its KV cache",
      .dims =
          {work_dim({"batch", "sequences"}),
           parallel_dim({"q_heads", "query heads"}),
           parallel_dim({"kv_heads", "key and value heads, each serving q_heads / kv_heads query heads"}),
           {"head_dim", "elements of a head"},
           work_dim({"context", "keys of the longest sequence, the current token included"}),
           data_dim({"uneven", "whether lengths differ, with sequences of one key and of none", 0, kNoYes}),
           {"k_layout", "layout of K: [S,D] (sd) or [D/x,S,x] with x of 16 bytes (dsx)", 0, {"sd", "dsx"}},
           {"append", "whether RoPE and the append to the cache are fused in", 0, kNoYes},
           {"bias", "whether q, k and v get a bias first", 0, kNoYes},
           feature("kv_dtype", "how K and V are stored", {"same", "int8", "fp8"}),
           feature("kv_scale", "what has a scale of its own: a KV head, or each of its rows",
                   {"head", "token"}),
           feature("page_size", "keys per page of a paged cache, 0: contiguous"),
           feature("window", "keys that count, the last ones; 0: all"),
           feature("score_bias", "what is added to the scores", {"none", "additive", "alibi"}),
           feature("lse", "whether the logarithm of the sum of exp(score) is an output", kNoYes),
           feature("epilogue",
                   "(x + shift) * smooth, and its rounding to int8; or the output projection and the "
                   "residual add",
                   {"none", "smooth", "quantize", "project"}),
           feature("hidden", "epilogue=project: elements of the projected row"),
           feature("deterministic", "bitwise reproducible across batch sizes and configurations", kNoYes),
           feature("style", "append: which elements are a pair", {"half_split", "interleaved"}),
           feature("scaling", "append: scaling of the angles", {"none", "linear", "dynamic_ntk", "llama3"}),
           feature("qk_norm", "append: whether heads of q and k are normalized before they rotate", kNoYes)},
      .check = check,
      .tensors = tensors,
      .fields = {field("q", &A::q),
                 field("k_cache", &A::k_cache),
                 field("v_cache", &A::v_cache),
                 field("lengths", &A::lengths),
                 field("bias", &A::bias),
                 field("inv_freq", &A::inv_freq),
                 field("out", &A::out, out_rows),
                 field("workspace", &A::workspace),
                 field("batch", &A::batch),
                 field("capacity", &A::capacity, cache_capacity),
                 field("scale", &A::scale, scale_of),
                 field("k_scale", &A::k_scale),
                 field("v_scale", &A::v_scale),
                 field("block_table", &A::block_table),
                 field("alibi_slopes", &A::alibi_slopes),
                 field("score_bias", &A::score_bias),
                 field("lse", &A::lse),
                 field("shift", &A::shift),
                 field("smooth", &A::smooth),
                 field("out_scale", &A::out_scale, kOutScale),
                 field("o_weight", &Project::o_weight),
                 field("residual", &Project::residual),
                 field("y", &Project::y, projected_rows),
                 field("theta", &DynamicNtk::theta, theta),
                 field("factor", &DynamicNtk::factor, factor),
                 field("max_position", &DynamicNtk::max_position, max_position),
                 field("qk_norm", &Norm::qk_norm),
                 field("eps", &Norm::eps, kHeadNormEps)},
      .args_bytes = args_bytes,
      .cost = cost,
      .sharing = heads_per_kv_head,
      .units = [](const Problem& p) { return p["batch"] * (projects(p) ? 1 : p["q_heads"]); },
      .reference = decode_reference,
      .tolerance = decode_tolerance,
  };
}

}  // namespace warptune
