#pragma once
// What `compare`, `history check` and `bisect` have in common: the bounds of their test, and how they print.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/options.h"
#include "harness/results/compare.h"

namespace warptune {

/// --min-effect and --alpha.
void add_test_options(CLI::App& command, CompareOptions& options);

/// The options --format, -o and --force.
class ComparisonOutput {
 public:
  /// Must live as long as the command.
  void add_to(CLI::App& command);
  /// Checks the output before the work. Throws InputError.
  TextOutput open(const std::vector<std::string>& inputs) const;
  std::string formatted(const Comparison& comparison) const;

 private:
  std::string format_ = "text";
  OutputOption output_;
};

}  // namespace warptune
