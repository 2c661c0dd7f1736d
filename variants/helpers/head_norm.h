#pragma once
// RMSNorm of the heads of q and k before RoPE (dim qk_norm): what rope_append and the fused append of
// attention_decode share. The weights are [2, head_dim]: those of q, then those of k.
#include <cmath>
#include <cstdint>
#include <vector>

#include "harness/core/tensor.h"

namespace warptune {

inline constexpr double kHeadNormEps = 1e-6;

template <class T>
void normalize_head(std::vector<float>& x, const void* weights, bool is_q, float eps) {
  const T* weight = static_cast<const T*>(weights) + (is_q ? 0 : x.size());
  float sum = 0;
  for (const float value : x) sum += value * value;
  const float scale = 1 / std::sqrt(sum / static_cast<float>(x.size()) + eps);
  for (float& value : x) value *= scale * static_cast<float>(*weight++);
}

/// The same in fp64.
inline void normalize_head(std::vector<double>& x, const Values& weights, bool is_q) {
  const auto first = static_cast<std::int64_t>(is_q ? 0 : x.size());
  double sum = 0;
  for (const double value : x) sum += value * value;
  const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + kHeadNormEps);
  for (std::size_t d = 0; d < x.size(); ++d) x[d] *= scale * weights[first + static_cast<std::int64_t>(d)];
}

}  // namespace warptune
