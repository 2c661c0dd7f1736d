// Reads one item of a section `kernels`: a variant of an op whose code is a file of the user.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "harness/core/assignment.h"
#include "harness/core/brief.h"
#include "harness/core/expression.h"
#include "harness/core/lookup.h"
#include "harness/core/space.h"
#include "harness/custom/host_kernel.h"
#include "harness/custom/kernel_files.h"
#include "harness/custom/kernel_item.h"

namespace warptune {
namespace {

/// Names that every expression of a constraint may use, besides dims and parameters.
std::vector<std::string> device_names() { return known_values(Problem{}, DeviceFacts{}).names; }

std::string read_name(const YamlReader& yaml, const YAML::Node& node, const OpEntry& entry) {
  if (!node["name"]) yaml.fail(node, "an item of 'kernels' needs 'name', the name of the variant");
  const std::string name = yaml.text(node["name"], "'name'");
  if (!is_identifier(name))
    yaml.fail(node["name"], "'{}' cannot name a variant: letters, digits and '_' can", brief(name));
  if (entry.find_variant(name))
    yaml.fail(node["name"], "op '{}' has a variant '{}' already; choose another name", entry.op.name, name);
  return name;
}

/// The built-in variant whose launches, parameters and constraints are taken over.
const Variant* read_like(const YamlReader& yaml, const YAML::Node& node, const OpEntry& entry) {
  if (!node) return nullptr;
  const std::string name = yaml.text(node, "'like'");
  const Variant& like = *yaml.at(node, [&] { return &entry.variant(name); });
  const bool only_kernels = like.backend == Backend::cuda && !like.stages.empty() && !calls_library(like);
  if (!only_kernels) yaml.fail(node, "'like' is '{}', which has no kernels of its own", name);
  return &like;
}

/// Whether a value of a parameter is meant as a number: it begins like one.
bool is_number(const std::string& text) {
  return !text.empty() &&
         (std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '-' || text[0] == '+');
}

/// Integers, or words: the value of a word is its place in the list; false and true are 0 and 1.
void read_parameter_values(const YamlReader& yaml, const YAML::Node& node, const std::string& what,
                           Parameter& parameter) {
  const std::vector<std::string> values = yaml.values(node, what);
  if (std::ranges::any_of(values, is_number)) {
    for (const std::string& value : values)
      parameter.values.push_back(yaml.at(node, [&] { return whole_number(value, what); }));
    return;
  }
  const auto is_truth = [](const std::string& word) { return word == "true" || word == "false"; };
  if (std::ranges::all_of(values, is_truth))
    parameter.labels = {"false", "true"};
  else if (std::ranges::any_of(values, is_truth))
    yaml.fail(node, "{} has true or false beside other words", what);
  for (const std::string& word : values) {
    if (word.empty() || word.find_first_of(",=\"'{}") != std::string::npos || printable(word) != word)
      yaml.fail(node, "{} has the value '{}'; it must be an integer or a word without , = {{ }} and quotes",
                what, brief(word));
    if (!is_truth(word)) parameter.labels.push_back(word);
    parameter.values.push_back(std::ranges::find(parameter.labels, word) - parameter.labels.begin());
  }
}

std::vector<Parameter> read_parameters(const KernelItem& item, const YAML::Node& node) {
  item.yaml.expect_map(node, "'parameters'");
  std::vector<Parameter> parameters;
  const std::vector<std::string> taken = device_names();
  for (const auto& pair : node) {
    const std::string name = pair.first.Scalar(), what = fmt::format("parameter '{}'", brief(name));
    if (!is_identifier(name))
      item.yaml.fail(pair.first, "{} must be a name of letters, digits and '_'", what);
    if (item.op.find_dim(name) || contains(taken, name) || name == "dtype")
      item.yaml.fail(pair.first, "{} has the name of a {}", what,
                     item.op.find_dim(name) ? "dim of the op" : "fact");
    parameters.push_back({.name = name});
    read_parameter_values(item.yaml, pair.second, what, parameters.back());
  }
  return parameters;
}

std::vector<DType> read_dtypes(const KernelItem& item, const YAML::Node& node) {
  std::vector<DType> dtypes;
  for (const YAML::Node& word : item.yaml.items(node, "'dtypes'")) {
    const DType dtype = item.yaml.at(word, [&] { return parse_dtype(item.yaml.text(word, "a dtype")); });
    if (!contains(item.op.dtypes, dtype))
      item.yaml.fail(word, "op '{}' does not take dtype {}", item.op.name, name_of(dtype));
    dtypes.push_back(dtype);
  }
  return dtypes;
}

/// Constraints of the user, and the constraints that attributes of the launch bring: older devices lack them.
void read_constraints(const KernelItem& item, const YAML::Node& node, std::vector<Expression>& constraints) {
  std::vector<Variable> names = item.names;
  for (const std::string& name : device_names()) names.push_back({name});
  if (node["constraints"])
    for (const YAML::Node& text : item.yaml.items(node["constraints"], "'constraints'")) {
      const std::string constraint = item.yaml.text(text, "a constraint");
      item.yaml.at(text, [&] { constraints.push_back(Expression(constraint).resolve(names)); });
    }
  const auto needs = [&](const YAML::Node& launch) {
    if (!launch || !launch.IsMap()) return;
    if (launch["pdl"]) constraints.push_back(fmt::format("({}) == 0 || has_pdl", flag_text(launch["pdl"])));
    if (launch["cluster"])
      constraints.push_back(fmt::format("({}) == 1 || has_clusters", launch["cluster"].Scalar()));
  };
  needs(node["launch"]);
  if (node["stages"])
    for (const YAML::Node& stage : node["stages"]) needs(stage["launch"]);
}

void read_workspace(const KernelItem& item, const YAML::Node& node, Variant& variant) {
  const bool passed = contains(item.op.fields, "workspace", &ArgsField::name);
  variant.workspace = 0;
  (passed ? variant.workspace : variant.own_workspace) = item.formula(node, "'workspace'").expression();
}

std::vector<Stage> read_stages(const KernelItem& item, const YAML::Node& node) {
  const StageDefaults defaults = read_defaults(item, node);
  if (!node["stages"]) return {read_stage(item, node, defaults, 0)};
  for (const char* key : {"kernel", "arguments", "launch", "when"})
    if (node[key])
      item.yaml.fail(node[key], "'{}' belongs to the items of 'stages', where there are any", key);
  item.yaml.expect_list(node["stages"], "'stages'");
  std::vector<Stage> stages;
  for (const YAML::Node& stage : node["stages"]) {
    item.yaml.expect_keys(
        stage, "a stage",
        {"source", "cubin", "fatbin", "kernel", "define", "constant", "arguments", "launch", "when"});
    stages.push_back(read_stage(item, stage, defaults, stages.size()));
  }
  return stages;
}

}  // namespace

bool exchanges_between_gpus(const OpEntry& entry) {
  return std::ranges::any_of(entry.variants, [](const Variant& v) { return v.peer_workspace.number() != 0; });
}

std::string op_of_kernel(const YamlReader& yaml, const YAML::Node& node) {
  yaml.expect_keys(node, "an item of 'kernels'",
                   {"name",   "op",        "idea",   "like",      "source",     "cubin",       "fatbin",
                    "kernel", "arguments", "define", "constant",  "parameters", "constraints", "dtypes",
                    "launch", "when",      "stages", "workspace", "options",    "include"});
  if (!node["op"]) yaml.fail(node, "an item of 'kernels' needs 'op', the op that it computes");
  return yaml.text(node["op"], "'op'");
}

Variant read_kernel(const YamlReader& yaml, const YAML::Node& node, const OpEntry& entry,
                    const std::filesystem::path& folder) {
  if (exchanges_between_gpus(entry))
    yaml.fail(node["op"], "op '{}' runs on several GPUs; kernels from a file run on one", entry.op.name);
  KernelItem item{
      .yaml = yaml, .folder = folder, .op = entry.op, .like = read_like(yaml, node["like"], entry)};
  item.name = read_name(yaml, node, entry);
  Variant variant;
  if (item.like) {
    variant = *item.like;
    variant.stages.clear();
    item.has_workspace = variant.workspace.number() != 0;
  }
  variant.name = item.name;
  variant.backend = Backend::cuda;
  if (node["parameters"]) variant.parameters = item.words = read_parameters(item, node["parameters"]);
  item.names = formula_names(entry.op.dims, variant.parameters);
  item.parameters = variant.parameters;
  if (node["dtypes"]) variant.dtypes = read_dtypes(item, node["dtypes"]);
  read_constraints(item, node, variant.constraints);
  if (node["workspace"]) {
    item.has_workspace = true;
    read_workspace(item, node["workspace"], variant);
  }
  variant.stages = read_stages(item, node);
  add_host_functions(variant);
  variant.idea =
      node["idea"] ? yaml.text(node["idea"], "'idea'")
                   : fmt::format("A kernel of {}.", variant.stages.front().custom->file.filename().string());
  return variant;
}

}  // namespace warptune
