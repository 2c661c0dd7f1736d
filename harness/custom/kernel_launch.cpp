#include <fmt/format.h>

#include <vector>

#include "harness/custom/kernel_item.h"

namespace warptune {
namespace {

/// Up to three extents; those that are not given are 1.
Extents read_extents(const KernelItem& item, const YAML::Node& node, const std::string& what) {
  std::vector<Expression> given;
  for (const YAML::Node& extent : item.yaml.items(node, what))
    given.push_back(item.formula(extent, what).expression());
  if (given.size() > 3)
    item.yaml.fail(node, fmt::format("{} has {} extents; at most 3 are possible", what, given.size()));
  given.resize(3, 1);
  return {given[0], given[1], given[2]};
}

}  // namespace

std::string flag_text(const YAML::Node& node) {
  const std::string text = node.Scalar();
  return text == "yes" ? "1" : text == "no" ? "0" : text;
}

LaunchExpressions read_launch(const KernelItem& plain, const YAML::Node& node) {
  plain.yaml.expect_keys(
      node, "'launch'", {"grid", "block", "shared", "cluster", "pdl", "per_sm", "max_blocks", "cooperative"});
  for (const char* needed : {"grid", "block"})
    if (!node[needed]) plain.yaml.fail(node, fmt::format("'launch' needs '{}'", needed));
  KernelItem item = plain;
  item.names.push_back({"sms"});
  LaunchExpressions launch{.grid = read_extents(item, node["grid"], "'grid'"),
                           .block = read_extents(item, node["block"], "'block'")};
  const std::pair<const char*, Expression*> numbers[] = {
      {"shared", &launch.shared_bytes}, {"cluster", &launch.cluster}, {"max_blocks", &launch.max_blocks}};
  for (const auto& [key, part] : numbers)
    if (node[key]) *part = item.formula(node[key], fmt::format("'{}'", key)).expression();
  const std::pair<const char*, Expression*> flags[] = {
      {"pdl", &launch.pdl}, {"per_sm", &launch.per_sm}, {"cooperative", &launch.cooperative}};
  for (const auto& [key, part] : flags) {
    const YAML::Node flag = node[key];
    if (!flag) continue;
    const std::string what = fmt::format("'{}'", key);
    item.yaml.text(flag, what);
    *part = item.yaml.at(
        flag, [&] { return Formula(flag_text(flag), item.names, what, item.yaml.where(flag)).expression(); });
  }
  return launch;
}

}  // namespace warptune
