// The op attention_prefill: dims and cost. tensors.cpp has its tensors, reference.cpp the fp64 reference.
// Sources: Vaswani et al., "Attention Is All You Need", 2017; Press et al., "Train Short, Test Long" (ALiBi),
// 2021; Kwon et al., "PagedAttention", 2023. Masks are aligned as args.h says.
#include <fmt/format.h>

#include <cmath>

#include "harness/core/error.h"
#include "kernels/common/vec_width.h"
#include "variants/attention_prefill/attention_prefill.h"
#include "variants/attention_prefill/tensors.h"

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
  const std::int64_t vector = vec_width(16 / static_cast<int>(size_of(p.dtype)), p["head_dim"]);
  require(q_stride == 0 || q_stride >= row,
          fmt::format("q_stride ({}) is below the {} elements of a row", q_stride, row));
  require(
      q_stride % vector == 0,
      fmt::format("q_stride ({}) must be a multiple of {} elements, as head_dim is, for rows to stay aligned",
                  q_stride, vector));
}

Cost cost(const Problem& p) {
  const Lengths l = lengths_of(p);
  const auto size = static_cast<double>(size_of(p.dtype));
  const auto q_heads = static_cast<double>(p["q_heads"]), kv_heads = static_cast<double>(p["kv_heads"]),
             d_qk = static_cast<double>(p["head_dim"]), d_v = static_cast<double>(value_dim(p));
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
        one_pairs += static_cast<double>(seen.last - seen.first);
        first = std::min(first, seen.first), last = std::max(last, seen.last);
      }
      one_keys = static_cast<double>(std::max<std::int64_t>(0, last - first));
    }
    rows += static_cast<double>(q_len);
    keys += one_keys;
    pairs += one_pairs;
    most_pairs = std::max(most_pairs, one_pairs);
    bias_pairs = bias_shape(p) == BiasShape::heads ? most_pairs : pairs;
    if (p["page_size"] > 0) pages += std::ceil(one_keys / static_cast<double>(p["page_size"]));
  }
  Cost c{.bytes = (rows * q_heads + keys * kv_heads) * (d_qk + d_v) * size + 4 * pages,
         .flops = 2 * pairs * q_heads * (d_qk + d_v),
         .tf32_products = p["precision"] == 1 ? 1 : 3};
  if (score_bias(p) == ScoreBias::additive)
    c.bytes += bias_pairs * (bias_shape(p) == BiasShape::batch ? 1 : q_heads) * size;
  if (p["lse"] == 1) c.bytes += 4.0 * static_cast<double>(p["batch"] * p["q_heads"] * lse_rows(p["q_len"]));
  return c;
}

}  // namespace

Op attention_prefill() {
  return {
      .name = "attention_prefill",
      .summary = "softmax(q . K * scale + bias) . V for many queries per sequence",
      .dims =
          {work_dim({"batch", "sequences"}),
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
            "K and V as a cache [B,H,S,D] of fixed capacity per sequence, packed rows [tokens,H,D], a cache "
            "[B,S,H,D] (bshd), or with q in the rows of the projection (qkv)",
            0,
            {"cache", "packed", "bshd", "qkv"},
            0,
            true},
           {"page_size", "keys per page of a paged cache; 0: contiguous", 0, {}, 0, true},
           {"q_stride", "elements from a row of q to the next; 0: q_heads * head_dim", 0, {}, 0, true},
           {"lse", "whether the log-sum-exp of the scores is an output", 0, {"no", "yes"}, 0, true},
           {"k_layout",
            "layout of K in a cache: [S,D] (sd) or [D/x,S,x] with x of 16 bytes (dsx)",
            0,
            {"sd", "dsx"},
            0,
            true},
           {"diagonal", "position of the first query with causal=offset", 0, {}, -(1 << 30), true},
           {"bias_shape",
            "an additive bias per head (heads), per sequence and head (batch_heads), or per sequence (batch)",
            0,
            {"heads", "batch_heads", "batch"},
            0,
            true},
           {"precision",
            "of fp32 products; tf32: operands may be rounded to 10 bits of mantissa",
            0,
            {"ieee", "tf32"},
            0,
            true}},
      .check = check,
      .tensors = tensors,
      .bind = bind,
      .fields = {field("q", &AttentionPrefillArgs::q),
                 field("qkv", &AttentionPrefillArgs::q),
                 field("k_cache", &AttentionPrefillArgs::k_cache),
                 field("v_cache", &AttentionPrefillArgs::v_cache),
                 field("cu_seqlens", &AttentionPrefillArgs::cu_seqlens),
                 field("kv_lens", &AttentionPrefillArgs::kv_lens),
                 field("out", &AttentionPrefillArgs::out),
                 field("workspace", &AttentionPrefillArgs::workspace),
                 field("batch", &AttentionPrefillArgs::batch),
                 field("capacity", &AttentionPrefillArgs::capacity),
                 field("scale", &AttentionPrefillArgs::scale),
                 field("tokens", &AttentionPrefillArgs::tokens),
                 field("q_len", &AttentionPrefillArgs::q_len),
                 field("kv_len", &AttentionPrefillArgs::kv_len),
                 field("q_stride", &AttentionPrefillArgs::q_stride),
                 field("window", &AttentionPrefillArgs::window),
                 field("diagonal", &AttentionPrefillArgs::diagonal),
                 field("seqstart_k", &AttentionPrefillArgs::seqstart_k),
                 field("block_table", &AttentionPrefillArgs::block_table),
                 field("max_pages", &AttentionPrefillArgs::max_pages),
                 field("score_bias", &AttentionPrefillArgs::score_bias),
                 field("alibi_slopes", &AttentionPrefillArgs::alibi_slopes),
                 field("philox", &AttentionPrefillArgs::philox),
                 field("drop_below", &AttentionPrefillArgs::drop_below),
                 field("keep_scale", &AttentionPrefillArgs::keep_scale),
                 field("lse", &AttentionPrefillArgs::lse),
                 field("k_strides.batch", &StridedAttentionPrefillArgs::k_strides, &KvStrides::batch),
                 field("k_strides.head", &StridedAttentionPrefillArgs::k_strides, &KvStrides::head),
                 field("k_strides.row", &StridedAttentionPrefillArgs::k_strides, &KvStrides::row),
                 field("v_strides.batch", &StridedAttentionPrefillArgs::v_strides, &KvStrides::batch),
                 field("v_strides.head", &StridedAttentionPrefillArgs::v_strides, &KvStrides::head),
                 field("v_strides.row", &StridedAttentionPrefillArgs::v_strides, &KvStrides::row),
                 field("bias_strides.batch", &StridedAttentionPrefillArgs::bias_strides, &BiasStrides::batch),
                 field("bias_strides.head", &StridedAttentionPrefillArgs::bias_strides, &BiasStrides::head),
                 field("bias_strides.row", &StridedAttentionPrefillArgs::bias_strides, &BiasStrides::row)},
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
          [](const Problem& p) {
            return with_long_sum(default_tolerance(p["precision"] == 1 ? DType::fp16 : p.dtype, 3),
                                 p["kv_len"]);
          },
  };
}

}  // namespace warptune
