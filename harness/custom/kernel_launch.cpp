#include <fmt/format.h>

#include <array>
#include <optional>

#include "harness/custom/kernel_item.h"

namespace warptune {
namespace {

constexpr std::int64_t kLargestGrid = 2147483647;

/// Up to three extents; those that are not given are 1.
std::vector<Formula> read_extents(const KernelItem& item, const YAML::Node& node, const std::string& what) {
  std::vector<Formula> extents;
  for (const YAML::Node& extent : item.yaml.items(node, what)) extents.push_back(item.formula(extent, what));
  if (extents.size() > 3)
    item.yaml.fail(node, fmt::format("{} has {} extents; at most 3 are possible", what, extents.size()));
  return extents;
}

Dim3 evaluate(const std::vector<Formula>& extents, const Problem& problem, const Config& config) {
  std::array<unsigned, 3> values = {1, 1, 1};
  for (std::size_t i = 0; i < extents.size(); ++i)
    values[i] = static_cast<unsigned>(extents[i].whole(problem, config, 1, kLargestGrid));
  return {values[0], values[1], values[2]};
}

}  // namespace

std::function<Launch(const Problem&, const Config&)> read_launch(const KernelItem& item,
                                                                 const YAML::Node& node) {
  item.yaml.expect_keys(node, "'launch'",
                        {"grid", "block", "shared", "cluster", "pdl", "per_sm", "max_blocks"});
  for (const char* needed : {"grid", "block"})
    if (!node[needed]) item.yaml.fail(node, fmt::format("'launch' needs '{}'", needed));
  const auto optional = [&](const char* key) -> std::optional<Formula> {
    if (!node[key]) return std::nullopt;
    return item.formula(node[key], fmt::format("'{}'", key));
  };
  return [grid = read_extents(item, node["grid"], "'grid'"),
          block = read_extents(item, node["block"], "'block'"), shared = optional("shared"),
          cluster = optional("cluster"), pdl = optional("pdl"), per_sm = optional("per_sm"),
          max_blocks = optional("max_blocks")](const Problem& p, const Config& c) {
    Launch launch{.grid = evaluate(grid, p, c), .block = evaluate(block, p, c)};
    if (shared) launch.shared_bytes = shared->whole(p, c, 0, kLargestGrid);
    if (cluster) launch.cluster = static_cast<unsigned>(cluster->whole(p, c, 1, 16));
    if (pdl) launch.pdl = pdl->whole(p, c, 0, 1) != 0;
    if (per_sm) launch.per_sm = per_sm->whole(p, c, 0, 1) != 0;
    if (max_blocks) launch.max_blocks = max_blocks->whole(p, c, 0);
    return launch;
  };
}

}  // namespace warptune
