#pragma once
// The files that the machine code of a kernel from a file depends on, as they were when it was compiled.
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/device/compile.h"
#include "harness/device/source_closure.h"

namespace warptune {

/// A file with a hash of its content; for a header of the CUDA Toolkit, its size and time.
struct Dependency {
  std::string path;  // or the name of a header that the program brings
  std::string state;
};

class Dependencies {
 public:
  /// `included`: what included_files() returned for the program. Throws InputError where a file cannot be
  /// read.
  Dependencies(std::span<const std::string> included, const CustomKernel::Files& program,
               const SearchPath& folders);
  /// From text(); nullopt where that is damaged.
  static std::optional<Dependencies> parse(const std::string& text);

  /// Whether every file is as it was, and no other file has come where the compiler looks first.
  bool hold(const KernelSources& own, const SearchPath& folders) const;
  const std::vector<Dependency>& files() const { return files_; }
  /// Whether a file of the user has __has_include: the list does not tell what else the code depends on.
  bool asks_for_files() const { return asks_for_files_; }
  std::string text() const;
  /// The files with their states.
  std::string identity() const;

 private:
  Dependencies() = default;
  std::vector<Dependency> files_;
  std::vector<std::string> absent_;  // files that would be included if they existed
  bool asks_for_files_ = false;
};

}  // namespace warptune
