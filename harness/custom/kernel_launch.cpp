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

Dim3 evaluate(const std::vector<Formula>& extents, const Problem& problem, const Config& config, int sms) {
  std::array<unsigned, 3> values = {1, 1, 1};
  for (std::size_t i = 0; i < extents.size(); ++i)
    values[i] = static_cast<unsigned>(extents[i].whole(problem, config, 1, kLargestGrid, sms));
  return {values[0], values[1], values[2]};
}

/// The expressions of a launch.
struct LaunchFormulas {
  std::vector<Formula> grid, block;
  std::optional<Formula> shared, cluster, pdl, per_sm, max_blocks, cooperative;

  LaunchExpressions expressions() const {
    const auto extents = [](const std::vector<Formula>& list) {
      Extents e;
      Expression* const places[] = {&e.x, &e.y, &e.z};
      for (std::size_t i = 0; i < list.size(); ++i) *places[i] = list[i].expression();
      return e;
    };
    LaunchExpressions e{.grid = extents(grid), .block = extents(block)};
    const std::pair<Expression*, const std::optional<Formula>*> parts[] = {
        {&e.shared_bytes, &shared}, {&e.cluster, &cluster},       {&e.pdl, &pdl},
        {&e.per_sm, &per_sm},       {&e.max_blocks, &max_blocks}, {&e.cooperative, &cooperative}};
    for (const auto& [expression, formula] : parts)
      if (*formula) *expression = (*formula)->expression();
    return e;
  }

  /// Throws CompileError, with the place in the file, for a value that no launch has.
  Launch on(const Problem& p, const Config& c, int sms) const {
    Launch launch{.grid = evaluate(grid, p, c, sms), .block = evaluate(block, p, c, sms)};
    if (shared) launch.shared_bytes = shared->whole(p, c, 0, kLargestGrid, sms);
    if (cluster) launch.cluster = static_cast<unsigned>(cluster->whole(p, c, 1, 16, sms));
    if (pdl) launch.pdl = pdl->whole(p, c, 0, 1, sms) != 0;
    if (per_sm) launch.per_sm = per_sm->whole(p, c, 0, 1, sms) != 0;
    if (max_blocks) launch.max_blocks = max_blocks->whole(p, c, 0, Formula::kLargest, sms);
    if (cooperative) launch.cooperative = cooperative->whole(p, c, 0, 1, sms) != 0;
    return launch;
  }
};

}  // namespace

std::string flag_text(const YAML::Node& node) {
  const std::string text = node.Scalar();
  return text == "yes" ? "1" : text == "no" ? "0" : text;
}

void read_launch(const KernelItem& plain, const YAML::Node& node, Stage& stage) {
  plain.yaml.expect_keys(
      node, "'launch'", {"grid", "block", "shared", "cluster", "pdl", "per_sm", "max_blocks", "cooperative"});
  for (const char* needed : {"grid", "block"})
    if (!node[needed]) plain.yaml.fail(node, fmt::format("'launch' needs '{}'", needed));
  KernelItem item = plain;
  item.names.push_back({"sms"});
  const auto optional = [&](const char* key) -> std::optional<Formula> {
    if (!node[key]) return std::nullopt;
    return item.formula(node[key], fmt::format("'{}'", key));
  };
  const auto flag = [&](const char* key) -> std::optional<Formula> {
    if (!node[key]) return std::nullopt;
    const std::string what = fmt::format("'{}'", key);
    item.yaml.text(node[key], what);
    return item.yaml.at(node[key], [&] {
      return Formula(flag_text(node[key]), item.names, what, item.yaml.where(node[key]));
    });
  };
  const LaunchFormulas launch{.grid = read_extents(item, node["grid"], "'grid'"),
                              .block = read_extents(item, node["block"], "'block'"),
                              .shared = optional("shared"),
                              .cluster = optional("cluster"),
                              .pdl = flag("pdl"),
                              .per_sm = flag("per_sm"),
                              .max_blocks = optional("max_blocks"),
                              .cooperative = flag("cooperative")};
  stage.geometry = launch.expressions();
  stage.launch = [launch](const Problem& p, const Config& c) { return launch.on(p, c, 1); };
  stage.launch_on = [launch](const Problem& p, const Config& c, const DeviceFacts& facts) {
    return launch.on(p, c, facts.sms);
  };
}

}  // namespace warptune
