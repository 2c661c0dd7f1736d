#pragma once
// The option --kernels of a command: files with kernels of the user, beside the built-in variants.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harness/custom/kernel_files.h"

namespace warptune {

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

}  // namespace warptune
