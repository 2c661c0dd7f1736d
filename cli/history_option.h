#pragma once
// The option --history of a command that measures.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/results/csv.h"

namespace warptune {

class HistoryOption {
 public:
  /// Must live as long as the command.
  void add_to(CLI::App& command);
  /// Checks before the work that the folder can be written. Throws InputError.
  void expect_writable() const;
  /// Adds the runs of a sweep's CSV that the folder lacks, and prints their files.
  void add(const std::filesystem::path& csv) const;
  void add(std::vector<CsvRow> rows) const;
  bool is_given() const { return !folder_.empty(); }

 private:
  std::string folder_;
};

}  // namespace warptune
