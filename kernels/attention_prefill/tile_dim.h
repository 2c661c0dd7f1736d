#pragma once
// The width of a Q, K, V or output tile of the tensor-core kernels. Host and device share it: shared memory
// and workspaces are sized by it.
#include "kernels/common/vec_width.h"

namespace warptune {

/// Columns of a tile for rows of `dim` elements: the next multiple of 16. An mma covers 32 bytes of depth,
/// and ldmatrix two vectors of 16 bytes. Columns from `dim` on are zeros.
WARPTUNE_HOST_DEVICE constexpr int tile_dim(long long dim) { return static_cast<int>((dim + 15) / 16 * 16); }

}  // namespace warptune
