#include "harness/core/rope.h"

#include <cmath>
#include <numbers>

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

}  // namespace

// Every step is rounded to fp32 as in Hugging Face transformers: at position 1e5 a last bit of a frequency
// is 0.01 radians.
std::vector<float> rope_inv_freq(int head_dim, const RopeScaling& scaling) {
  std::vector<float> inv_freq;
  for (int i = 0; i < head_dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    float frequency = 1.0f / std::pow(static_cast<float>(scaling.theta), exponent);
    if (scaling.kind == RopeKind::linear) frequency /= static_cast<float>(scaling.factor);
    if (scaling.kind == RopeKind::llama3) frequency = llama3_scaled(frequency, scaling);
    inv_freq.push_back(frequency);
  }
  return inv_freq;
}

}  // namespace warptune
