#pragma once
// Inputs are a pure function of (seed, index), the same on host and device (kernels/support/fill.cu repeats
// it), so that a reference can read any element of a gigabyte tensor without a copy from the device.
#include <cstdint>

namespace warptune {

/// 32 well-mixed bits (the finaliser of MurmurHash3, twice, over both words of the index).
constexpr std::uint32_t random_bits(std::uint64_t seed, std::uint64_t index) {
  auto mix = [](std::uint32_t h) {
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    return h ^ (h >> 16);
  };
  const auto low = static_cast<std::uint32_t>(index), high = static_cast<std::uint32_t>(index >> 32);
  const std::uint32_t h = mix(low + static_cast<std::uint32_t>(seed) * 0x9e3779b9u);
  return mix(h ^ (high * 0x7feb352du) ^ static_cast<std::uint32_t>(seed >> 32));
}

/// Uniform in [-scale, scale): 24 random bits, one rounding.
constexpr float random_value(std::uint64_t seed, std::uint64_t index, float scale) {
  return static_cast<float>(static_cast<std::int32_t>(random_bits(seed, index) >> 8) - (1 << 23)) * 0x1p-23f *
         scale;
}

}  // namespace warptune
