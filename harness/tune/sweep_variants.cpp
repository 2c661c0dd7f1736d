// The variants of a sweep's file.
#include <fmt/format.h>

#include <algorithm>

#include "harness/core/assignment.h"
#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/expression.h"
#include "harness/core/lookup.h"
#include "harness/tune/sweep_settings.h"

namespace warptune {
namespace {

std::int64_t parameter_value(const YamlReader& yaml, const YAML::Node& node, const Parameter& parameter,
                             const std::string& text) {
  if (const auto labeled = value_of_label(parameter, text)) return *labeled;
  if (!parameter.labels.empty())
    yaml.fail(node, "parameter '{}' is '{}'; it must be one of {}", parameter.name, brief(text),
              listed(offered_labels(parameter)));
  const std::int64_t value =
      yaml.at(node, [&] { return whole_number(text, fmt::format("parameter '{}'", parameter.name)); });
  const bool zero = contains(parameter.values, 0);
  if (value < (zero ? 0 : 1))
    yaml.fail(node, "parameter '{}' is {}; it must be at least {}", parameter.name, value, zero ? 0 : 1);
  return value;
}

VariantChoice choice_of(const YamlReader& yaml, const YAML::Node& node, const OpEntry& entry,
                        const std::string& name) {
  const Variant* variant = entry.find_variant(name);
  if (!variant) {
    for (const OptionalVariant& optional : entry.optional_variants)
      if (optional.name == name)
        yaml.fail(node, "op '{}' has no variant '{}' here: {}", entry.op.name, name, optional.why_missing);
    const auto known = names_of(entry.variants);
    yaml.fail(node, "op '{}' has no variant '{}'{}", entry.op.name, brief(name),
              did_you_mean(name, known, "it has"));
  }
  return {.variant = variant, .overrides = {}, .constraints = {}};
}

/// A name, or {name: {parameters: {...}, constraints: [...]}}.
VariantChoice read_variant(const YamlReader& yaml, const YAML::Node& node, const OpEntry& entry) {
  if (node.IsScalar()) return choice_of(yaml, node, entry, node.Scalar());
  if (!node.IsMap() || node.size() != 1)
    yaml.fail(node, "a variant must be a name or {name: {parameters: ..., constraints: ...}}");
  const YAML::Node key = node.begin()->first, body = node.begin()->second;
  VariantChoice choice = choice_of(yaml, key, entry, yaml.text(key, "a variant"));
  const Variant& variant = *choice.variant;
  const std::string what = fmt::format("variant '{}'", variant.name);
  if (body.IsNull()) return choice;
  yaml.expect_keys(body, what, {"parameters", "constraints"});
  if (const YAML::Node parameters = body["parameters"]) {
    yaml.expect_map(parameters, fmt::format("'parameters' of {}", what));
    for (const auto& pair : parameters) {
      const std::string name = pair.first.Scalar();
      const auto it = std::ranges::find(variant.parameters, name, &Parameter::name);
      if (it == variant.parameters.end()) {
        const auto known = names_of(variant.parameters);
        yaml.fail(pair.first, "variant '{}/{}' has no parameter '{}'{}", entry.op.name, variant.name,
                  brief(name), did_you_mean(name, known, "it has"));
      }
      Override values{.parameter = name, .values = {}};
      for (const std::string& text : yaml.values(pair.second, fmt::format("parameter '{}'", name)))
        values.values.push_back(parameter_value(yaml, pair.second, *it, text));
      choice.overrides.push_back(std::move(values));
    }
  }
  if (body["constraints"]) add_constraints(yaml, body["constraints"], entry, {&choice, 1});
  return choice;
}

}  // namespace

void add_constraints(const YamlReader& yaml, const YAML::Node& node, const OpEntry& entry,
                     std::span<VariantChoice> choices) {
  for (const YAML::Node& item : yaml.items(node, "'constraints'")) {
    const std::string text = yaml.text(item, "a constraint");
    std::string wrong;
    bool fits = false;
    for (VariantChoice& choice : choices) {
      try {
        choice.constraints.push_back(Expression(text).resolve(variables_of(*choice.variant, entry.op.dims)));
        choice.constraint_places.push_back(yaml.where(item));
        fits = true;
      } catch (const InputError& e) {
        wrong = e.what();
      }
    }
    if (!fits) yaml.fail(item, wrong);
  }
}

std::vector<VariantChoice> read_variants(const YamlReader& yaml, const YAML::Node& node,
                                         const OpEntry& entry) {
  std::vector<VariantChoice> choices;
  for (const YAML::Node& item : yaml.items(node, "'variants'")) {
    VariantChoice choice = read_variant(yaml, item, entry);
    if (contains(choices, choice.variant, &VariantChoice::variant))
      yaml.fail(item, "variant '{}' is given twice", choice.variant->name);
    choices.push_back(std::move(choice));
  }
  return choices;
}

std::vector<VariantChoice> all_variants(const OpEntry& entry) {
  std::vector<VariantChoice> choices;
  for (const Variant& variant : entry.variants) choices.push_back({&variant, {}, {}});
  return choices;
}

}  // namespace warptune
