#include "harness/custom/formula.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/lookup.h"

namespace warptune {

bool is_identifier(std::string_view text) {
  const auto is_part = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  return !text.empty() && !std::isdigit(static_cast<unsigned char>(text[0])) &&
         std::ranges::all_of(text, is_part);
}

std::vector<Variable> formula_names(std::span<const Dim> dims, std::span<const Parameter> parameters) {
  std::vector<Variable> names;
  for (const Parameter& p : parameters) names.push_back({p.name, p.labels});
  for (const Dim& d : dims) names.push_back({d.name, d.labels});
  names.push_back({"dtype_bytes"});
  return names;
}

Formula::Formula(const std::string& text, std::span<const Variable> names, const std::string& what,
                 const std::string& where)
    : expression_(Expression(text, what).resolve(names, what).with_origin(where + ": " + what)) {}

double Formula::operator()(const Problem& problem, const Config& config) const {
  return expression_.evaluate([&](const std::string& name) -> double {
    if (const auto* parameter = config.find(name)) return static_cast<double>(parameter->value);
    if (name == "dtype_bytes") return static_cast<double>(size_of(problem.dtype));
    return static_cast<double>(problem.dims.get(name, 0));
  });
}

double Formula::real(const Problem& problem, const Config& config, DType dtype) const {
  const double value = (*this)(problem, config);
  if (!std::isfinite(value) || !std::isfinite(round_to(dtype, value)))
    fail_value(expression_, value, problem, config, fmt::format("a number that {} holds", name_of(dtype)));
  return value;
}

double Formula::at_least_zero(const Problem& problem) const {
  const double value = (*this)(problem, {});
  if (!std::isfinite(value) || value < 0) fail_value(expression_, value, problem, {}, "a number from 0 up");
  return value;
}

std::int64_t Formula::whole(const Problem& problem, const Config& config, std::int64_t least,
                            std::int64_t most) const {
  return checked_integer(expression_, (*this)(problem, config), problem, config, least, most);
}

Formula read_formula(const YamlReader& yaml, const YAML::Node& node, std::span<const Variable> names,
                     const std::string& what) {
  const std::string text = yaml.text(node, what);
  return yaml.at(node, [&] { return Formula(text, names, what, yaml.where(node)); });
}

FormulaText::FormulaText(const std::string& text, std::span<const Variable> names, const std::string& what,
                         const std::string& where, std::span<const Parameter> words, Constants constants)
    : what_(what), where_(where), constants_(std::move(constants)) {
  std::ranges::copy_if(words, std::back_inserter(choices_),
                       [](const Parameter& p) { return !p.labels.empty(); });
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t open = std::min(text.find('{', at), text.size());
    Part part{.text = text.substr(at, open - at)};
    at = open;
    if (open < text.size()) {
      const std::size_t close = text.find('}', open);
      if (close == std::string::npos) throw InputError("{} '{}' has a '{{' without '}}'", what, brief(text));
      const std::string inner = text.substr(open + 1, close - open - 1);
      // A constant hides a dim of its name, as in the built-in variants.
      const bool is_known = contains(names, inner, &Variable::name);
      const bool may_be_constant = constants_ && is_identifier(inner);
      const bool is_choice = contains(choices_, inner, &Parameter::name);
      if (inner == "dtype" || inner == "warptune_dtype" || may_be_constant || is_choice) part.word = inner;
      if (part.word.empty() || (may_be_constant && is_known && !is_choice))
        part.value.emplace_back(inner, names, fmt::format("placeholder of {}", what), where);
      at = close + 1;
    }
    parts_.push_back(std::move(part));
  }
}

std::string FormulaText::operator()(const Problem& problem, const Config& config) const {
  const Assignment constants = constants_ ? constants_(problem, config) : Assignment();
  std::string text;
  for (const Part& part : parts_) {
    text += part.text;
    if (const Parameter* choice = find_named(choices_, part.word))
      text += choice->labels.at(static_cast<std::size_t>(config[choice->name]));
    else if (part.word == "dtype")
      text += cuda_type(problem.dtype);
    else if (part.word == "warptune_dtype")
      text += kernel_type(problem.dtype);
    else if (const auto* constant = constants.find(part.word))
      text += std::to_string(constant->value);
    else if (!part.value.empty())
      text += std::to_string(part.value.front().whole(problem, config));
    else if (!part.word.empty())
      throw CompileError("{}: {} has a placeholder '{}' that is no dim, parameter or constant", where_, what_,
                         brief(part.word));
  }
  return text;
}

std::string_view cuda_type(DType dtype) {
  switch (dtype) {
    case DType::fp16:
      return "__half";
    case DType::bf16:
      return "__nv_bfloat16";
    case DType::fp8:
      return "__nv_fp8_e4m3";
    default:
      return kernel_type(dtype);
  }
}

}  // namespace warptune
