#pragma once
// RoPE of a problem with the dims `style` and `scaling`: what rope_append and the fused append of
// attention_decode share.
#include <algorithm>
#include <cmath>

#include "harness/core/problem.h"
#include "harness/core/rope.h"

namespace warptune {

inline bool is_interleaved(const Problem& p) { return p["style"] == 1; }
inline bool is_dynamic_ntk(const Problem& p) {
  return p["scaling"] == static_cast<std::int64_t>(RopeKind::dynamic_ntk);
}

/// The scaling of a problem. With dynamic_ntk, theta grows in sequences of more than half of `capacity` keys.
inline RopeScaling rope_scaling(const Problem& p, std::int64_t capacity) {
  RopeScaling s{.kind = static_cast<RopeKind>(p["scaling"])};
  if (s.kind == RopeKind::linear) s.factor = 4;
  if (s.kind == RopeKind::dynamic_ntk) s.factor = 2;
  if (s.kind == RopeKind::llama3) s.theta = 500000, s.factor = 8;
  s.original_max_position =
      s.kind == RopeKind::llama3 ? 8192 : static_cast<int>(std::max<std::int64_t>(1, capacity / 2));
  return s;
}

/// Dynamic NTK: the inverse frequency of a pair in a sequence longer than max_position.
inline float rope_grown_inv_freq(double theta, double factor, int max_position, int length, double head_dim,
                                 double pair) {
  const double growth = factor * length / max_position - (factor - 1);
  const double grown = theta * std::pow(growth, head_dim / (head_dim - 2));
  return static_cast<float>(std::pow(grown, -2 * pair / head_dim));
}

}  // namespace warptune
