#pragma once
// The winners of one device, with their provenance, in wisdom.json.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/problem.h"

namespace warptune {

/// A configuration that is as fast as a winner, as far as can be told.
struct TiedConfig {
  std::string variant;
  Config config;
  double time_us = 0;
};

struct Winner {
  Problem problem;
  std::string variant;
  Config config;
  double time_us = 0;
  std::string source_hash;            // of the variant's kernels
  std::string run_id, csv;            // the run and the file that hold its row
  std::string throttled = {};         // why the clocks were held down when it was timed; empty: they were not
  std::vector<TiedConfig> tied = {};  // the others that cannot be told from it
};

struct Provenance {
  std::string device, arch, driver, toolkit, git_commit;
};

class Wisdom {
 public:
  Wisdom() = default;
  explicit Wisdom(Provenance provenance) : provenance_(std::move(provenance)) {}
  /// Throws InputError that names the file and what is wrong with it (no such file, no JSON, unknown schema).
  static Wisdom load(const std::filesystem::path& path);
  /// Written beside and renamed: never half a file.
  void save(const std::filesystem::path& path) const;

  const Provenance& provenance() const { return provenance_; }
  const std::vector<Winner>& winners() const { return winners_; }
  /// Adds a winner, or replaces that of the same problem.
  void put(Winner winner);
  const Winner* exact(const Problem& problem) const;
  /// The winner of the nearest problem of the same op, dtype and labels: smallest sum over dims of
  /// |log2(a / b)|, each dim within a factor of 8 (dims outside `free_dims` must be equal). None: nullptr.
  const Winner* nearest(const Problem& problem, const std::vector<std::string>& free_dims) const;

 private:
  Provenance provenance_;
  std::vector<Winner> winners_;
};

}  // namespace warptune
