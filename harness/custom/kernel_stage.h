#pragma once
// One kernel of a variant from a file: its code, how it is compiled, its name, arguments and launch.
#include <string>
#include <vector>

#include "harness/custom/kernel_item.h"

namespace warptune {

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
