// The op attention_prefill: dims and cost. tensors.cpp has its tensors, reference.cpp the fp64 reference.
// Sources: Vaswani et al., "Attention Is All You Need", 2017; Press et al., "Train Short, Test Long" (ALiBi),
// 2021; Kwon et al., "PagedAttention", 2023. Masks are aligned as args.h says.
#include <fmt/format.h>

#include <cmath>

#include "harness/core/error.h"
#include "kernels/common/vec_width.h"
#include "variants/attention_prefill/attention_prefill.h"
#include "variants/attention_prefill/tensors.h"
#include "variants/helpers/specs.h"

namespace warptune {
namespace {

using namespace prefill;

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
  const CausalMask causal = mask_of(p).causal;
  require(p["window"] == 0 || causal != CausalMask::none,
          fmt::format("window ({}) needs causal=yes, causal=top_left or causal=offset", p["window"]));
  require(p["diagonal"] == 0 || causal == CausalMask::offset,
          fmt::format("diagonal ({}) needs causal=offset", p["diagonal"]));
  require(p["diagonal"] <= (1 << 30), fmt::format("diagonal ({}) must be at most 2^30", p["diagonal"]));
  require(p["dropout"] < 100, fmt::format("dropout ({}) is in percent and must be below 100", p["dropout"]));
  const std::int64_t page_size = p["page_size"];
  require(page_size == 0 || (page_size >= 16 && page_size <= 256 && (page_size & (page_size - 1)) == 0),
          fmt::format("page_size ({}) must be 0 or a power of two from 16 to 256", page_size));
  const bool is_cache = kv_layout(p) == KvLayout::cache, is_qkv = kv_layout(p) == KvLayout::qkv;
  require(page_size == 0 || is_cache, fmt::format("page_size ({}) needs kv_layout=cache", page_size));
  require(!dsx(p) || is_cache, "k_layout=dsx needs kv_layout=cache");
  require(!dsx(p) || p["head_dim"] % vector_elements(p) == 0,
          fmt::format("head_dim ({}) must be a multiple of {}, the elements of 16 bytes, for k_layout=dsx",
                      p["head_dim"], vector_elements(p)));
  require(
      !is_qkv || p["kv_len"] == p["q_len"],
      fmt::format("kv_len ({}) must be q_len ({}) with kv_layout=qkv, whose keys are those of its queries",
                  p["kv_len"], p["q_len"]));
  require(
      !is_qkv || value_dim(p) == p["head_dim"],
      fmt::format("head_dim_v ({}) must be head_dim ({}) with kv_layout=qkv", value_dim(p), p["head_dim"]));
  require(!is_qkv || p["q_stride"] == 0, "q_stride must be 0 with kv_layout=qkv, which has one row length");
  require(bias_shape(p) == BiasShape::heads || score_bias(p) == ScoreBias::additive,
          "bias_shape needs score_bias=additive");
  require(p["precision"] == 0 || p.dtype == DType::fp32,
          fmt::format("precision=tf32 needs dtype=fp32, not {}", name_of(p.dtype)));
  const std::int64_t row = p["q_heads"] * p["head_dim"], q_stride = p["q_stride"];
  const std::int64_t vector = vec_width(vector_elements(p), p["head_dim"]);
  require(q_stride == 0 || q_stride >= row,
          fmt::format("q_stride ({}) is below the {} elements of a row", q_stride, row));
  require(
      q_stride % vector == 0,
      fmt::format("q_stride ({}) must be a multiple of {} elements, as head_dim is, for rows to stay aligned",
                  q_stride, vector));
}

Cost cost(const Problem& p) {
  const Lengths l = lengths_of(p);
  const double size = size_of(p.dtype), q_heads = p["q_heads"], kv_heads = p["kv_heads"],
               d_qk = p["head_dim"], d_v = value_dim(p);
  double rows = 0, keys = 0, pages = 0, pairs = 0, most_pairs = 0;  // a pair: a query and a key that it sees
  double one_pairs = 0, one_keys = 0, bias_pairs = 0;
  const Mask mask = mask_of(p);
  for (std::size_t b = 0; b < l.kv_lens.size(); ++b) {
    const std::int64_t q_len = l.q_lens[b], kv_len = l.kv_lens[b];
    if (b == 0 || p["uneven"] == 1) {
      one_pairs = 0;
      std::int64_t first = kv_len, last = 0;
      for (std::int64_t i = 0; i < q_len; ++i) {
        const KeyRange seen = mask.visible_keys(q_len, kv_len, i);
        if (seen.last == 0) continue;
        one_pairs += seen.last - seen.first;
        first = std::min(first, seen.first), last = std::max(last, seen.last);
      }
      one_keys = std::max<std::int64_t>(0, last - first);
    }
    rows += q_len;
    keys += one_keys;
    pairs += one_pairs;
    most_pairs = std::max(most_pairs, one_pairs);
    bias_pairs = bias_shape(p) == BiasShape::heads ? most_pairs : pairs;
    if (p["page_size"] > 0) pages += std::ceil(one_keys / p["page_size"]);
  }
  Cost c{.bytes = (rows * q_heads + keys * kv_heads) * (d_qk + d_v) * size + 4 * pages,
         .flops = 2 * pairs * q_heads * (d_qk + d_v),
         .tf32_products = p["precision"] == 1 ? 1 : 3};
  if (score_bias(p) == ScoreBias::additive)
    c.bytes += bias_pairs * (bias_shape(p) == BiasShape::batch ? 1 : q_heads) * size;
  if (p["lse"] == 1) c.bytes += 4.0 * p["batch"] * p["q_heads"] * lse_rows(p["q_len"]);
  return c;
}

// What fills the members that are neither tensors nor dims.

/// K (or V) in its tensor; with layout qkv that is the tensor of q.
template <bool kIsKey>
const void* kv_address(const ArgsSource& s) {
  if (kv_layout(s.problem) != KvLayout::qkv) return s.tensor(kIsKey ? "k_cache" : "v_cache");
  return static_cast<const std::byte*>(s.tensor("qkv")) +
         kv_place(s.problem, kIsKey).first * size_of(s.problem.dtype);
}
const void* key_starts(const ArgsSource& s) {
  return s.tensor(kv_layout(s.problem) == KvLayout::qkv ? "cu_seqlens" : "seqstart_k");
}
std::uint32_t drop_threshold(const Problem& p) { return drop_below(p["dropout"]); }
double scale_of_kept(const Problem& p) { return p["dropout"] > 0 ? keep_scale(p["dropout"]) : 0; }
template <bool kIsKey>
KvStrides strides(const Problem& p) {
  return kv_place(p, kIsKey).strides;
}

}  // namespace

