#pragma once
// What the rows of a CSV do not say themselves but what they depend on, in <sweep>.journal beside it. A run
// writes one line, before its first row: for each of its problems and variants a stamp, the hash of the
// kernel's sources, the options of sampling and the version of the measuring code. A row names its run, so
// that row and journal together give the row's key; there is no moment at which a row is without its key.
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "harness/measure/bench.h"

namespace warptune {

using CsvRow = std::map<std::string, std::string>;
/// By "<problem> <cache> <variant>".
using Stamps = std::map<std::string, std::string>;

std::string stamp_name(const std::string& problem, const std::string& cache, const std::string& variant);
/// "<source hash> <hash of the options>".
std::string stamp_of(const std::string& source_hash, const BenchOptions& options);
/// The same with a code hash in place of the source hash: what finds a row whose sources have changed and
/// whose machine code has not.
std::string code_stamp(const std::string& stamp, const std::string& code_hash);

/// A row that a sweep writes when it first meets a configuration; finalists are measured again into rows
/// whose detail begins with "finalist", or in cache states that no sweep asks for. Launch floors are of no
/// configuration.
bool is_first_row(const CsvRow& row);

/// The hash by which a row is found again: stamp, device, arch, driver, toolkit, problem, variant, config,
/// cache. `row` needs these columns only.
std::string key_of(const CsvRow& row, const std::string& stamp);

class Journal {
 public:
  /// Reads a journal, without changing it; empty where there is none. Half a line at the end is left out.
  static Journal read(const std::filesystem::path& path);
  /// Opens or creates it for writing, cuts half a line at the end off, and keeps other programs from writing
  /// it as long as this object lives. Throws InputError where another program does.
  explicit Journal(std::filesystem::path path);
  ~Journal();
  Journal(Journal&& other) noexcept;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Written and fsynced.
  void add(const std::string& run_id, const Stamps& stamps);
  const std::map<std::string, Stamps>& runs() const { return runs_; }
  /// The key of a row; none where its run is not in the journal.
  std::optional<std::string> key(const CsvRow& row) const;
  /// The key by its code hash in place of its sources; none where the row has no code hash.
  std::optional<std::string> code_key(const CsvRow& row) const;

 private:
  Journal() = default;
  std::size_t load();  // returns where the last complete line ends
  std::optional<std::string> stamp_of_row(const CsvRow& row) const;

  std::filesystem::path path_;
  int file_ = -1;
  std::map<std::string, Stamps> runs_;
};

}  // namespace warptune
