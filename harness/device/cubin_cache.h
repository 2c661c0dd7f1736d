#pragma once
// The cubin cache: a folder with a file for each kernel, named by a hash of what its code depends on.
#include <filesystem>
#include <optional>
#include <string>

#include "harness/device/compile.h"

namespace warptune {

class CubinCache {
 public:
  /// An empty path: nothing is found and nothing is kept.
  explicit CubinCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::optional<Cubin> find(const std::string& key) const;
  void save(const std::string& key, const Cubin& cubin) const;

  /// A note beside the cubins: what a call of the compiler read.
  std::optional<std::string> find_note(const std::string& key) const;
  void save_note(const std::string& key, const std::string& text) const;

 private:
  void write(const std::string& key, const char* suffix, const std::string& text) const;
  std::filesystem::path folder_;
};

}  // namespace warptune
