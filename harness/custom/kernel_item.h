#pragma once
// Reads one kernel of a variant from a file: its code, how it is compiled, its name, arguments and launch.
#include <filesystem>
#include <string>
#include <vector>

#include "harness/core/variant.h"
#include "harness/core/yaml_reader.h"
#include "harness/custom/formula.h"

namespace warptune {

/// What all parts of the definition need: the file, the op, and the names that expressions may use.
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

/// An option of the compiler with placeholders, and "FILE:LINE".
struct TunedOption {
  FormulaText text;
  std::string where;
};

/// What stages share: the node of the kernel, whose code and symbols are those of stages without their own,
/// the options of the compiler and the folders of headers.
struct StageDefaults {
  YAML::Node kernel;
  std::vector<std::string> options;
  std::vector<TunedOption> tuned_options;
  std::vector<std::filesystem::path> folders;
};

/// The options that all stages of a kernel have, from its keys `options` and `include`. Throws InputError
/// where a folder does not exist.
StageDefaults read_defaults(const KernelItem& item, const YAML::Node& kernel);

/// `index` counts the stages; the launch of that stage of `item.like` is the default.
Stage read_stage(const KernelItem& item, const YAML::Node& node, const StageDefaults& defaults,
                 std::size_t index);

}  // namespace warptune
