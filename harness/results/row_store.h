#pragma once
// The rows of one sweep on one kind of device: the CSV, its journal, and what they already hold. Several
// threads may append.
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "results/csv.h"
#include "results/journal.h"
#include "results/sweep_row.h"

namespace warptune {

/// A configuration that was measured before.
struct KnownRow {
  std::string run_id;
  Measurement measurement;
};

class RowStore {
 public:
  /// Goes on with the newest of FOLDER/<sweep>.csv, <sweep>.2.csv, ...; `fresh`: begins the next one.
  RowStore(const std::filesystem::path& folder, const std::string& sweep, bool fresh);

  /// Must come before the run's first row.
  void begin(const std::string& run_id, const Stamps& stamps) { journal_->add(run_id, stamps); }
  /// Of the rows with this key that tried it or say that it is excluded: the last that is ok, or the last
  /// that tried it, or the last; nullptr where there is none.
  const KnownRow* known(const std::string& key) const;
  /// The newest row of its time as a finalist, or nullptr.
  const KnownRow* finalist(const std::string& key) const;
  /// Its samples go to the file beside.
  void append(const SweepRow& row);
  const std::filesystem::path& csv() const { return csv_->path(); }
  /// One sentence where the CSV ended in half a line, which is gone now; else empty.
  std::string note() const;

 private:
  std::unique_ptr<CsvFile> csv_, samples_;
  std::unique_ptr<Journal> journal_;
  std::map<std::string, KnownRow> known_, finalists_;
  std::mutex mutex_;
};

/// The newest of FOLDER/<sweep>.csv, <sweep>.2.csv, ... that exists, or the first; `fresh`: the next free
/// one.
std::filesystem::path rows_path(const std::filesystem::path& folder, const std::string& sweep, bool fresh);

}  // namespace warptune
