#pragma once
// The rotary embedding that a config.json asks for.
#include "harness/core/json.h"
#include "harness/core/rope.h"

namespace warptune {

/// rope_theta and rope_scaling of transformers 4, the one object rope_parameters of transformers 5, or both
/// where they say the same. An empty object says nothing. Without rope_theta it is `theta`. Throws
/// InputError: one sentence with the file and the key.
RopeScaling read_rope(const JsonReader& config, int head_dim, int max_position, double theta);

}  // namespace warptune
