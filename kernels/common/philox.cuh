#pragma once
// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
// harness/core/philox.h is the same on the host.

namespace warptune {

__device__ __forceinline__ uint4 philox4x32_10(uint4 counter, uint2 key) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const unsigned low_a = 0xd2511f53u * counter.x, high_a = __umulhi(0xd2511f53u, counter.x);
    const unsigned low_b = 0xcd9e8d57u * counter.z, high_b = __umulhi(0xcd9e8d57u, counter.z);
    counter = make_uint4(high_b ^ counter.y ^ key.x, low_b, high_a ^ counter.w ^ key.y, low_a);
    key.x += 0x9e3779b9u;
    key.y += 0xbb67ae85u;
  }
  return counter;
}

/// Uniform in [0, 1), 24 bits: the first word for key `seed` and counter (step, row), low words first.
__device__ __forceinline__ float philox_uniform(unsigned long long seed, unsigned long long step,
                                                unsigned row) {
  const uint4 words =
      philox4x32_10(make_uint4(static_cast<unsigned>(step), static_cast<unsigned>(step >> 32), row, 0),
                    make_uint2(static_cast<unsigned>(seed), static_cast<unsigned>(seed >> 32)));
  return static_cast<float>(words.x >> 8) * 5.9604644775390625e-8f;  // 2^-24
}

}  // namespace warptune
