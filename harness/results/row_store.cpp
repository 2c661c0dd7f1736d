#include "harness/results/row_store.h"

#include <fmt/format.h>

#include "harness/core/error.h"
#include "harness/results/sweep_file.h"

namespace warptune {
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMaxWaiting = 8;  // rows that a kill may lose; the next run measures them again

/// The row with the higher rank counts for a configuration; of equals the later.
int rank(const Measurement& m) { return m.status == Status::ok ? 2 : m.status == Status::constraint ? 0 : 1; }

/// Adds missing newer columns to an older CSV, so that rows can be appended to it.
void add_newer_columns(const fs::path& csv) {
  if (!fs::exists(csv)) return;
  const auto columns = csv_columns(csv);
  if (columns.size() >= sweep_columns().size() || !looks_like_sweep(columns)) return;
  write_csv(csv, sweep_columns(), read_sweep(csv));
}

}  // namespace

fs::path rows_path(const fs::path& folder, const std::string& sweep, bool fresh) {
  fs::path newest = folder / (sweep + ".csv");
  if (!fs::exists(newest)) return newest;
  for (int number = 2;; ++number) {
    fs::path next = folder / fmt::format("{}.{}.csv", sweep, number);
    if (!fs::exists(next)) return fresh ? next : newest;
    newest = std::move(next);
  }
}

RowStore::RowStore(const fs::path& folder, const std::string& sweep, bool fresh) {
  const fs::path path = rows_path(folder, sweep, fresh);
  fs::path journal = path;
  journal.replace_extension(".journal");
  journal_ = std::make_unique<Journal>(journal);  // first: its lock protects the CSV
  add_newer_columns(path);
  csv_ = std::make_unique<CsvFile>(path, sweep_columns());
  samples_ = std::make_unique<CsvFile>(samples_path(path), samples_columns());
  writer_ = std::jthread([this](const std::stop_token& stop) { write_all(stop); });
  for (const CsvRow& row : read_sweep(path)) {
    const KnownRow found{row.at("run_id"), measurement_of_row(row)};
    for (const auto& key : {journal_->key(row), journal_->code_key(row)})
      if (key) keep(*key, found, is_first_row(row));
    if (!row.at("code_hash").empty())
      has_code_.insert({row.at("problem"), row.at("variant"), row.at("config")});
  }
}

void RowStore::keep(const std::string& key, const KnownRow& row, bool is_first) {
  const bool is_fresh = row.measurement.sampling == SamplingClass::fresh_process;
  const auto [it, is_new] = (is_first ? known_ : is_fresh ? fresh_ : later_).try_emplace(key, row);
  if (is_new) return;
  const int rows = it->second.rows + 1;
  if (!is_first || rank(row.measurement) >= rank(it->second.measurement)) it->second = row;
  it->second.rows = rows;
}

const KnownRow* RowStore::known(const std::string& key) const { return find_value(known_, key); }

const KnownRow* RowStore::later(const std::string& key) const { return find_value(later_, key); }

const KnownRow* RowStore::in_fresh_process(const std::string& key) const { return find_value(fresh_, key); }

void RowStore::append(SweepRow row) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_.size() < kMaxWaiting || failed_; });
    if (failed_) std::rethrow_exception(failed_);
    waiting_.push_back(std::move(row));
  }
  changed_.notify_all();
}

void RowStore::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.empty() || failed_; });
  if (!failed_) try {
      expect_files();
    } catch (const std::runtime_error&) {
      failed_ = std::current_exception();
    }
  if (failed_) std::rethrow_exception(failed_);
}

/// The journal first: without it the rows have no keys.
void RowStore::expect_files() const {
  std::string lost;
  for (const std::string& sentence : {journal_->rescue(), samples_->rescue(), csv_->rescue()})
    if (!sentence.empty()) lost = sentence;
  if (lost.empty()) return;
  throw TextError("the results in '{}' are not as this sweep left them: {}",
                  csv_->path().parent_path().string(), lost);
}

void RowStore::write_all(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return !waiting_.empty(); }) && !failed_) {
    const SweepRow& row = waiting_.front();  // push_back does not move it
    lock.unlock();
    std::exception_ptr failed;
    try {
      if (!row.measurement.samples_us.empty())
        samples_->append(samples_fields(row));  // first, so that every row has its samples
      csv_->append(fields_of(row));
      expect_files();
    } catch (...) {
      failed = std::current_exception();
    }
    lock.lock();
    failed_ = failed;
    if (!failed_) waiting_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace warptune
