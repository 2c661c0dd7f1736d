#pragma once
// A sweep as read from its YAML file. docs/sweeps.md shows the format.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harness/core/op_table.h"
#include "harness/custom/kernel_files.h"
#include "harness/search/budget.h"
#include "harness/tune/sweep_item.h"

namespace warptune {

struct Sweep {
  std::string name;
  std::string device = "auto";
  std::filesystem::path output = "results";
  bool fresh_process = false;      // winners are timed again in a process of their own, at the end
  bool missing = false;            // only problems that the wisdom does not know (tune/missing.h)
  bool constraint_rows = false;    // write a row for each configuration that the constraints exclude
  std::vector<std::string> prune;  // conditions on compiled resources: such a configuration is not run
  SearchChoice search;
  std::vector<std::string> share = {};  // dims over which problems share one configuration
  const OpTable* ops = nullptr;         // with kernels of the user, own_ops
  std::vector<SweepItem> items;
  std::vector<StepItem> steps;  // after the items
  KernelFiles kernels = {};     // files with kernels of the user, whose variants are among the choices
  std::shared_ptr<const OpTable> own_ops = {};  // the table with them, where the sweep names them
};

/// How many devices run each problem together: the dim `ranks` of its problems and steps, 1 where none has
/// it. Throws InputError for two numbers of ranks.
int ranks_of(const Sweep& sweep);

/// Reads and checks everything. Throws InputError: "FILE:LINE: what is wrong and what would be right".
Sweep load_sweep(const OpTable& ops, const std::filesystem::path& path);

}  // namespace warptune
