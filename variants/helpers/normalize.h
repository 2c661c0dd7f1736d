#pragma once
// RMSNorm of a row, for the host variants and references of the ops that contain it.
#include <cmath>
#include <cstdint>
#include <vector>

#include "harness/core/tensor.h"

namespace warptune {

/// y = x * weight / sqrt(mean(x^2) + eps). The sum is fp64: one long fp32 sum would drop small squares.
template <class T>
void normalize_row(const T* x, const void* weight, T* y, std::int64_t hidden, float eps) {
  const T* const w = static_cast<const T*>(weight);
  double squares = 0;
  for (std::int64_t i = 0; i < hidden; ++i) squares += static_cast<float>(x[i]) * static_cast<float>(x[i]);
  const auto scale = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(hidden) + eps));
  for (std::int64_t i = 0; i < hidden; ++i)
    y[i] = static_cast<T>(static_cast<float>(x[i]) * scale * static_cast<float>(w[i]));
}

inline constexpr float kRmsNormEps = 1e-5f;

/// The same in fp64.
inline std::vector<double> normalized_row(std::vector<double> x, const Values& weight) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + kRmsNormEps);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = x[i] * scale * weight[static_cast<std::int64_t>(i)];
  return x;
}

}  // namespace warptune
