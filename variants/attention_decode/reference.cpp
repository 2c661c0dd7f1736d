// The fp64 reference of attention_decode, one query head of one sequence at a time.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "variants/attention_decode/dims.h"
#include "variants/helpers/head_norm.h"
#include "variants/helpers/rope.h"

namespace warptune {
namespace {

/// Row `row` of the fused qkv of sequence b with bias; normalized and rotated at `position` unless that is
/// negative.
std::vector<double> new_row(const Problem& p, const Inputs& in, std::int64_t b, std::int64_t row,
                            std::int64_t position) {
  const std::int64_t d = p["head_dim"], rows = p["q_heads"] + 2 * p["kv_heads"];
  const Values qkv = in["q"];
  std::vector<double> x(d);
  for (std::int64_t i = 0; i < d; ++i) {
    x[i] = qkv[(b * rows + row) * d + i];
    if (p["bias"] != 0) x[i] += in["bias"][row * d + i];
  }
  if (position < 0) return x;
  if (p["qk_norm"] != 0) normalize_head(x, in["qk_norm"], row < p["q_heads"]);
  const Values table = in["inv_freq"];
  const RopeScaling scaling = rope_scaling(p, cache_capacity(p));
  const std::int64_t half = d / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    const double angle = rope_angle(scaling, table[i], position, position + 1, d, i);
    const double c = std::cos(angle), s = std::sin(angle);
    const std::int64_t first = is_interleaved(p) ? 2 * i : i,
                       second = is_interleaved(p) ? 2 * i + 1 : i + half;
    const double low = x[first], high = x[second];
    x[first] = low * c - high * s;
    x[second] = high * c + low * s;
  }
  return x;
}

/// Element offsets of the rows of one KV head of one sequence.
struct Rows {
  const std::int64_t heads, head, first_row, page, in_part, dim, x;  // x: of the layout [D/x,S,x], 0 of [S,D]
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
        x(p["k_layout"] == 0 ? 0 : vector_elements(p)),
        own_scales(p["kv_scale"] != 0),
        pages(in[page == 0 ? "lengths" : "block_table"]),
        first_page(page == 0 ? 0 : b * (cache_capacity(p) / page)) {}

  /// The row of a key, in V and in the scales.
  std::int64_t row(std::int64_t key) const {
    if (page == 0) return first_row + key;
    return (pages[first_page + key / page] * heads + head) * page + key % page;
  }
  std::int64_t k(std::int64_t row, std::int64_t i) const {
    if (x == 0) return row * dim + i;
    const std::int64_t within = row % in_part;
    return (row - within) * dim + (i / x * in_part + within) * x + i % x;
  }
  std::int64_t v(std::int64_t row) const { return row * dim; }
  std::int64_t scale(std::int64_t row) const { return own_scales ? row : head; }
};

/// An appended row: the codes that the cache stores (unrounded where quantized), and the values they stand
/// for.
struct NewRow {
  std::vector<double> codes, values;
  double scale;

  NewRow(const Problem& p, std::vector<double> x, double head_scale)
      : codes(std::move(x)), scale(head_scale) {
    for (double& value : codes) value = round_to(p.dtype, value);
    values = codes;
    if (!quantized(p)) return;
    if (p["kv_scale"] != 0) scale = row_scale(codes, cache_dtype(p));
    quantize(codes, scale, cache_dtype(p));
    for (std::size_t i = 0; i < codes.size(); ++i) values[i] = round_to(cache_dtype(p), codes[i]) * scale;
  }
};

/// One unit: query head `head` of sequence b. The first head of a group also checks the appended row.
class HeadReference {
 public:
  HeadReference(const Problem& p, const Inputs& in, std::int64_t unit)
      : p_(p),
        in_(in),
        unit_(unit),
        heads_(p["q_heads"]),
        kv_heads_(p["kv_heads"]),
        b_(unit / heads_),
        head_(unit % heads_),
        kv_head_(head_ / (heads_ / kv_heads_)),
        length_(in["lengths"][b_]),
        append_(p["append"] != 0 && length_ > 0),
        cached_(append_ ? length_ - 1 : length_),
        rows_(p, in, b_, kv_head_),
        q_(p["head_dim"]) {}

  void write(Expected& out) { write_output(out, row(out)); }

  /// The output row before the epilogue; writes what is appended.
  std::vector<double> row(Expected& out) {
    if (append_)
      append(out);
    else
      load_query();
    compute_scores();
    std::vector<double> x = weighted_values();
    if (sum_ > 0)
      for (double& value : x) value /= sum_;
    return x;
  }

 private:
  void load_query() {
    const Values q = in_["q"];
    const std::int64_t first = unit_ * p_["head_dim"];
    for (std::size_t i = 0; i < q_.size(); ++i) q_[i] = q[first + i];
  }

  double scale(std::string_view name, std::int64_t row) const {
    return quantized(p_) ? in_[name][rows_.scale(row)] : 1.0;
  }

