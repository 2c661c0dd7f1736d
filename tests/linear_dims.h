#pragma once
// Problems of the op linear.
#include <algorithm>
#include <span>

#include "tests/support.h"

namespace warptune::testing {

inline Dims dims(const char* tokens, const char* in, const char* out, const char* bias = "no") {
  return {{"tokens", tokens}, {"in", in}, {"out", out}, {"bias", bias}};
}
inline Dims fused(const char* tokens, const char* in, const char* out, const char* prologue,
                  const char* epilogue, const char* bias = "no") {
  Dims d = dims(tokens, in, out, bias);
  d.emplace_back("prologue", prologue);
  d.emplace_back("epilogue", epilogue);
  return d;
}

/// With quantized weights; `extra`: more dims.
inline Dims quantized(const char* tokens, const char* in, const char* out, const char* weights,
                      const char* group, const Dims& extra = {}) {
  Dims d = dims(tokens, in, out);
  d.emplace_back("weights", weights);
  d.emplace_back("group", group);
  d.insert(d.end(), extra.begin(), extra.end());
  return d;
}

/// fp16 has no split norm.
inline std::span<const DType> dtypes_of(const Dims& dims) {
  static constexpr DType kWide[] = {DType::fp32, DType::bf16};
  const bool splits = std::ranges::any_of(
      dims, [](const auto& dim) { return dim.second == "rms_scale" || dim.second == "add_rms"; });
  return splits ? std::span<const DType>(kWide) : std::span<const DType>(kFloats);
}

}  // namespace warptune::testing
