#include "harness/core/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace warptune {
namespace {

/// Frequencies of long wavelengths are divided by the factor, those of short ones are kept, and the range
/// between is interpolated.
float llama3_scaled(float frequency, const RopeScaling& s) {
  const auto factor = static_cast<float>(s.factor), low = static_cast<float>(s.low_freq_factor);
  const auto context = static_cast<float>(s.original_max_position);
  const float wave = static_cast<float>(2 * std::numbers::pi) / frequency;
  const auto longest = static_cast<float>(s.original_max_position / s.low_freq_factor);
  const auto shortest = static_cast<float>(s.original_max_position / s.high_freq_factor);
  if (wave < shortest) return frequency;
  if (wave > longest) return frequency / factor;
  const float blend = (context / wave - low) / static_cast<float>(s.high_freq_factor - s.low_freq_factor);
  return (1 - blend) * frequency / factor + blend * frequency;
}

/// The pairs between which YaRN interpolates: the first ones turn more than beta_fast times within the
/// original length and keep their frequency, those after the second turn less than beta_slow times.
std::pair<float, float> yarn_range(int head_dim, const RopeScaling& s) {
  const auto pair_of = [&](double rotations) {
    return head_dim * std::log(s.original_max_position / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(s.theta));
  };
  const double low = pair_of(s.beta_fast), high = pair_of(s.beta_slow);
  const double first = std::max(s.truncate ? std::floor(low) : low, 0.0),
               last = std::min(s.truncate ? std::ceil(high) : high, head_dim - 1.0);
  return {static_cast<float>(first), static_cast<float>(first == last ? last + 0.001 : last)};
}

float yarn_scaled(float power, int pair, int head_dim, const RopeScaling& s) {
  const auto [first, last] = yarn_range(head_dim, s);
  const float ramp = std::clamp((static_cast<float>(pair) - first) / (last - first), 0.0f, 1.0f);
  return 1.0f / (static_cast<float>(s.factor) * power) * ramp + 1.0f / power * (1 - ramp);
}

}  // namespace

// Every step is rounded to fp32 as in Hugging Face transformers: at position 1e5 a last bit of a frequency
// is 0.01 radians.
std::vector<float> rope_inv_freq(int head_dim, const RopeScaling& scaling, std::int64_t positions) {
  std::vector<float> inv_freq;
  const bool is_long = positions > scaling.original_max_position;
  const std::vector<double>& factors = is_long ? scaling.long_factors : scaling.short_factors;
  for (int i = 0; i < head_dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    const float power = std::pow(static_cast<float>(scaling.theta), exponent);
    float frequency = 1.0f / power;
    if (scaling.kind == RopeKind::linear) frequency /= static_cast<float>(scaling.factor);
    if (scaling.kind == RopeKind::llama3) frequency = llama3_scaled(frequency, scaling);
    if (scaling.kind == RopeKind::yarn) frequency = yarn_scaled(power, i, head_dim, scaling);
    if (scaling.kind == RopeKind::longrope)
      frequency = 1.0f / (static_cast<float>(factors.at(static_cast<std::size_t>(i))) * power);
    inv_freq.push_back(frequency);
  }
  return inv_freq;
}

}  // namespace warptune
