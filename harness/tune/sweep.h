#pragma once
// A sweep as its YAML file says it: problems, and for each the variants with their spaces. docs/cli.md shows
// the file's form.
#include <filesystem>
#include <string>
#include <vector>

#include "harness/core/op_table.h"
#include "harness/core/space.h"
#include "harness/measure/bench.h"
#include "harness/search/budget.h"

namespace warptune {

/// A variant to try, with what the file says of its parameters.
struct VariantChoice {
  const Variant* variant = nullptr;
  std::vector<Override> overrides;
  std::vector<std::string> constraints;
};

/// A problem to solve in all these ways.
struct SweepItem {
  const OpEntry* entry = nullptr;
  Problem problem;
  BenchOptions options;
  std::vector<VariantChoice> choices;
  int finalists = 8;   // so many of the fastest are timed again in turn
  int most = 0;        // at most so many configurations of each variant, evenly spread; 0: all
  bool named = false;  // the file names the variants, so none that fits the device is an error
  std::string where;   // "FILE:LINE", for such an error
};

struct Sweep {
  std::string name;
  std::string device = "auto";
  std::filesystem::path output = "results";
  bool constraint_rows = false;    // a row for each configuration that the constraints exclude
  std::vector<std::string> prune;  // conditions on what a compiled configuration takes: it is not run
  SearchChoice search;
  std::vector<SweepItem> items;
};

/// Reads and checks everything. Throws InputError: "FILE:LINE: what is wrong and what would be right".
Sweep load_sweep(const OpTable& ops, const std::filesystem::path& path);

}  // namespace warptune