  void append(Expected& out) {
    const bool row_scale = p_["kv_scale"] != 0;
    const std::int64_t d = p_["head_dim"], at = rows_.row(cached_);
    q_ = new_row(p_, in_, b_, head_, cached_);
    k_new_.emplace(p_, new_row(p_, in_, b_, heads_ + kv_head_, cached_),
                   row_scale ? 1 : scale("k_scale", at));
    v_new_.emplace(p_, new_row(p_, in_, b_, heads_ + kv_heads_ + kv_head_, -1),
                   row_scale ? 1 : scale("v_scale", at));
    if (head_ % (heads_ / kv_heads_) != 0) return;
    const std::int64_t run = p_["k_layout"] != 0 ? vector_elements(p_) : d;
    for (std::int64_t i = 0; i < d; i += run)
      out.put("k_cache", rows_.k(at, i), {k_new_->codes.begin() + i, k_new_->codes.begin() + i + run});
    out.put("v_cache", rows_.v(at), v_new_->codes);
    if (row_scale) {
      out.put("k_scale", at, {k_new_->scale});
      out.put("v_scale", at, {v_new_->scale});
    }
  }

  void compute_scores() {
    const Values k = in_["k_cache"];
    for (std::int64_t key = first_key(p_, length_); key < length_; ++key) {
      double s = 0;
      if (key >= cached_) {
        for (std::size_t i = 0; i < q_.size(); ++i) s += q_[i] * k_new_->values[i];
      } else {
        const std::int64_t row = rows_.row(key);
        for (std::size_t i = 0; i < q_.size(); ++i) s += q_[i] * k[rows_.k(row, i)];
        s *= scale("k_scale", row);
      }
      s *= scale_of(p_);
      if (score_bias_of(p_) == ScoreBias::alibi) s += in_["alibi_slopes"][head_] * (key - (length_ - 1));
      if (score_bias_of(p_) == ScoreBias::additive) s += in_["score_bias"][unit_ * cache_capacity(p_) + key];
      max_ = std::max(max_, s);
      scores_.push_back(s);
    }
  }

  /// The unnormalized sum over V.
  std::vector<double> weighted_values() {
    const Values v = in_["v_cache"];
    const std::int64_t first = first_key(p_, length_);
    std::vector<double> x(q_.size(), 0.0);
    if (max_ == -INFINITY) return x;
    for (std::int64_t key = first; key < length_; ++key) {
      const double weight = std::exp(scores_[key - first] - max_);
      sum_ += weight;
      if (key >= cached_) {
        for (std::size_t i = 0; i < x.size(); ++i) x[i] += weight * v_new_->values[i];
      } else {
        const std::int64_t row = rows_.row(key), at = rows_.v(row);
        const double factor = weight * scale("v_scale", row);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] += factor * v[at + i];
      }
    }
    return x;
  }

  void write_output(Expected& out, std::vector<double> x) const {
    const std::int64_t d = p_["head_dim"];
    for (std::int64_t i = 0; i < d; ++i) {
      double& y = x[i];
      if (epilogue_of(p_) == Epilogue::none) continue;
      y = (y + in_["shift"][head_ * d + i]) * in_["smooth"][head_ * d + i];
      if (epilogue_of(p_) == Epilogue::quantize) y = std::clamp(y * kOutScale, -127.0, 127.0);
    }
    out.put("out", unit_ * d, std::move(x));
    if (p_["lse"] != 0) out.put("lse", unit_, {sum_ > 0 ? max_ + std::log(sum_) : -INFINITY});
  }

  const Problem& p_;
  const Inputs& in_;
  const std::int64_t unit_, heads_, kv_heads_, b_, head_, kv_head_, length_;
  const bool append_;
  const std::int64_t cached_;
  const Rows rows_;
  std::vector<double> q_, scores_;
  std::optional<NewRow> k_new_, v_new_;
  double max_ = -INFINITY, sum_ = 0;
};

/// The projected row of sequence b.
void write_projection(const Problem& p, const Inputs& in, std::int64_t b, Expected& out) {
  std::vector<double> x;
  for (std::int64_t head = 0; head < p["q_heads"]; ++head)
    for (const double value : HeadReference(p, in, b * p["q_heads"] + head).row(out)) x.push_back(value);
  const Values weight = in["o_weight"], residual = in["residual"];
  const std::int64_t hidden = p["hidden"], n = x.size();
  std::vector<double> y;
  for (std::int64_t r = 0; r < hidden; ++r) {
    double sum = residual[b * hidden + r];
    for (std::int64_t i = 0; i < n; ++i) sum += weight[r * n + i] * x[i];
    y.push_back(sum);
  }
  out.put("out", b * hidden, std::move(y));
}

}  // namespace

void decode_reference(const Problem& p, const Inputs& in, std::int64_t unit, Expected& out) {
  if (projects(p))
    write_projection(p, in, unit, out);
  else
    HeadReference(p, in, unit).write(out);
}

/// fp32: the error of a sum grows with its terms. 16 bits: a variant may round the probabilities, and with
/// append the rotated queries, as rope_append does. An appended row that is quantized may take the
/// neighboring code where the rotation differs in its last bit.
Tolerance decode_tolerance(const Problem& p) {
  if (p["append"] != 0 && quantized(p)) return default_tolerance(DType::bf16, 2);
  const std::int64_t roundings = p.dtype == DType::fp32 ? 4 + p["context"] / 16384 : p["append"] != 0 ? 3 : 2;
  return default_tolerance(p.dtype, roundings);
}

}  // namespace warptune
