#pragma once
// What the host side of attention_prefill shares: choices of a problem, strides, the mask as key ranges,
// dropout.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/core/philox.h"
#include "harness/core/problem.h"
#include "harness/core/variant.h"
#include "kernels/attention_prefill/args.h"
#include "kernels/common/score_bias.h"
#include "variants/helpers/kv_cache.h"

namespace warptune::prefill {

inline KvLayout kv_layout(const Problem& p) { return static_cast<KvLayout>(p["kv_layout"]); }
inline BiasShape bias_shape(const Problem& p) { return static_cast<BiasShape>(p["bias_shape"]); }
inline ScoreBias score_bias(const Problem& p) { return static_cast<ScoreBias>(p["score_bias"]); }

/// Elements of a row of V and of the output.
inline std::int64_t value_dim(const Problem& p) {
  return p["head_dim_v"] == 0 ? p["head_dim"] : p["head_dim_v"];
}
/// Whether sequences start at rows seqstart_k of packed rows.
inline bool packed(const Problem& p) {
  return kv_layout(p) == KvLayout::packed || kv_layout(p) == KvLayout::qkv;
}
/// Whether kernels take StridedAttentionPrefillArgs, for K and V or for anything.
inline bool has_kv_strides(const Problem& p) {
  return kv_layout(p) == KvLayout::bshd || kv_layout(p) == KvLayout::qkv;
}
inline bool has_strides(const Problem& p) { return has_kv_strides(p) || bias_shape(p) != BiasShape::heads; }
/// Whether K has the layout [D/x, S, x].
inline bool dsx(const Problem& p) { return p["k_layout"] == 1; }
/// Elements of a 16-byte vector.
inline std::int64_t vector_elements(const Problem& p) { return elements_of_16_bytes(p.dtype); }
/// Rows of lse per head.
inline std::int64_t lse_rows(std::int64_t q_len) { return ceil_div(q_len, 32) * 32; }

/// The kernels' ProblemShape (kernels/attention_prefill/problem.cuh). It needs shape_values().
inline const std::string kShape =
    "warptune::ProblemShape<{q_heads}, {kv_heads}, {head_dim}, {value_dim}, {causal}, {has_window} == 1, "
    "{score_bias}, {has_dropout} == 1, {kv_layout}, {page_size}, {lse} == 1, {k_layout} == 1, {bias_shape}>";

/// Derived values of kShape and of a variant.
inline std::vector<DerivedValue> shape_values(std::vector<DerivedValue> more = {}) {
  std::vector<DerivedValue> values = {
      {"value_dim", "head_dim_v == 0 ? head_dim : head_dim_v", "elements of a row of V and of the output"},
      {"has_window", "window > 0", "whether a query sees a window of the keys"},
      {"has_dropout", "dropout > 0", "whether weights are dropped"}};
  values.insert(values.end(), more.begin(), more.end());
  return values;
}

/// Keys [first, last); empty where last is 0.
struct KeyRange {
  std::int64_t first = 0, last = 0;
};

/// The mask of args.h.
struct Mask {
  CausalMask causal;
  std::int64_t diagonal, window;  // window 0: none

  /// The position of query i among the keys.
  std::int64_t position(std::int64_t q_len, std::int64_t kv_len, std::int64_t i) const {
    if (causal == CausalMask::offset) return i + diagonal;
    return causal == CausalMask::top_left ? i : i + kv_len - q_len;
  }
  /// The keys that query i of a sequence sees.
  KeyRange visible_keys(std::int64_t q_len, std::int64_t kv_len, std::int64_t i) const {
    if (causal == CausalMask::none) return {0, kv_len};
    const std::int64_t last = std::clamp<std::int64_t>(position(q_len, kv_len, i) + 1, 0, kv_len);
    return {window > 0 ? std::max<std::int64_t>(0, last - window) : 0, last};
  }
};
inline Mask mask_of(const Problem& p) {
  return {static_cast<CausalMask>(p["causal"]), p["diagonal"], p["window"]};
}

/// A weight is dropped where its Philox word is below this.
constexpr std::uint32_t drop_below(std::int64_t percent) { return (percent << 32) / 100; }
constexpr double keep_scale(std::int64_t percent) { return 100.0 / (100 - percent); }

/// Whether dropout drops the weight of a key. `state` is seed and offset as in args.h, `head` b * q_heads +
/// h.
constexpr bool drops(const std::array<std::uint32_t, 4>& state, std::uint32_t below, std::int64_t head,
                     std::int64_t query, std::int64_t key) {
  const std::uint32_t key_pair = key / 2, row = query / 16 * 8 + query % 8, low_half = head;
  const auto words =
      philox4x32_10({key_pair, row, low_half | state[3] << 16, state[2]}, {state[0], state[1]});
  return words[2 * (query / 8 % 2) + key % 2] < below;
}

}  // namespace warptune::prefill
