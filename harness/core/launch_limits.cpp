#include "harness/core/launch_limits.h"

#include <fmt/format.h>

namespace warptune {

std::optional<std::string> exceeded_launch_limit(const Launch& launch) {
  const Dim3 &grid = launch.grid, &block = launch.block;
  const std::int64_t threads = std::int64_t{block.x} * block.y * block.z;
  const struct {
    std::int64_t needs, limit;
    const char* what;
  } rows[] = {
      {grid.x, 2147483647, "blocks along x of the grid"},
      {grid.y, 65535, "blocks along y of the grid"},
      {grid.z, 65535, "blocks along z of the grid"},
      {block.z, 64, "threads along z of a block"},
      {threads, 1024, "threads in a block"},
  };
  for (const auto& [needs, limit, what] : rows)
    if (needs > limit) return fmt::format("needs {} {}, the limit is {}", needs, what, limit);
  return std::nullopt;
}

}  // namespace warptune
