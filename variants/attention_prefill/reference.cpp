// The fp64 reference of attention_prefill.
#include <cmath>

#include "variants/attention_prefill/tensors.h"

namespace warptune::prefill {
namespace {

/// K (or V) as the reference reads it: element i of the row of a key of a sequence.
class KvValues {
 public:
  KvValues(const Problem& p, const Inputs& in, bool is_key)
      : values_(in[kv_layout(p) == KvLayout::qkv ? "qkv"
                   : is_key                      ? "k_cache"
                                                 : "v_cache"]),
        place_(kv_place(p, is_key)),
        vector_(is_key && dsx(p) ? vector_elements(p) : 0),
        rows_(p["page_size"] > 0 ? p["page_size"] : capacity_of(p)) {}
  /// Element 0 of row `row` of a head of a sequence, or page, or, of packed rows, of all sequences.
  std::int64_t row(std::int64_t part, std::int64_t head, std::int64_t row) const {
    return place_.first + part * place_.strides.batch + head * place_.strides.head +
           row * (vector_ > 0 ? vector_ : place_.strides.row);
  }
  double at(std::int64_t row, std::int64_t i) const {
    return values_[row + (vector_ > 0 ? i / vector_ * rows_ * vector_ + i % vector_ : i)];
  }

 private:
  Values values_;
  KvPlace place_;
  std::int64_t vector_, rows_;  // vector_ > 0: [D/x, S, x] with x = vector_ and S = rows_
};

/// The part and the row of it that hold a key of sequence b.
std::pair<std::int64_t, std::int64_t> part_and_row(const Problem& p, const Inputs& in, std::int64_t b,
                                                   std::int64_t key) {
  const std::int64_t page_size = p["page_size"];
  if (packed(p)) return {0, in[kv_layout(p) == KvLayout::qkv ? "cu_seqlens" : "seqstart_k"][b] + key};
  if (page_size == 0) return {b, key};
  return {in["block_table"][b * max_pages_of(p) + key / page_size], key % page_size};
}

}  // namespace

/// Units: one query of one head each; then, with lse, the padding of lse of each head.
void reference(const Problem& p, const Inputs& in, std::int64_t unit, Expected& out) {
  const std::int64_t q_heads = p["q_heads"], d_qk = p["head_dim"], d_v = value_dim(p);
  const Mask mask = mask_of(p);
  const std::int64_t padded = lse_rows(p["q_len"]), beyond = unit - tokens_of(p) * q_heads;
  const Values q = in[kv_layout(p) == KvLayout::qkv ? "qkv" : "q"], starts = in["cu_seqlens"];
  const KvValues k(p, in, true), v(p, in, false);
  const BiasStrides bias = bias_strides(p);
  if (beyond >= 0) {
    const std::int64_t q_len = starts[beyond / q_heads + 1] - starts[beyond / q_heads];
    out.put("lse", beyond * padded + q_len, std::vector<double>(padded - q_len, INFINITY));
    return;
  }
  const std::int64_t row = unit / q_heads, head = unit % q_heads, kv_head = head / (q_heads / p["kv_heads"]);
  std::int64_t b = 0;
  while (starts[b + 1] <= row) ++b;
  const std::int64_t first = starts[b], i = row - first, q_len = starts[b + 1] - first,
                     kv_len = in["kv_lens"][b];
  const KeyRange keys = mask.visible_keys(q_len, kv_len, i);

  std::vector<double> query, scores, result(d_v, 0.0);
  for (std::int64_t d = 0; d < d_qk; ++d) query.push_back(q[row * q_stride_of(p) + head * d_qk + d]);
  double row_max = -INFINITY, row_sum = 0;
  for (std::int64_t key = keys.first; key < keys.last; ++key) {
    const auto [part, key_row] = part_and_row(p, in, b, key);
    const std::int64_t at = k.row(part, kv_head, key_row);
    double score = 0;
    for (std::int64_t d = 0; d < d_qk; ++d) score += query[d] * k.at(at, d);
    score *= scale_of(p);
    if (score_bias(p) == ScoreBias::additive)
      score += in["score_bias"][b * bias.batch + head * bias.head + i * bias.row + key];
    if (score_bias(p) == ScoreBias::alibi)
      score -= in["alibi_slopes"][head] * std::abs(mask.position(q_len, kv_len, i) - key);
    scores.push_back(score);
    row_max = std::max(row_max, score);
  }
  std::array<std::uint32_t, 4> state{};
  if (p["dropout"] > 0)
    for (int w = 0; w < 4; ++w) state[w] = static_cast<std::int32_t>(in["philox"][w]);
  for (std::int64_t key = keys.first; key < keys.last && row_max > -INFINITY; ++key) {
    double weight = std::exp(scores[key - keys.first] - row_max);
    row_sum += weight;
    if (p["dropout"] > 0)
      weight *=
          drops(state, drop_below(p["dropout"]), b * q_heads + head, i, key) ? 0 : keep_scale(p["dropout"]);
    if (weight == 0) continue;
    const auto [part, key_row] = part_and_row(p, in, b, key);
    const std::int64_t at = v.row(part, kv_head, key_row);
    for (std::int64_t d = 0; d < d_v; ++d) result[d] += weight * v.at(at, d);
  }
  if (row_sum > 0)
    for (double& x : result) x /= row_sum;
  out.put("out", unit * d_v, std::move(result));
  if (p["lse"] == 1) out.put("lse", (b * q_heads + head) * padded + i, {row_max + std::log(row_sum)});
}

}  // namespace warptune::prefill
