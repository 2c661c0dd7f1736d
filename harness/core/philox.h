#pragma once
// Philox4x32-10, a counter-based random generator: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as
// easy as 1, 2, 3", 2011. kernels/common/philox.cuh is the same on the device.
#include <array>
#include <cstdint>

namespace warptune {

constexpr std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                                     std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xd2511f53u} * counter[0],
                        b = std::uint64_t{0xcd9e8d57u} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9e3779b9u;
    key[1] += 0xbb67ae85u;
  }
  return counter;
}

/// Uniform in [0, 1), 24 bits: the first word for key `seed` and counter (step, row), low words first.
constexpr float philox_uniform(std::uint64_t seed, std::uint64_t step, std::uint32_t row) {
  const auto words =
      philox4x32_10({static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32), row, 0},
                    {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return static_cast<float>(words[0] >> 8) * 0x1p-24f;
}

}  // namespace warptune
