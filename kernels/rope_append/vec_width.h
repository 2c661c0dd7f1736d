#pragma once
// The vector width of vectorized.cu, which host and device share.
#include "kernels/common/vec_width.h"

namespace warptune {

/// The widest power of two up to `wanted` whose vectors hold elements of a head that are neighbors, all of
/// which rotate or none.
WARPTUNE_HOST_DEVICE constexpr int rope_vec_width(int wanted, int head_dim, int rotary_dim,
                                                  bool interleaved) {
  const int pairs = interleaved ? 1 : 2;
  return vec_width(vec_width(wanted, rotary_dim / pairs), (head_dim - rotary_dim) / pairs);
}

}  // namespace warptune
