#pragma once
// The winners of one or more devices, with their provenance, in wisdom.json.
#include <filesystem>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "harness/core/problem.h"
#include "harness/measure/cache_mode.h"

namespace warptune {

/// A configuration that is as fast as a winner, as far as can be told.
struct TiedConfig {
  std::string variant;
  Config config;
  double time_us = 0;
};

/// What the configurations of a variant took: a row is a value of each parameter and a time.
struct VariantTimes {
  struct Row {
    std::vector<std::int64_t> values;
    double time_us = 0;
    bool operator==(const Row&) const = default;
  };
  std::string variant;
  std::string source_hash;  // of its kernels then
  std::vector<std::string> parameters;
  std::vector<Row> rows;
  bool operator==(const VariantTimes&) const = default;
};

/// Adds times to those of the same problem and device. Of a variant whose sources or parameters differ only
/// the new ones stay; of a configuration timed twice the new time.
void add_times(std::vector<VariantTimes>& times, const std::vector<VariantTimes>& newer);

struct Provenance {
  std::string device, arch, driver, toolkit, git_commit;
  bool operator==(const Provenance&) const = default;
};

struct Winner {
  Problem problem;
  std::string variant;
  Config config;
  double time_us = 0;
  std::string source_hash;            // of the variant's kernels
  std::string run_id, csv;            // the run and the file that hold its row
  Provenance made_on = {};            // empty: that of the wisdom it is put into
  CacheMode cache = CacheMode::cold;  // the state it was timed in
  std::string throttled = {};         // why the clocks were held down when it was timed; empty: they were not
  std::vector<TiedConfig> tied = {};  // the others that cannot be told from it
  std::vector<VariantTimes> times = {};  // of all that was tried (select/predict.h)
  std::string code_hash = {};            // of the configuration (Resources::code_hash); empty of a library
};

struct ProblemHash {
  std::size_t operator()(const Problem& problem) const;
};
/// Places in a list of winners by their problems.
using ProblemIndex = std::unordered_map<Problem, std::vector<std::size_t>, ProblemHash>;

class Wisdom {
 public:
  Wisdom() = default;
  explicit Wisdom(Provenance provenance) : provenance_(std::move(provenance)) {}
  /// Throws InputError that names the file and what is wrong with it (no such file, no JSON, unknown schema).
  static Wisdom load(const std::filesystem::path& path);
  /// Never half a file (replace_file(), results/durable_file.h). A winner's provenance is written where it
  /// differs from that of the file.
  void save(const std::filesystem::path& path) const;
  /// The text that save() writes: JSON, one line per winner.
  std::string to_json() const;

  const Provenance& provenance() const { return provenance_; }
  const std::vector<Winner>& winners() const { return winners_; }
  /// Adds a winner, or replaces that of the same problem and device.
  void put(Winner winner);
  /// The winner of exactly this problem made on this device, or nullptr.
  const Winner* held(const Problem& problem, const std::string& device) const;
  /// The winner of exactly this problem, of the first device that has one.
  const Winner* exact(const Problem& problem) const;
  /// The winners of exactly this problem, one per device, as places in winners().
  std::span<const std::size_t> places(const Problem& problem) const;

 private:
  Provenance provenance_;
  std::vector<Winner> winners_;
  ProblemIndex by_problem_;  // one winner per device
};

}  // namespace warptune
