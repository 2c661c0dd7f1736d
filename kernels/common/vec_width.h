#pragma once
// The width of a vectorized access. Host and device share it: the number of blocks depends on the width.

#ifdef __CUDACC__
#define WARPTUNE_HOST_DEVICE __host__ __device__
#else
#define WARPTUNE_HOST_DEVICE
#endif

namespace warptune {

/// The widest power of two up to `wanted` (a power of two) that divides `length`. Every row of that length
/// then starts at a multiple of the width.
WARPTUNE_HOST_DEVICE constexpr int vec_width(int wanted, long long length) {
  while (length % wanted != 0) wanted /= 2;
  return wanted;
}

}  // namespace warptune
