#include "core/rope.h"

#include <cmath>
#include <numbers>

namespace warptune {
namespace {

/// Long waves are slowed down by the factor, short ones stay, those between are blended.
double llama3_scaled(double frequency, const RopeScaling& s) {
  const double wave = 2 * std::numbers::pi / frequency;
  const double longest = s.original_max_position / s.low_freq_factor;
  const double shortest = s.original_max_position / s.high_freq_factor;
  if (wave < shortest) return frequency;
  if (wave > longest) return frequency / s.factor;
  const double blend =
      (s.original_max_position / wave - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - blend) * frequency / s.factor + blend * frequency;
}

}  // namespace

std::vector<float> rope_inv_freq(int head_dim, const RopeScaling& scaling) {
  std::vector<float> inv_freq;
  for (int i = 0; i < head_dim / 2; ++i) {
    double frequency = std::pow(scaling.theta, -2.0 * i / head_dim);
    if (scaling.kind == RopeKind::linear) frequency /= scaling.factor;
    if (scaling.kind == RopeKind::llama3) frequency = llama3_scaled(frequency, scaling);
    inv_freq.push_back(static_cast<float>(frequency));
  }
  return inv_freq;
}

}  // namespace warptune
