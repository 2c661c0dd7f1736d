#pragma once
// Options that several commands have. What they set must outlive the command.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/custom/kernel_files.h"
#include "harness/device/clock_control.h"
#include "harness/results/csv.h"
#include "harness/results/output_file.h"

namespace warptune {

/// --device: "auto", "cuda:N" or "host".
void add_device(CLI::App& command, std::string& device);
inline constexpr const char* kAsHelp =
    "An older architecture that the GPU rehearses: sm_80 has its features and limits, and a folder of its "
    "own";
/// --as (docs/a100.md), after add_device(): `device` gets a name for open_device() that has both.
void add_as(CLI::App& command, std::string& device);
/// --problem: a regular expression over keys.
void add_problem_filter(CLI::App& command, std::string& pattern);
/// --filter of a sweep.
CLI::Option* add_sweep_filter(CLI::App& command, std::string& pattern);
/// --jobs: 0 means the default of compile_jobs() (tune/compile_pool.h).
void add_jobs(CLI::App& command, int& jobs);
/// --force: replace an existing output.
void add_force(CLI::App& command, bool& force);
/// --lock-clocks; `request` gets a value if the option is given.
void add_lock_clocks(CLI::App& command, std::optional<ClockRequest>& request);

/// A number of this range. Unlike CLI::Range it refuses NaN.
CLI::Validator within(double low, double high);

/// --kernels: files with kernels of the user, beside the built-in variants.
class KernelOption {
 public:
  /// Must live as long as the command.
  void add_to(CLI::App& command);
  /// For the worker: how long a run of a reference may take.
  void add_reference_seconds_to(CLI::App& command);
  /// All ops with the kernels of the files, which the first call reads. Throws InputError.
  const OpTable& ops() const;
  /// The absolute paths of the files, for other processes.
  std::vector<std::filesystem::path> files() const;
  /// The same with a hash of the kernels in them.
  KernelFiles files_as_read() const;

 private:
  std::vector<std::string> given_;
  double reference_seconds_ = kReferenceSeconds;
  mutable std::shared_ptr<const OpTable> table_;
};

/// --history of a command that measures.
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

/// -o and --force of a command that writes one file.
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
