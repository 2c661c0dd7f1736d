#pragma once
// Host and device agree here on the width of an access, and with it on the number of blocks.

#ifdef __CUDACC__
#define WARPTUNE_HOST_DEVICE __host__ __device__
#else
#define WARPTUNE_HOST_DEVICE
#endif

namespace warptune {

/// The widest power of two up to `wanted` (itself one) that divides `length`: every row of that length then
/// starts on a multiple of the width.
WARPTUNE_HOST_DEVICE constexpr int fitting_vec(int wanted, long long length) {
  while (length % wanted != 0) wanted /= 2;
  return wanted;
}

}  // namespace warptune
