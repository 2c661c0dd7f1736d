#pragma once
// <sweep>.journal holds the inputs of rows that are not columns of the CSV. A run writes one line before its
// first row: a stamp for each of its problems and variants, made of the hash of the kernel's sources, the
// sampling options and the version of the measuring code. A row names its run, so row and journal together
// give the row's key. Every row in the CSV already has its stamp in the journal.
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "harness/measure/bench.h"
#include "harness/results/csv.h"

namespace warptune {

/// Stamps by "<problem> <cache> <variant>".
using Stamps = std::map<std::string, std::string>;

std::string stamp_name(const std::string& problem, const std::string& cache, const std::string& variant);
/// "<source hash> <hash of the options>".
std::string stamp_of(const std::string& source_hash, const BenchOptions& options);
/// The same with a code hash in place of the source hash. It finds rows whose sources have changed and whose
/// machine code has not.
std::string code_stamp(const std::string& stamp, const std::string& code_hash);

/// Whether a row is a configuration's own measurement, which a resumed sweep does not repeat. The further
/// rows of a finalist (sampling finalist, other_cache) and those of launch floors are not.
bool is_first_row(const CsvRow& row);

/// The hash that identifies a row: stamp, device, arch, driver, toolkit, problem, variant, config, cache.
/// `row` needs these columns only.
std::string key_of(const CsvRow& row, const std::string& stamp);

class Journal {
 public:
  /// Reads a journal without changing it; empty if there is none. Ignores an incomplete last line.
  static Journal read(const std::filesystem::path& path);
  /// Opens or creates it for writing, moves an incomplete last line to "PATH.cut", and locks it for the
  /// lifetime of this object. Throws InputError if another program holds the lock, or if the file ends in
  /// anything else than lines of a journal; the file then stays as it is.
  explicit Journal(std::filesystem::path path);

  /// Writes and fsyncs one line.
  void add(const std::string& run_id, const Stamps& stamps);
  const std::map<std::string, Stamps>& runs() const { return runs_; }
  /// rescue() of results/durable_file.h: one sentence if the file was deleted or moved away; else empty.
  std::string rescue() const;
  /// The key of a row; empty if its run is not in the journal.
  std::optional<std::string> key(const CsvRow& row) const;
  /// The key with the code hash in place of the source hash; empty if the row has no code hash.
  std::optional<std::string> code_key(const CsvRow& row) const;

 private:
  Journal() = default;
  std::string load();  // returns what follows the last complete line
  std::optional<std::string> stamp_of_row(const CsvRow& row) const;

  std::filesystem::path path_;
  OpenFile file_;
  std::map<std::string, Stamps> runs_;
};

}  // namespace warptune
