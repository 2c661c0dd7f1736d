#pragma once
#include <string_view>

#include "harness/device/device.h"

namespace warptune {

/// CUDA device number `ordinal`; with `arch` as facts_as() says. Throws on CUDA errors, and as facts_as().
OwnedDevice make_cuda_device(int ordinal, std::string_view arch = {},
                             std::shared_ptr<RankGroup> group = nullptr);

}  // namespace warptune