Op attention_prefill() {
  using A = AttentionPrefillArgs;
  using Strided = StridedAttentionPrefillArgs;
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
                "first sees one, offset: query i sees keys up to i + diagonal",
                1,
                {"no", "yes", "top_left", "offset"}},
               data_dim({"uneven", "sequences of different lengths (varlen), some without queries or keys", 0,
                         kNoYes}),
               feature("head_dim_v", "elements per head of V and the output; 0: head_dim"),
               feature("window", "sliding window: number of keys that a query sees, the last ones; 0: all"),
               feature("score_bias", "what is added to the scores", {"none", "additive", "alibi"}),
               feature("dropout", "percent of the weights that are dropped"),
               feature(
                   "kv_layout",
                   "K and V as a cache [B,H,S,D] of fixed capacity per sequence, packed rows [tokens,H,D], a "
                   "cache [B,S,H,D] (bshd), or with q in the rows of the projection (qkv)",
                   {"cache", "packed", "bshd", "qkv"}),
               feature("page_size", "keys per page of a paged cache; 0: contiguous"),
               feature("q_stride", "elements from a row of q to the next; 0: q_heads * head_dim"),
               feature("lse", "whether the log-sum-exp of the scores is an output", kNoYes),
               feature("k_layout", "layout of K in a cache: [S,D] (sd) or [D/x,S,x] with x of 16 bytes (dsx)",
                       {"sd", "dsx"}),
               {"diagonal", "position of the first query with causal=offset", 0, {}, -(1 << 30), true},
               feature("bias_shape",
                       "an additive bias per head (heads), per sequence and head (batch_heads), or per "
                       "sequence (batch)",
                       {"heads", "batch_heads", "batch"}),
               feature("precision", "of fp32 products; tf32: operands may be rounded to 10 bits of mantissa",
                       {"ieee", "tf32"})},
      .check = check,
      .tensors = tensors,
      .fields = {field("q", &A::q),
                 field("qkv", &A::q),
                 field("k_cache", &A::k_cache, kv_address<true>),
                 field("v_cache", &A::v_cache, kv_address<false>),
                 field("cu_seqlens", &A::cu_seqlens),
                 field("kv_lens", &A::kv_lens),
                 field("out", &A::out),
                 field("workspace", &A::workspace),
                 field("batch", &A::batch),
                 field("capacity", &A::capacity, capacity_of),
                 field("scale", &A::scale, scale_of),
                 field("tokens", &A::tokens, tokens_of),
                 field("q_len", &A::q_len),
                 field("kv_len", &A::kv_len),
                 field("q_stride", &A::q_stride, q_stride_of),
                 field("window", &A::window),
                 field("diagonal", &A::diagonal),
                 field("seqstart_k", &A::seqstart_k, key_starts),
                 field("block_table", &A::block_table),
                 field("max_pages", &A::max_pages, max_pages_of),
                 field("score_bias", &A::score_bias),
                 field("alibi_slopes", &A::alibi_slopes),
                 field("philox", &A::philox),
                 field("drop_below", &A::drop_below, drop_threshold),
                 field("keep_scale", &A::keep_scale, scale_of_kept),
                 field("lse", &A::lse),
                 field("k_strides.batch", &Strided::k_strides, &KvStrides::batch, strides<true>),
                 field("k_strides.head", &Strided::k_strides, &KvStrides::head, strides<true>),
                 field("k_strides.row", &Strided::k_strides, &KvStrides::row, strides<true>),
                 field("v_strides.batch", &Strided::v_strides, &KvStrides::batch, strides<false>),
                 field("v_strides.head", &Strided::v_strides, &KvStrides::head, strides<false>),
                 field("v_strides.row", &Strided::v_strides, &KvStrides::row, strides<false>),
                 field("bias_strides.batch", &Strided::bias_strides, &BiasStrides::batch, bias_strides),
                 field("bias_strides.head", &Strided::bias_strides, &BiasStrides::head, bias_strides),
                 field("bias_strides.row", &Strided::bias_strides, &BiasStrides::row, bias_strides)},
      .args_bytes =
          [](const Problem& p) {
            return has_strides(p) ? sizeof(StridedAttentionPrefillArgs) : sizeof(AttentionPrefillArgs);
          },
      .cost = cost,
      .sharing = heads_per_kv_head,
      .units =
          [](const Problem& p) { return (tokens_of(p) + (p["lse"] == 1 ? p["batch"] : 0)) * p["q_heads"]; },
      .reference = reference,
      // TF32 has the mantissa of fp16.
      .tolerance =
          [](const Problem& p) {
            return with_long_sum(default_tolerance(p["precision"] == 1 ? DType::fp16 : p.dtype, 3),
                                 p["kv_len"]);
          },
  };
}

}  // namespace warptune
