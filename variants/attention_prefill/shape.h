#pragma once
// What the host side of attention_prefill shares: choices of a problem, which keys a query sees, dropout.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "harness/core/philox.h"
#include "harness/core/problem.h"
#include "harness/core/variant.h"

namespace warptune::prefill {

enum Causal : std::int64_t { no = 0, bottom_right = 1, top_left = 2 };
enum ScoreBias : std::int64_t { none = 0, additive = 1, alibi = 2 };

/// Elements of a row of V and of the output.
inline std::int64_t value_dim(const Problem& p) {
  return p["head_dim_v"] == 0 ? p["head_dim"] : p["head_dim_v"];
}
inline bool packed(const Problem& p) { return p["kv_layout"] == 1; }
/// Rows of lse per head.
inline std::int64_t lse_rows(std::int64_t q_len) { return ceil_div(q_len, 32) * 32; }

/// In constraints: elements of a row of V.
inline const std::string kValueDim = "(head_dim_v == 0 ? head_dim : head_dim_v)";

/// The kernels' Shape (sequence.cuh).
inline const std::string kShape =
    "warptune::Shape<{q_heads}, {kv_heads}, {head_dim}, {value_dim}, {causal}, {windowed} == 1, "
    "{score_bias}, "
    "{dropping} == 1, {kv_layout} == 1, {page_size}, {lse} == 1>";

/// What kShape names beside dims.
inline Assignment shape_constants(const Problem& p, const Config&) {
  Assignment constants;
  constants.set("value_dim", value_dim(p));
  constants.set("windowed", p["window"] > 0 ? 1 : 0);
  constants.set("dropping", p["dropout"] > 0 ? 1 : 0);
  return constants;
}

/// Keys first to last - 1; none where last is 0.
struct KeyRange {
  std::int64_t first = 0, last = 0;
};

/// The position of query i among the keys.
constexpr std::int64_t position(std::int64_t causal, std::int64_t q_len, std::int64_t kv_len,
                                std::int64_t i) {
  return causal == top_left ? i : i + kv_len - q_len;
}

/// The keys that query i of a sequence sees; `window` 0: no window.
constexpr KeyRange keys_seen(std::int64_t causal, std::int64_t window, std::int64_t q_len,
                             std::int64_t kv_len, std::int64_t i) {
  if (causal == no) return {0, kv_len};
  const std::int64_t last = std::clamp<std::int64_t>(position(causal, q_len, kv_len, i) + 1, 0, kv_len);
  return {window > 0 ? std::max<std::int64_t>(0, last - window) : 0, last};
}

/// A weight is dropped where its word of Philox is below this.
constexpr std::uint32_t drop_below(std::int64_t percent) {
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(percent) << 32) / 100);
}
constexpr double keep_scale(std::int64_t percent) { return 100.0 / static_cast<double>(100 - percent); }

/// Whether dropout drops the weight of a key. `state`: seed and offset as in args.h; `head`: b * q_heads + h.
constexpr bool drops(const std::array<std::uint32_t, 4>& state, std::uint32_t below, std::int64_t head,
                     std::int64_t query, std::int64_t key) {
  const auto words = philox4x32_10(
      {static_cast<std::uint32_t>(key / 2), static_cast<std::uint32_t>(query / 16 * 8 + query % 8),
       static_cast<std::uint32_t>(head) | state[3] << 16, state[2]},
      {state[0], state[1]});
  return words[static_cast<std::size_t>(2 * (query / 8 % 2) + key % 2)] < below;
}

}  // namespace warptune::prefill
