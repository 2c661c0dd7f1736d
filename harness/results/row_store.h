#pragma once
// The rows of one sweep on one kind of device: the CSV, its journal, and the rows of earlier runs. Several
// threads may append; a writer thread writes, so that no device waits for the disk.
#include <array>
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

/// The row of a configuration that is already measured.
struct KnownRow {
  std::string run_id;
  Measurement measurement;
  int rows = 1;  // rows with its key: one per run of `rerun`
};

class RowStore {
 public:
  /// Continues the newest of FOLDER/<sweep>.csv, <sweep>.2.csv, ...; `fresh`: begins the next one.
  RowStore(const std::filesystem::path& folder, const std::string& sweep, bool fresh);

  /// Call before the first row of a run.
  void begin(const std::string& run_id, const Stamps& stamps) { journal_->add(run_id, stamps); }
  /// The first measurement with this key: the last ok row, else the last row of a configuration that was
  /// tried, else the last row of an excluded one; nullptr if there is none.
  const KnownRow* known(const std::string& key) const;
  /// The newest row with this key that is no first measurement (a finalist's time, a launch floor), or
  /// nullptr.
  const KnownRow* later(const std::string& key) const;
  /// The newest row with this key of a fresh process, or nullptr.
  const KnownRow* in_fresh_process(const std::string& key) const;
  /// Queues a row; its samples go to the samples file. Waits while the queue is full. Throws the error of an
  /// earlier row.
  void append(SweepRow row);
  /// Waits until all rows are on the disk; throws the error of a row. Throws std::runtime_error that names
  /// the folder where a file was deleted or moved away; what a deleted one held is written anew.
  void flush();
  /// Whether a configuration has a row with a code hash, from any version of the sources.
  bool has_code(const std::string& problem, const std::string& variant, const std::string& config) const {
    return has_code_.contains({problem, variant, config});
  }
  const std::filesystem::path& csv() const { return csv_->path(); }
  /// One sentence if an incomplete last line of the CSV was moved; else empty.
  std::string note() const { return csv_->note(); }

 private:
  std::unique_ptr<CsvFile> csv_, samples_;
  std::unique_ptr<Journal> journal_;
  std::map<std::string, KnownRow> known_, later_, fresh_;  // by source key and by code key
  std::set<std::array<std::string, 3>> has_code_;          // problem, variant, configuration

  void keep(const std::string& key, const KnownRow& row, bool is_first);
  void write_all(const std::stop_token& stop);
  void expect_files() const;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<SweepRow> waiting_;  // the writer works on the first
  std::exception_ptr failed_;     // once set, the writer stops writing
  std::jthread writer_;           // destroyed first: writes the waiting rows
};

/// The newest existing file of FOLDER/<sweep>.csv, <sweep>.2.csv, ..., or the first; `fresh`: the next free
/// one.
std::filesystem::path rows_path(const std::filesystem::path& folder, const std::string& sweep, bool fresh);

}  // namespace warptune
