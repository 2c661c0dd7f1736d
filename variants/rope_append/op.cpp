// The op rope_append. Source: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding",
// 2021; the scalings as in Hugging Face transformers; pages as in Kwon et al., "PagedAttention", 2023.
#include <fmt/format.h>

#include <cmath>

#include "harness/core/error.h"
#include "harness/core/variant_values.h"
#include "kernels/rope_append/args.h"
#include "variants/helpers/head_norm.h"
#include "variants/helpers/kv_cache.h"
#include "variants/helpers/rope.h"
#include "variants/helpers/specs.h"
#include "variants/rope_append/rope_append.h"

namespace warptune {
namespace {

/// The tokens of a problem, spread over the sequences; those of a sequence are consecutive positions.
struct Batch {
  std::vector<std::int32_t> sequence, position, lengths;
};

bool is_quantized(const Problem& p) { return p["kv_dtype"] != 0; }

bool skips(const Problem& p, std::int64_t token) { return p["batch"] > 1 && token % 16 == 11; }

Batch make_batch(const Problem& p, std::uint64_t seed) {
  const std::int64_t tokens = p["tokens"], batch = p["batch"], start = p["start"];
  Batch b;
  std::int64_t token = 0;
  for (std::int64_t s = 0; s < batch; ++s) {
    const std::int64_t count = tokens / batch + (s < tokens % batch ? 1 : 0);
    const std::int64_t first = start + (s + seed % 1024) * 29 % kStartSpread;
    for (std::int64_t i = 0; i < count; ++i, ++token) {
      b.sequence.push_back(s);
      b.position.push_back(skips(p, token) ? -1 : first + i);
    }
    b.lengths.push_back(first + count);
  }
  return b;
}

/// The block table: shuffled pages; -1 where no row is written.
std::vector<std::int32_t> block_table_of(const Problem& p, std::uint64_t seed) {
  const std::int64_t size = p["page_size"], per_sequence = rope_capacity(p) / size;
  const std::vector<std::int32_t> pages = shuffled_pages(p["batch"] * per_sequence, seed);
  std::vector<std::int32_t> table(pages.size(), -1);
  const Batch b = make_batch(p, seed);
  for (std::size_t t = 0; t < b.position.size(); ++t)
    if (b.position[t] >= 0) {
      const std::int64_t at = b.sequence[t] * per_sequence + b.position[t] / size;
      table[at] = pages[at];
    }
  return table;
}

RopeScaling scaling_of(const Problem& p) { return rope_scaling(p, rope_capacity(p)); }

// What fills the members that are neither tensors nor dims.
double theta(const Problem& p) { return scaling_of(p).theta; }
double factor(const Problem& p) { return scaling_of(p).factor; }
int max_position(const Problem& p) { return scaling_of(p).original_max_position; }
std::size_t args_bytes(const Problem& p) {
  return p["qk_norm"] == 1 ? sizeof(NormRopeAppendArgs) : sizeof(RopeAppendArgs);
}
void* bias_tensor(const ArgsSource& s) { return s.problem["bias"] == 1 ? s.tensor("bias") : nullptr; }

void check(const Problem& p) {
  if (p["head_dim"] % 2 != 0)
    throw InputError("rope_append rotates pairs of elements: head_dim must be even");
  if (rotary_dim(p) % 2 != 0 || rotary_dim(p) > p["head_dim"])
    throw InputError(fmt::format("rope_append: rotary_dim is {}; it must be even and at most head_dim, {}",
                                 p["rotary_dim"], p["head_dim"]));
  if (is_dynamic_ntk(p) && rotary_dim(p) < 4)
    throw InputError("rope_append with dynamic_ntk needs 4 elements that rotate, or more");
  check_kv_cache(p, rope_cache_dtype(p));
  if (p["start"] + p["tokens"] > (1 << 30))
    throw InputError("rope_append: start + tokens must be at most 2^30");
  if (p["tokens"] * (p["q_heads"] + 2 * p["kv_heads"]) * p["head_dim"] > (std::int64_t{1} << 31))
    throw InputError("rope_append: qkv must have at most 2^31 elements");
}

/// [head_dim / 2], 0 for the pairs that do not rotate.
std::vector<float> inv_freq_of(const Problem& p) {
  std::vector<float> table = rope_inv_freq(rotary_dim(p), scaling_of(p));
  table.resize(p["head_dim"] / 2);
  return table;
}

std::vector<TensorSpec> tensors(const Problem& p, std::uint64_t seed) {
  const std::int64_t tokens = p["tokens"], q_heads = p["q_heads"], kv_heads = p["kv_heads"];
  const std::int64_t head_dim = p["head_dim"], heads = q_heads + 2 * kv_heads, batch = p["batch"];
  Batch b = make_batch(p, seed);
  const KvCacheShape cache(p, rope_cache_dtype(p), rope_capacity(p));
  const TensorSpec kv{.role = Role::output, .sparse = true};
  TensorSpec q = activation("q", p.dtype, {tokens, q_heads, head_dim}, Role::output);
  q.sparse = batch > 1;  // skipped tokens
  std::vector<TensorSpec> specs = {
      activation("qkv", p.dtype, {tokens, heads, head_dim}),
      {.name = "bias", .dtype = p.dtype, .shape = {heads, head_dim}},
      given_ints("sequence", {tokens}, std::move(b.sequence)),
      given_ints("position", {tokens}, std::move(b.position)),
      given_ints("lengths", {batch}, std::move(b.lengths)),
      {.name = "inv_freq", .shape = {head_dim / 2}, .cache = CacheState::hot, .floats = inv_freq_of(p)},
      q,
      cache.keys(kv, head_dim, p["k_layout"] == 1),
      cache.values(kv, head_dim),
  };
  if (is_quantized(p))
    for (const char* name : {"k_scale", "v_scale"})
      specs.push_back({.name = name, .shape = cache.scales(), .role = Role::output, .sparse = true});
  if (p["page_size"] != 0)
    specs.push_back(
        given_ints("block_table", {batch, rope_capacity(p) / p["page_size"]}, block_table_of(p, seed)));
  if (p["qk_norm"] == 1) specs.push_back({.name = "qk_norm", .dtype = p.dtype, .shape = {2, head_dim}});
  return specs;
}

/// A unit is a token: all its heads.
void reference(const Problem& p, const Inputs& in, std::int64_t token, Expected& out) {
  const std::int64_t q_heads = p["q_heads"], kv_heads = p["kv_heads"], heads = q_heads + 2 * kv_heads;
  const std::int64_t head_dim = p["head_dim"], half = head_dim / 2, capacity = rope_capacity(p);
  const std::int64_t page = p["page_size"], rows = page == 0 ? capacity : page;  // of a sequence, or a page
  const std::int64_t position = in["position"][token];
  if (position < 0) return;
  const std::int64_t sequence = in["sequence"][token];
  const int length = in["lengths"][sequence];
  const RopeScaling scaling = scaling_of(p);
  const Values table = in["inv_freq"], qkv = in["qkv"], bias = in["bias"];
  const std::int64_t rotary = rotary_dim(p);
  const DType stored = rope_cache_dtype(p);
  std::vector<double> sine, cosine;
  for (std::int64_t i = 0; i < half; ++i) {
    const double angle = rope_angle(scaling, table[i], position, length, rotary, i);
    sine.push_back(std::sin(angle));
    cosine.push_back(std::cos(angle));
  }
  for (std::int64_t head = 0; head < heads; ++head) {
    std::vector<double> x;
    for (std::int64_t d = 0; d < head_dim; ++d)
      x.push_back(qkv[(token * heads + head) * head_dim + d] +
                  (p["bias"] == 1 ? bias[head * head_dim + d] : 0));
    if (head < q_heads + kv_heads) {
      if (p["qk_norm"] == 1) normalize_head(x, in["qk_norm"], head < q_heads);
      for (std::int64_t i = 0; i < half; ++i) {
        const auto [first, second] =
            is_interleaved(p) ? std::pair(2 * i, 2 * i + 1) : half_split_pair(i, head_dim, rotary);
        double &x0 = x[first], &x1 = x[second];
        const double s = sine[i], c = cosine[i];
        const double turned = x0 * c - x1 * s;
        x1 = x0 * s + x1 * c;
        x0 = turned;
      }
    }
    if (head < q_heads) {
      out.put("q", (token * q_heads + head) * head_dim, std::move(x));
      continue;
    }
    const bool is_k = head < q_heads + kv_heads;
    const std::int64_t part =
        page == 0 ? sequence : in["block_table"][sequence * (capacity / page) + position / page];
    const std::int64_t first = (part * kv_heads + (head - q_heads) % kv_heads) * rows,
                       within = position % rows;
    if (is_quantized(p)) {
      for (double& value : x) value = round_to(p.dtype, value);
      const float scale = row_scale(x, stored);
      quantize(x, scale, stored);
      out.put(is_k ? "k_scale" : "v_scale", first + within, {scale});
    }
    if (!is_k) {
      out.put("v_cache", (first + within) * head_dim, std::move(x));
      continue;
    }
    const std::int64_t width = p["k_layout"] == 1 ? elements_of_16_bytes(stored) : head_dim;
    for (std::int64_t d = 0; d < head_dim; d += width)
      out.put("k_cache", first * head_dim + (d / width * rows + within) * width,
              {x.begin() + d, x.begin() + d + width});
  }
}

Cost cost(const Problem& p) {
  const double q = p["q_heads"] * p["head_dim"], kv = p["kv_heads"] * p["head_dim"], b = size_of(p.dtype);
  const double stored = 2 * kv * size_of(rope_cache_dtype(p)) + (is_quantized(p) ? 8 * p["kv_heads"] : 0);
  double tokens = 0;
  for (std::int64_t t = 0; t < p["tokens"]; ++t) tokens += skips(p, t) ? 0 : 1;
  const bool norm = p["qk_norm"] == 1;
  const double read = (tokens + (p["bias"] == 1 ? 1 : 0)) * (q + 2 * kv) * b +
                      (norm ? 2 * p["head_dim"] * b : 0),
               written = q * b + stored;
  return Cost{.bytes = read + tokens * (written + 8 + (p["page_size"] != 0 ? 4 : 0)),
              .flops = tokens * (q + kv) * (3.0 * rotary_dim(p) / p["head_dim"] + (norm ? 4 : 0))};
}

}  // namespace

std::int64_t rope_capacity(const Problem& p) {
  return kRopeCapacity.evaluate([&](const std::string& dim) { return p[dim]; });
}

Op rope_append() {
  using A = RopeAppendArgs;
  using Norm = NormRopeAppendArgs;
  return {
      .name = "rope_append",
      .summary = "splits qkv, adds the bias, normalizes and rotates q and k, appends k and v to the cache",
      .dims = {work_dim({"tokens", "rows of qkv"}),
               parallel_dim({"q_heads", "query heads"}),
               parallel_dim({"kv_heads", "key and value heads"}),
               {"head_dim", "elements per head"},
               work_dim({"batch", "sequences of the cache", 1}),
               {"style", "which elements are a pair", 0, {"half_split", "interleaved"}},
               {"scaling", "scaling of the angles", 0, {"none", "linear", "dynamic_ntk", "llama3"}},
               {"bias", "whether q, k and v have a bias", 0, kNoYes},
               {"k_layout", "[S, D] or [D/x, S, x] with x = 16 bytes", 0, {"sd", "dsx"}},
               {.name = "start",
                .doc = "the lowest position; kernels are for 2^17 positions, more where it is higher",
                .fallback = 0,
                .min = 0},
               feature("kv_dtype", "element type of the cache; int8 and fp8 with a scale per row",
                       {"same", "int8", "fp8"}),
               feature("page_size", "rows per page of a paged cache, 0: contiguous"),
               feature("rotary_dim", "leading elements of a head that rotate, 0: all"),
               feature("qk_norm", "whether heads of q and k are normalized before they rotate", kNoYes)},
      .check = check,
      .tensors = tensors,
      .fields = {field("qkv", &A::qkv), field("bias", &A::bias, bias_tensor), field("sequence", &A::sequence),
                 field("position", &A::position), field("lengths", &A::lengths),
                 field("inv_freq", &A::inv_freq), field("q", &A::q), field("k_cache", &A::k_cache),
                 field("v_cache", &A::v_cache), field("tokens", &A::tokens),
                 field("capacity", &A::capacity, rope_capacity), field("theta", &A::theta, theta),
                 field("factor", &A::factor, factor), field("max_position", &A::max_position, max_position),
                 field("k_scale", &A::k_scale), field("v_scale", &A::v_scale),
                 field("block_table", &A::block_table), field("qk_norm", &Norm::qk_norm),
                 field("eps", &Norm::eps, kHeadNormEps)},
      .args_bytes = args_bytes,
      .cost = cost,
      .sharing = heads_per_kv_head,
      .units = [](const Problem& p) { return p["tokens"]; },
      .reference = reference,
      // A row is rounded to dtype before it is quantized.
      .tolerance = [](const Problem& p) { return default_tolerance(p.dtype, is_quantized(p) ? 2 : 1); },
  };
}

}  // namespace warptune
