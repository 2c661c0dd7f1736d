// The op rope_append. Source: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding",
// 2021; the scalings as in Hugging Face transformers; pages as in Kwon et al., "PagedAttention", 2023.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "harness/core/error.h"
#include "harness/core/variant_values.h"
#include "kernels/rope_append/args.h"
#include "variants/helpers/rope.h"
#include "variants/rope_append/rope_append.h"

namespace warptune {
namespace {

/// The tokens of a problem, spread over the sequences; those of a sequence are consecutive positions.
struct Batch {
  std::vector<std::int32_t> sequence, position, lengths;
};

bool is_quantized(const Problem& p) { return p["kv_dtype"] != 0; }

/// Elements of the cache in 16 bytes: x of the layout [D/x, S, x].
std::int64_t elements_of_16_bytes(const Problem& p) {
  return 16 / static_cast<std::int64_t>(size_of(rope_cache_dtype(p)));
}

bool skips(const Problem& p, std::int64_t token) { return p["batch"] > 1 && token % 16 == 11; }

Batch make_batch(const Problem& p, std::uint64_t seed) {
  const std::int64_t tokens = p["tokens"], batch = p["batch"], start = p["start"];
  Batch b;
  std::int64_t token = 0;
  for (std::int64_t s = 0; s < batch; ++s) {
    const std::int64_t count = tokens / batch + (s < tokens % batch ? 1 : 0);
    const std::int64_t first = start + (s + static_cast<std::int64_t>(seed % 1024)) * 29 % kStartSpread;
    for (std::int64_t i = 0; i < count; ++i, ++token) {
      b.sequence.push_back(static_cast<std::int32_t>(s));
      b.position.push_back(skips(p, token) ? -1 : static_cast<std::int32_t>(first + i));
    }
    b.lengths.push_back(static_cast<std::int32_t>(first + count));
  }
  return b;
}

/// The block table: shuffled pages; -1 where no row is written.
std::vector<std::int32_t> block_table_of(const Problem& p, std::uint64_t seed) {
  const std::int64_t size = p["page_size"], per_sequence = rope_capacity(p) / size;
  std::vector<std::int32_t> pages(static_cast<std::size_t>(p["batch"] * per_sequence));
  std::iota(pages.begin(), pages.end(), 0);
  for (std::size_t i = pages.size(); i > 1; --i) std::swap(pages[i - 1], pages[random_bits(seed, i) % i]);
  std::vector<std::int32_t> table(pages.size(), -1);
  const Batch b = make_batch(p, seed);
  for (std::size_t t = 0; t < b.position.size(); ++t)
    if (b.position[t] >= 0) {
      const auto at = static_cast<std::size_t>(b.sequence[t] * per_sequence + b.position[t] / size);
      table[at] = pages[at];
    }
  return table;
}

RopeScaling scaling_of(const Problem& p) { return rope_scaling(p, rope_capacity(p)); }

void check(const Problem& p) {
  if (p["head_dim"] % 2 != 0)
    throw InputError("rope_append rotates pairs of elements: head_dim must be even");
  if (rotary_dim(p) % 2 != 0 || rotary_dim(p) > p["head_dim"])
    throw InputError(fmt::format("rope_append: rotary_dim is {}; it must be even and at most head_dim, {}",
                                 p["rotary_dim"], p["head_dim"]));
  if (is_dynamic_ntk(p) && rotary_dim(p) < 4)
    throw InputError("rope_append with dynamic_ntk needs 4 elements that rotate, or more");
  if (p["k_layout"] == 1 && p["head_dim"] % elements_of_16_bytes(p) != 0)
    throw InputError(fmt::format("rope_append: k_layout=dsx needs heads of whole 16 bytes, not {} x {}",
                                 p["head_dim"], name_of(rope_cache_dtype(p))));
  const std::int64_t page = p["page_size"];
  if (page != 0 && (page < 16 || page > 256 || !std::has_single_bit(static_cast<std::uint64_t>(page))))
    throw InputError(
        fmt::format("rope_append: page_size is {}; it must be 0 (contiguous), 16, 32, 64, 128 or 256", page));
  if (p["start"] + p["tokens"] > (1 << 30))
    throw InputError("rope_append: start + tokens must be at most 2^30");
  if (p["tokens"] * (p["q_heads"] + 2 * p["kv_heads"]) * p["head_dim"] > (std::int64_t{1} << 31))
    throw InputError("rope_append: qkv must have at most 2^31 elements");
}

/// [head_dim / 2], 0 for the pairs that do not rotate.
std::vector<float> inv_freq_of(const Problem& p) {
  std::vector<float> table = rope_inv_freq(static_cast<int>(rotary_dim(p)), scaling_of(p));
  table.resize(static_cast<std::size_t>(p["head_dim"] / 2));
  return table;
}

std::vector<TensorSpec> tensors(const Problem& p, std::uint64_t seed) {
  const std::int64_t tokens = p["tokens"], q_heads = p["q_heads"], kv_heads = p["kv_heads"];
  const std::int64_t head_dim = p["head_dim"], heads = q_heads + 2 * kv_heads, batch = p["batch"];
  Batch b = make_batch(p, seed);
  const std::int64_t capacity = rope_capacity(p), page = p["page_size"], x = elements_of_16_bytes(p);
  // Sequences or pages, and the rows of each.
  const std::int64_t parts = page == 0 ? batch : batch * (capacity / page),
                     rows = page == 0 ? capacity : page;
  const std::vector<std::int64_t> cache = {parts, kv_heads, rows, head_dim},
                                  split = {parts, kv_heads, head_dim / x, rows, x};
  const DType stored = rope_cache_dtype(p);
  const CacheState hot = CacheState::hot;
  std::vector<TensorSpec> specs = {
      {.name = "qkv", .dtype = p.dtype, .shape = {tokens, heads, head_dim}, .cache = hot},
      {.name = "bias", .dtype = p.dtype, .shape = {heads, head_dim}},
      {.name = "sequence",
       .dtype = DType::int32,
       .shape = {tokens},
       .cache = hot,
       .values = std::move(b.sequence)},
      {.name = "position",
       .dtype = DType::int32,
       .shape = {tokens},
       .cache = hot,
       .values = std::move(b.position)},
      {.name = "lengths",
       .dtype = DType::int32,
       .shape = {batch},
       .cache = hot,
       .values = std::move(b.lengths)},
      {.name = "inv_freq", .shape = {head_dim / 2}, .cache = hot, .floats = inv_freq_of(p)},
      {.name = "q",
       .dtype = p.dtype,
       .shape = {tokens, q_heads, head_dim},
       .role = Role::output,
       .cache = hot,
       .sparse = batch > 1},
      {.name = "k_cache",
       .dtype = stored,
       .shape = p["k_layout"] == 1 ? split : cache,
       .role = Role::output,
       .sparse = true},
      {.name = "v_cache", .dtype = stored, .shape = cache, .role = Role::output, .sparse = true},
  };
  if (is_quantized(p))
    for (const char* name : {"k_scale", "v_scale"})
      specs.push_back({.name = name, .shape = {parts, kv_heads, rows}, .role = Role::output, .sparse = true});
  if (page != 0)
    specs.push_back({.name = "block_table",
                     .dtype = DType::int32,
                     .shape = {batch, capacity / page},
                     .cache = hot,
                     .values = block_table_of(p, seed)});
  return specs;
}

Args bind(const Problem& p, std::span<void* const> t, void*) {
  const RopeScaling scaling = scaling_of(p);
  RopeAppendArgs a{.qkv = t[0],
                   .bias = p["bias"] == 1 ? t[1] : nullptr,
                   .sequence = static_cast<const int*>(t[2]),
                   .position = static_cast<const int*>(t[3]),
                   .lengths = static_cast<const int*>(t[4]),
                   .inv_freq = static_cast<const float*>(t[5]),
                   .q = t[6],
                   .k_cache = t[7],
                   .v_cache = t[8],
                   .tokens = static_cast<int>(p["tokens"]),
                   .capacity = static_cast<int>(rope_capacity(p)),
                   .theta = static_cast<float>(scaling.theta),
                   .factor = static_cast<float>(scaling.factor),
                   .max_position = scaling.original_max_position};
  std::size_t next = 9;  // optional tensors, in the order of tensors()
  if (is_quantized(p)) {
    a.k_scale = static_cast<float*>(t[next++]);
    a.v_scale = static_cast<float*>(t[next++]);
  }
  if (p["page_size"] != 0) a.block_table = static_cast<const int*>(t[next++]);
  return Args(a);
}

/// Writes the scale of a row, and divides its elements, rounded to dtype, by it: in fp32 as every variant
/// does, so that all round alike.
void quantize(const Problem& p, std::vector<double>& x, const char* scales, std::int64_t row, Expected& out) {
  const float largest_code = rope_largest_code(rope_cache_dtype(p));
  double largest = 0;
  for (double& value : x) {
    value = round_to(p.dtype, value);
    largest = std::max(largest, std::abs(value));
  }
  const float scale = static_cast<float>(largest) / largest_code, inverse = scale == 0 ? 0 : 1 / scale;
  for (double& value : x)
    value = std::clamp(static_cast<float>(value) * inverse, -largest_code, largest_code);
  out.put(scales, row, {scale});
}

/// A unit is a token: all its heads.
void reference(const Problem& p, const Inputs& in, std::int64_t token, Expected& out) {
  const std::int64_t q_heads = p["q_heads"], kv_heads = p["kv_heads"], heads = q_heads + 2 * kv_heads;
  const std::int64_t head_dim = p["head_dim"], half = head_dim / 2, capacity = rope_capacity(p);
  const std::int64_t page = p["page_size"], rows = page == 0 ? capacity : page;  // of a sequence, or a page
  const auto position = static_cast<std::int64_t>(in["position"][token]);
  if (position < 0) return;
  const auto sequence = static_cast<std::int64_t>(in["sequence"][token]);
  const int length = static_cast<int>(in["lengths"][sequence]);
  const RopeScaling scaling = scaling_of(p);
  const Values table = in["inv_freq"], qkv = in["qkv"], bias = in["bias"];
  const bool grown = scaling.kind == RopeKind::dynamic_ntk && length > scaling.original_max_position;
  const std::int64_t rotary = rotary_dim(p);
  std::vector<double> sine, cosine;
  for (std::int64_t i = 0; i < half; ++i) {
    const float inv_freq =
        grown && i < rotary / 2
            ? rope_grown_inv_freq(scaling.theta, scaling.factor, scaling.original_max_position, length,
                                  static_cast<double>(rotary), static_cast<double>(i))
            : static_cast<float>(table[i]);
    const float angle = static_cast<float>(position) * inv_freq;
    sine.push_back(std::sin(static_cast<double>(angle)));
    cosine.push_back(std::cos(static_cast<double>(angle)));
  }
  for (std::int64_t head = 0; head < heads; ++head) {
    std::vector<double> x;
    for (std::int64_t d = 0; d < head_dim; ++d)
      x.push_back(qkv[(token * heads + head) * head_dim + d] +
                  (p["bias"] == 1 ? bias[head * head_dim + d] : 0));
    if (head < q_heads + kv_heads) {
      for (std::int64_t i = 0; i < half; ++i) {
        const auto [first, second] =
            is_interleaved(p) ? std::pair(2 * i, 2 * i + 1) : half_split_pair(i, head_dim, rotary);
        double &x0 = x[static_cast<std::size_t>(first)], &x1 = x[static_cast<std::size_t>(second)];
        const double s = sine[static_cast<std::size_t>(i)], c = cosine[static_cast<std::size_t>(i)];
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
    const auto part =
        page == 0
            ? sequence
            : static_cast<std::int64_t>(in["block_table"][sequence * (capacity / page) + position / page]);
    const std::int64_t first = (part * kv_heads + (head - q_heads) % kv_heads) * rows,
                       within = position % rows;
    if (is_quantized(p)) quantize(p, x, is_k ? "k_scale" : "v_scale", first + within, out);
    if (!is_k) {
      out.put("v_cache", (first + within) * head_dim, std::move(x));
      continue;
    }
    const std::int64_t width = p["k_layout"] == 1 ? elements_of_16_bytes(p) : head_dim;
    for (std::int64_t d = 0; d < head_dim; d += width)
      out.put("k_cache", first * head_dim + (d / width * rows + within) * width,
              {x.begin() + d, x.begin() + d + width});
  }
}

Cost cost(const Problem& p) {
  const double q = static_cast<double>(p["q_heads"] * p["head_dim"]);
  const double kv = static_cast<double>(p["kv_heads"] * p["head_dim"]);
  const double b = static_cast<double>(size_of(p.dtype));
  const double stored = 2 * kv * static_cast<double>(size_of(rope_cache_dtype(p))) +
                        (is_quantized(p) ? 8 * static_cast<double>(p["kv_heads"]) : 0);
  double tokens = 0;
  for (std::int64_t t = 0; t < p["tokens"]; ++t) tokens += skips(p, t) ? 0 : 1;
  const double read = (tokens + (p["bias"] == 1 ? 1 : 0)) * (q + 2 * kv) * b, written = q * b + stored;
  return Cost{.bytes = read + tokens * (written + 8 + (p["page_size"] != 0 ? 4 : 0)),
              .flops = tokens * 3 * (q + kv) * static_cast<double>(rotary_dim(p)) /
                       static_cast<double>(p["head_dim"])};
}

}  // namespace

std::int64_t rope_capacity(const Problem& p) {
  return static_cast<std::int64_t>(
      kRopeCapacity.evaluate([&](const std::string& dim) { return static_cast<double>(p[dim]); }));
}

Op rope_append() {
  return {
      .name = "rope_append",
      .summary = "splits qkv, adds the bias, rotates q and k, appends k and v to the cache",
      .dims = {work_dim({"tokens", "rows of qkv"}),
               parallel_dim({"q_heads", "query heads"}),
               parallel_dim({"kv_heads", "key and value heads"}),
               {"head_dim", "elements per head"},
               work_dim({"batch", "sequences of the cache", 1}),
               {"style", "which elements are a pair", 0, {"half_split", "interleaved"}},
               {"scaling", "scaling of the angles", 0, {"none", "linear", "dynamic_ntk", "llama3"}},
               {"bias", "whether q, k and v have a bias", 0, {"no", "yes"}},
               {"k_layout", "[S, D] or [D/x, S, x] with x = 16 bytes", 0, {"sd", "dsx"}},
               {.name = "start",
                .doc = "the lowest position; kernels are for 2^17 positions, more where it is higher",
                .fallback = 0,
                .min = 0},
               {"kv_dtype",
                "element type of the cache; int8 and fp8 with a scale per row",
                0,
                {"same", "int8", "fp8"},
                0,
                true},
               {"page_size", "rows per page of a paged cache, 0: contiguous", 0, {}, 0, true},
               {"rotary_dim", "leading elements of a head that rotate, 0: all", 0, {}, 0, true}},
      .check = check,
      .tensors = tensors,
      .bind = bind,
      .fields = {field("qkv", &RopeAppendArgs::qkv), field("bias", &RopeAppendArgs::bias),
                 field("sequence", &RopeAppendArgs::sequence), field("position", &RopeAppendArgs::position),
                 field("lengths", &RopeAppendArgs::lengths), field("inv_freq", &RopeAppendArgs::inv_freq),
                 field("q", &RopeAppendArgs::q), field("k_cache", &RopeAppendArgs::k_cache),
                 field("v_cache", &RopeAppendArgs::v_cache), field("tokens", &RopeAppendArgs::tokens),
                 field("capacity", &RopeAppendArgs::capacity), field("theta", &RopeAppendArgs::theta),
                 field("factor", &RopeAppendArgs::factor),
                 field("max_position", &RopeAppendArgs::max_position),
                 field("k_scale", &RopeAppendArgs::k_scale), field("v_scale", &RopeAppendArgs::v_scale),
                 field("block_table", &RopeAppendArgs::block_table)},
      .cost = cost,
      .sharing =
          [](const Problem& p) {
            return static_cast<double>(p["q_heads"]) / static_cast<double>(p["kv_heads"]);
          },
      .units = [](const Problem& p) { return p["tokens"]; },
      .reference = reference,
      // A row is rounded to dtype before it is quantized.
      .tolerance = [](const Problem& p) { return default_tolerance(p.dtype, is_quantized(p) ? 2 : 1); },
  };
}

}  // namespace warptune
