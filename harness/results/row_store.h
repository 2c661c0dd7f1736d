#pragma once
// The rows of one sweep on one kind of device: the CSV, its journal, and what they already hold. Several
// threads may append; a thread of its own writes, so that no device waits for the disk.
#include <condition_variable>
#include <deque>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "harness/results/csv.h"
#include "harness/results/journal.h"
#include "harness/results/sweep_row.h"

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
  /// The newest row that is not a configuration's first, or nullptr: a finalist's time, a launch floor.
  const KnownRow* later(const std::string& key) const;
  /// Its samples go to the file beside. Waits where the disk is several rows behind.
  /// Throws what went wrong with the rows before.
  void append(SweepRow row);
  /// Waits until all rows are on the disk; throws what went wrong with one of them.
  void flush();
  /// Whether there are rows with code hashes of a problem and variant, of whatever sources.
  bool has_code(const std::string& problem, const std::string& variant) const {
    return has_code_.contains({problem, variant});
  }
  const std::filesystem::path& csv() const { return csv_->path(); }
  /// One sentence where the CSV ended in half a line, which is gone now; else empty.
  std::string note() const { return csv_->note(); }

 private:
  std::unique_ptr<CsvFile> csv_, samples_;
  std::unique_ptr<Journal> journal_;
  std::map<std::string, KnownRow> known_, later_;           // by their keys, by source and by code
  std::set<std::pair<std::string, std::string>> has_code_;  // problems and variants

  void keep(const std::string& key, const KnownRow& row, bool is_first);
  void write_all(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<SweepRow> waiting_;  // the first is being written
  std::exception_ptr failed_;     // then nothing more is written
  std::jthread writer_;           // ends before the rest; writes first what is waiting
};

/// The newest of FOLDER/<sweep>.csv, <sweep>.2.csv, ... that exists, or the first; `fresh`: the next free
/// one.
std::filesystem::path rows_path(const std::filesystem::path& folder, const std::string& sweep, bool fresh);

}  // namespace warptune
