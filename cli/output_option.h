#pragma once
// The options -o and --force of a command that writes one file.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/results/output_file.h"

namespace warptune {

/// Where a command writes: a file, or standard output.
class TextOutput {
 public:
  TextOutput() = default;
  explicit TextOutput(OutputFile file) : file_(std::move(file)) {}
  /// Throws InputError.
  void write(std::string_view text) const;

 private:
  std::optional<OutputFile> file_;  // empty: standard output
};

class OutputOption {
 public:
  /// `path`: the output without -o; empty: standard output.
  explicit OutputOption(std::string path = {}) : path_(std::move(path)) {}
  /// Must live as long as the command.
  void add_to(CLI::App& command, const std::string& what);
  const std::string& path() const { return path_; }
  bool is_forced() const { return force_; }
  /// Checks the output before the work (results/output_file.h). Throws InputError.
  TextOutput open(OutputKind kind, const std::vector<std::string>& inputs) const;

 private:
  std::string path_;
  bool force_ = false;
};

std::vector<std::filesystem::path> paths_of(const std::vector<std::string>& names);

}  // namespace warptune
