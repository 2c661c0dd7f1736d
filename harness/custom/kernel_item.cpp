#include "harness/custom/kernel_item.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "harness/core/variant_values.h"

namespace warptune {

namespace {

/// The derived values of a built-in variant that are integers.
FormulaText::Constants derived_values(const Variant& like) {
  // A copy: the table of the built-in variant may end before the kernel does.
  return [copy = std::make_shared<const Variant>(like)](const Problem& problem, const Config& config) {
    Assignment integers;
    const VariantValues values(*copy, problem, config);
    for (const DerivedValue& d : copy->derived)
      if (const double value = values.knows(d.value) ? values(d.value) : NAN; is_exact_integer(value))
        integers.set(d.name, static_cast<std::int64_t>(value));
    return integers;
  };
}

/// Up to three extents; extents that are not given are 1.
Extents read_extents(const KernelItem& item, const YAML::Node& node, const std::string& what) {
  std::vector<Expression> given;
  for (const YAML::Node& extent : item.yaml.items(node, what))
    given.push_back(item.formula(extent, what).expression());
  if (given.size() > 3) item.yaml.fail(node, "{} has {} extents; at most 3 are possible", what, given.size());
  given.resize(3, 1);
  return {given[0], given[1], given[2]};
}

}  // namespace

FormulaText KernelItem::formula_text(const YAML::Node& node, const std::string& what) const {
  const std::string text = yaml.text(node, what);
  return yaml.at(node, [&] {
    return FormulaText(text, names, what, yaml.where(node), words,
                       like ? derived_values(*like) : FormulaText::Constants());
  });
}

std::filesystem::path KernelItem::path(const YAML::Node& node, const std::string& what) const {
  return std::filesystem::absolute(folder / yaml.text(node, what)).lexically_normal();
}

std::function<std::vector<std::string>(const Problem&, const Config&)> read_defines(const KernelItem& item,
                                                                                    const YAML::Node& node) {
  item.yaml.expect_map(node, "'define'");
  std::vector<std::pair<std::string, FormulaText>> defines;
  for (const auto& pair : node) {
    const std::string name = pair.first.Scalar();
    if (!is_identifier(name)) item.yaml.fail(pair.first, "'{}' cannot be a preprocessor symbol", name);
    const std::string value = item.yaml.text(pair.second, fmt::format("'{}'", name));
    defines.emplace_back(name, item.yaml.at(pair.second, [&] {
      return FormulaText("{" + value + "}", item.names, fmt::format("'{}'", name),
                         item.yaml.where(pair.second), item.words);
    }));
  }
  return [defines = std::move(defines)](const Problem& p, const Config& c) {
    std::vector<std::string> options;
    for (const auto& [name, value] : defines) options.push_back("-D" + name + "=" + value(p, c));
    return options;
  };
}

std::string flag_text(const YAML::Node& node) {
  const std::string text = node.Scalar();
  return text == "yes" ? "1" : text == "no" ? "0" : text;
}

LaunchExpressions read_launch(const KernelItem& plain, const YAML::Node& node) {
  plain.yaml.expect_keys(
      node, "'launch'", {"grid", "block", "shared", "cluster", "pdl", "per_sm", "max_blocks", "cooperative"});
  for (const char* needed : {"grid", "block"})
    if (!node[needed]) plain.yaml.fail(node, "'launch' needs '{}'", needed);
  KernelItem item = plain;
  item.names.push_back({"sms"});
  LaunchExpressions launch{.grid = read_extents(item, node["grid"], "'grid'"),
                           .block = read_extents(item, node["block"], "'block'")};
  const std::pair<const char*, Expression*> numbers[] = {
      {"shared", &launch.shared_bytes}, {"cluster", &launch.cluster}, {"max_blocks", &launch.max_blocks}};
  const std::pair<const char*, Expression*> flags[] = {
      {"pdl", &launch.pdl}, {"per_sm", &launch.per_sm}, {"cooperative", &launch.cooperative}};
  for (const auto& [key, part] : numbers)
    if (node[key]) *part = item.formula(node[key], fmt::format("'{}'", key)).expression();
  for (const auto& [key, part] : flags)
    if (const YAML::Node flag = node[key]) {
      const std::string what = fmt::format("'{}'", key);
      item.yaml.text(flag, what);
      *part = item.yaml.at(flag, [&] {
        return Formula(flag_text(flag), item.names, what, item.yaml.where(flag)).expression();
      });
    }
  return launch;
}

}  // namespace warptune
