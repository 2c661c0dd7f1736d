#pragma once
#include <cmath>

#include "core/variant.h"

namespace warptune {
Op rope_append();
std::vector<Variant> rope_append_cuda();
std::vector<Variant> rope_append_host();

/// Dynamic NTK: the inverse frequency of a pair in a sequence longer than max_position.
inline float rope_grown_inv_freq(double theta, double factor, int max_position, int length, double head_dim,
                                 double pair) {
  const double growth = factor * length / max_position - (factor - 1);
  const double grown = theta * std::pow(growth, head_dim / (head_dim - 2));
  return static_cast<float>(std::pow(grown, -2 * pair / head_dim));
}
}  // namespace warptune
