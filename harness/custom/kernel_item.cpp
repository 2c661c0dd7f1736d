#include "harness/custom/kernel_item.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "harness/core/variant_values.h"

namespace warptune {

Formula KernelItem::formula(const YAML::Node& node, const std::string& what) const {
  const std::string text = yaml.text(node, what);
  return yaml.at(node, [&] { return Formula(text, names, what, yaml.where(node)); });
}

namespace {

/// The derived values of a built-in variant that are integers.
FormulaText::Constants derived_values(const Variant& like) {
  // A copy: the table of the built-in variant may end before the kernel does.
  return [copy = std::make_shared<const Variant>(like)](const Problem& problem, const Config& config) {
    Assignment integers;
    const VariantValues values(*copy, problem, config);
    for (const DerivedValue& d : copy->derived)
      if (const double value = values(d.value); value == std::floor(value))
        integers.set(d.name, static_cast<std::int64_t>(value));
    return integers;
  };
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
    if (!is_identifier(name))
      item.yaml.fail(pair.first, fmt::format("'{}' cannot be a preprocessor symbol", name));
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

}  // namespace warptune
