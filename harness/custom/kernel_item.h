#pragma once
// What all parts of the definition of a kernel need to be read: the file, the op, and the names that its
// expressions may use.
#include <filesystem>

#include "harness/core/variant.h"
#include "harness/core/yaml_reader.h"
#include "harness/custom/formula.h"

namespace warptune {

struct KernelItem {
  const YamlReader& yaml;
  std::filesystem::path folder;  // that of the file: paths are relative to it
  const Op& op;
  const Variant* like = nullptr;  // a built-in variant whose launches it takes over
  std::string name;               // the name of the kernel's variant
  std::vector<Variable> names = {};
  std::vector<Parameter> words = {};  // parameters of the file: texts have their labels
  std::vector<Parameter> parameters = {};
  bool has_workspace = false;

  /// An expression; `what` names it in messages.
  Formula formula(const YAML::Node& node, const std::string& what) const {
    return read_formula(yaml, node, names, what);
  }
  FormulaText formula_text(const YAML::Node& node, const std::string& what) const;
  /// A path in the file, which need not exist.
  std::filesystem::path path(const YAML::Node& node, const std::string& what) const;
};

/// The launch geometry: {grid: ..., block: ..., shared: ..., cluster: ..., pdl: ..., per_sm: ..., max_blocks:
/// ..., cooperative: ...}.
LaunchExpressions read_launch(const KernelItem& item, const YAML::Node& node);
/// The expression of a flag: yes and no are 1 and 0.
std::string flag_text(const YAML::Node& node);

/// What fills constant memory: {SYMBOL: tensor, SYMBOL: {TYPE: expression}, SYMBOL: {TYPE: [expression,
/// ...]}}. `is_binary`: the symbols are those of machine code.
std::function<std::vector<ConstantMemory>(const Problem&, const Config&)> read_constants(
    const KernelItem& item, const YAML::Node& node, bool is_binary);

/// The arguments: `args`, or a list of names, expressions and {type: expression}.
std::function<std::vector<KernelArgument>(const Problem&, const Config&)> read_arguments(
    const KernelItem& item, const YAML::Node& node);

/// The preprocessor symbols: {NAME: expression}.
std::function<std::vector<std::string>(const Problem&, const Config&)> read_defines(const KernelItem& item,
                                                                                    const YAML::Node& node);

}  // namespace warptune
