#pragma once
// RoPE of a problem with the dims `style` and `scaling`: what rope_append and the fused append of
// attention_decode share.
#include <algorithm>
#include <cmath>

#include "harness/core/problem.h"
#include "harness/core/rope.h"

namespace warptune {

inline bool is_interleaved(const Problem& p) { return p["style"] == 1; }
inline RopeKind rope_kind(const Problem& p) { return static_cast<RopeKind>(p["scaling"]); }
inline bool is_dynamic_ntk(const Problem& p) { return rope_kind(p) == RopeKind::dynamic_ntk; }

/// The scaling of a problem. With dynamic_ntk, theta grows in sequences of more than half of `capacity` keys.
inline RopeScaling rope_scaling(const Problem& p, std::int64_t capacity) {
  RopeScaling s{.kind = rope_kind(p)};
  if (s.kind == RopeKind::linear) s.factor = 4;
  if (s.kind == RopeKind::dynamic_ntk) s.factor = 2;
  if (s.kind == RopeKind::llama3) s.theta = 500000, s.factor = 8;
  s.original_max_position = s.kind == RopeKind::llama3 ? 8192 : std::max<std::int64_t>(1, capacity / 2);
  return s;
}

/// Dynamic NTK: the inverse frequency of a pair in a sequence longer than max_position.
inline float rope_grown_inv_freq(double theta, double factor, int max_position, int length, double head_dim,
                                 double pair) {
  const double growth = factor * length / max_position - (factor - 1);
  const double grown = theta * std::pow(growth, head_dim / (head_dim - 2));
  return std::pow(grown, -2 * pair / head_dim);
}

/// The angle of a pair, rounded to fp32, in a sequence of `length` keys. `inv_freq` is that of the table,
/// which dynamic NTK replaces for the pairs of the `rotary_dim` elements that rotate.
inline double rope_angle(const RopeScaling& s, float inv_freq, std::int64_t position, int length,
                         double rotary_dim, double pair) {
  if (s.kind == RopeKind::dynamic_ntk && length > s.original_max_position && pair < rotary_dim / 2)
    inv_freq = rope_grown_inv_freq(s.theta, s.factor, s.original_max_position, length, rotary_dim, pair);
  return position * inv_freq;
}

}  // namespace warptune
