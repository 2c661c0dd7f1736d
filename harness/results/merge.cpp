#include "harness/results/merge.h"

#include <algorithm>
#include <map>
#include <string>

#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/results/csv.h"
#include "harness/results/durable_file.h"
#include "harness/results/journal.h"
#include "harness/results/sweep_file.h"
#include "harness/results/sweep_row.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

struct Table {
  std::vector<std::string> columns;
  std::vector<CsvRow> rows;
  std::set<std::string> keys;
  std::map<std::string, Stamps> runs;
};

/// The files to write, by their paths below the output folder.
struct Joined {
  std::map<fs::path, Table> tables;
  std::map<fs::path, Wisdom> wisdoms;
  std::map<fs::path, fs::path> copies;   // device facts: the first found
  std::map<fs::path, Journal> journals;  // locked journals of `out`, by the paths of their CSVs
  std::size_t duplicates = 0;
  std::set<RefusedWinner> refused;
};

/// The identity of a row: its key and status; all its fields for rows of finalists or without a key.
std::string identity(const CsvRow& row, const Journal& journal) {
  if (is_first_row(row))
    if (const auto key = journal.key(row)) return *key + ' ' + row.at("status");
  std::string text;
  for (const auto& [column, value] : row) text += value + '\n';
  return text;
}

void add_table(Joined& joined, const fs::path& file, const fs::path& name) {
  auto columns = csv_columns(file);
  if (!contains(columns, "run_id")) return;  // the file holds neither rows nor samples
  const bool sweep = looks_like_sweep(columns);
  if (sweep) columns = sweep_columns();  // files may lack newer ones
  Table& table = joined.tables[name];
  if (table.columns.empty()) table.columns = columns;
  if (table.columns != columns)
    throw InputError("{}:1: other columns than the same file of another folder", file.string());
  fs::path beside = file;
  beside.replace_extension(".journal");
  const Journal journal = Journal::read(beside);
  for (CsvRow& row : sweep ? read_sweep(file) : read_csv(file)) {
    if (table.keys.insert(identity(row, journal)).second)
      table.rows.push_back(std::move(row));
    else if (sweep)
      ++joined.duplicates;
  }
  table.runs.insert(journal.runs().begin(), journal.runs().end());
}

void add_wisdom(Joined& joined, const WinnerJudge& judge, const fs::path& file, const fs::path& name) {
  const Wisdom wisdom = Wisdom::load(file);
  const auto it = joined.wisdoms.try_emplace(name, wisdom.provenance()).first;
  const Provenance &a = it->second.provenance(), &b = wisdom.provenance();
  if (a.device != b.device || a.arch != b.arch || a.driver != b.driver || a.toolkit != b.toolkit)
    throw InputError(
        "the winners in '{}' are of {} with driver '{}' and toolkit '{}', others of {} with '{}' and '{}'; "
        "measure them again with one driver and toolkit",
        file.string(), b.device, b.driver, b.toolkit, a.device, a.driver, a.toolkit);
  WisdomMerge merge(judge, a);
  merge.add(it->second, wisdom);
  joined.refused.insert(merge.refused().begin(), merge.refused().end());
}

/// The files of the device folders in a folder, sorted.
std::vector<fs::path> result_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& device : fs::directory_iterator(folder)) {
    if (!device.is_directory()) continue;
    for (const auto& file : fs::directory_iterator(device.path())) files.push_back(file.path());
  }
  std::ranges::sort(files);
  return files;
}

void add_folder(Joined& joined, const WinnerJudge& judge, const fs::path& folder) {
  for (const fs::path& file : result_files(folder)) {
    const fs::path name = file.parent_path().filename() / file.filename();
    if (file.extension() == ".csv")
      add_table(joined, file, name);
    else if (file.filename() == "wisdom.json")
      add_wisdom(joined, judge, file, name);
    else if (file.filename() == "device.json")
      joined.copies.try_emplace(name, file);
  }
}

/// Throws InputError where a CSV without rows of this program would be replaced: it is not among the inputs.
void expect_rows(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error) || fs::is_empty(file, error)) return;
  const auto columns = csv_columns(file);
  if (!contains(columns, "run_id"))
    throw InputError("'{}' holds no rows of this program; move it away, or choose another output",
                     file.string());
}

/// Locks the journals before the rows are read. The locks are held until the files are replaced, so that a
/// running sweep loses no rows.
void lock_journals(Joined& joined, const fs::path& out) {
  if (!fs::is_directory(out)) return;
  for (const fs::path& file : result_files(out)) {
    if (file.extension() != ".journal") continue;
    const fs::path table = file.parent_path().filename() / file.filename().replace_extension(".csv");
    joined.journals.emplace(table, Journal(file));
  }
}

}  // namespace

MergeCounts merge_results(const WinnerJudge& judge, const std::vector<fs::path>& inputs,
                          const fs::path& out) {
  std::vector<fs::path> folders = inputs;
  for (const fs::path& folder : folders)
    if (!fs::is_directory(folder)) throw InputError("'{}' is not a folder", folder.string());
  expect_writable(out);
  std::error_code error;
  if (fs::is_directory(out) &&
      std::ranges::none_of(folders, [&](const fs::path& f) { return fs::equivalent(f, out, error); }))
    folders.insert(folders.begin(), out);
  Joined joined;
  lock_journals(joined, out);
  for (const fs::path& folder : folders) add_folder(joined, judge, folder);
  if (joined.tables.empty() && joined.wisdoms.empty())
    throw InputError("the folders hold no results: a folder of results is what 'tune --out' wrote");

  for (const auto& [name, table] : joined.tables) {
    expect_rows(out / name);
    expect_writable((out / name).parent_path());
  }
  for (const auto& [name, wisdom] : joined.wisdoms) expect_writable((out / name).parent_path());
  MergeCounts counts{.duplicates = joined.duplicates, .refused = joined.refused};
  for (const auto& [name, table] : joined.tables) {
    const fs::path path = out / name;
    if (!table.runs.empty()) {
      fs::path beside = path;
      const auto journal = joined.journals.try_emplace(name, beside.replace_extension(".journal")).first;
      for (const auto& [run, stamps] : table.runs)  // before the rows whose keys it holds
        if (!journal->second.runs().contains(run)) journal->second.add(run, stamps);
    }
    write_csv(path, table.columns, table.rows);
    if (!looks_like_sweep(table.columns)) continue;
    ++counts.files;
    counts.rows += table.rows.size();
  }
  for (const auto& [name, wisdom] : joined.wisdoms) {
    wisdom.save(out / name);
    counts.winners += wisdom.winners().size();
  }
  for (const auto& [name, from] : joined.copies)
    if (!fs::exists(out / name)) fs::copy_file(from, out / name, error);
  return counts;
}

}  // namespace warptune
