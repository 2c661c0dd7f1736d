#include "results/row_store.h"

#include <fmt/format.h>

#include "core/error.h"
#include "results/sweep_row.h"

namespace warptune {
namespace fs = std::filesystem;

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
  csv_ = std::make_unique<CsvFile>(path, sweep_columns());
  journal_ = std::make_unique<Journal>(journal);
  if (journal_->runs().empty()) return;
  for (const CsvRow& row : read_csv(path)) {
    if (!is_first_row(row)) continue;
    if (const auto key = journal_->key(row))
      known_.try_emplace(*key, KnownRow{row.at("run_id"), measurement_of_row(row)});
  }
}

const KnownRow* RowStore::known(const std::string& key) const {
  const auto it = known_.find(key);
  return it == known_.end() ? nullptr : &it->second;
}

void RowStore::append(const std::vector<std::string>& fields) {
  const std::lock_guard lock(mutex_);
  csv_->append(fields);
}

std::string RowStore::note() const {
  if (csv_->cut_bytes() == 0) return {};
  return fmt::format("'{}' ended in half a line ({} bytes), which was cut off", csv_->path().string(),
                     csv_->cut_bytes());
}

}  // namespace warptune
