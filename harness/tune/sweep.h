#pragma once
// A sweep as read from its YAML file: problems, and for each the variants with their spaces. docs/sweeps.md
// shows the format.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/op_table.h"
#include "harness/core/space.h"
#include "harness/custom/kernel_files.h"
#include "harness/llama/step_problem.h"
#include "harness/measure/bench.h"
#include "harness/results/step_plans.h"
#include "harness/search/budget.h"

namespace warptune {

/// A variant to try, with the parameter values and constraints that the file adds.
struct VariantChoice {
  const Variant* variant = nullptr;
  std::vector<Override> overrides;
  std::vector<Expression> constraints;
  std::vector<std::string> constraint_places = {};  // "FILE:LINE" of each
};

/// A problem and the variants to try on it.
struct SweepItem {
  const OpEntry* entry = nullptr;
  Problem problem;
  BenchOptions options;
  std::vector<VariantChoice> choices;
  int finalists = 8;    // so many of the fastest are timed again in turn
  int max_configs = 0;  // at most so many configurations of each variant, evenly spread; 0: all
  bool named = false;   // the file names the variants: it is an error if none of them fits the device
  std::string where;    // "FILE:LINE", for that error
  double share = 0;     // of the roofline time of the model's decode step or prefill; 0 without a model
};

/// A model's decode step, whose plans are tuned together.
struct StepItem {
  std::string model;  // the preset, or the folder of the checkpoint
  StepSpec spec;
  int candidates = 8;                   // plans per problem; parameters with in_step_only add more
  std::optional<StepPlans> plans = {};  // recorded: they are timed again, and no others
};

struct Sweep {
  std::string name;
  std::string device = "auto";
  std::filesystem::path output = "results";
  bool missing = false;            // only problems that the wisdom does not know (tune/missing.h)
  bool constraint_rows = false;    // write a row for each configuration that the constraints exclude
  std::vector<std::string> prune;  // conditions on compiled resources: such a configuration is not run
  SearchChoice search;
  const OpTable* ops = nullptr;  // with kernels of the user, own_ops
  std::vector<SweepItem> items;
  std::vector<StepItem> steps;  // after the items
  KernelFiles kernels = {};     // files with kernels of the user, whose variants are among the choices
  std::shared_ptr<const OpTable> own_ops = {};  // the table with them, where the sweep names them
};

/// Reads and checks everything. Throws InputError: "FILE:LINE: what is wrong and what would be right".
Sweep load_sweep(const OpTable& ops, const std::filesystem::path& path);

}  // namespace warptune
