#include "harness/core/launch_limits.h"

#include <fmt/format.h>

namespace warptune {

std::optional<std::string> exceeded_launch_limit(const Launch& launch) {
  constexpr std::uint64_t kMaxThreads = 1024;
  const Dim3 &grid = launch.grid, &block = launch.block;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMaxThreads)
    return fmt::format("needs {} threads per block; 1 to {} are possible", threads, kMaxThreads);
  const struct {
    const char* what;
    char axis;
    unsigned extent, limit;
  } rows[] = {{"block", 'z', block.z, 64},
              {"grid", 'x', grid.x, 2147483647},
              {"grid", 'y', grid.y, 65535},
              {"grid", 'z', grid.z, 65535}};
  for (const auto& [what, axis, extent, limit] : rows)
    if (extent == 0 || extent > limit)
      return fmt::format("has a {} of {} along {}; 1 to {} are possible", what, extent, axis, limit);
  return std::nullopt;
}

}  // namespace warptune
