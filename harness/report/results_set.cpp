// The inputs of a report.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/core/json.h"
#include "harness/core/lookup.h"
#include "harness/report/summary.h"
#include "harness/results/csv.h"
#include "harness/results/sweep_file.h"
#include "harness/tune/protocol.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

class Reader {
 public:
  ResultsSet take() { return std::move(set_); }

  void read(const fs::path& path) {
    if (fs::is_directory(path)) {
      std::vector<fs::path> found;
      for (const auto& entry : fs::recursive_directory_iterator(path))
        if (const fs::path& file = entry.path();
            entry.is_regular_file() && file.extension() == ".csv" && file.stem().extension() != ".samples")
          found.push_back(file);
      std::ranges::sort(found);
      for (const fs::path& csv : found) read_file(csv);
    } else {
      if (!fs::exists(path)) throw InputError("'{}' does not exist", path.string());
      read_file(path);
    }
  }

 private:
  void read_file(const fs::path& path) {
    if (!seen_.insert(fs::weakly_canonical(path).string()).second) return;
    const auto columns = csv_columns(path);
    const auto add = [](std::vector<CsvRow>& to, const std::vector<CsvRow>& rows) {
      to.insert(to.end(), rows.begin(), rows.end());
    };
    if (contains(columns, "us_per_token")) {
      add(set_.decode, read_csv(path));
    } else if (looks_like_sweep(columns)) {
      auto rows = read_sweep(path);
      std::erase_if(rows, [](const CsvRow& row) { return is_launch_row(row) || is_step_row(row); });
      add(path.stem().string().find("peers") != std::string::npos ? set_.peers : set_.rows, rows);
    } else {
      set_.notes.push_back(
          fmt::format("left out: '{}' holds no rows of a sweep or of decode", path.string()));
      return;
    }
    read_beside(path.parent_path());
  }

  void read_beside(const fs::path& folder) {
    if (!folders_.insert(fs::weakly_canonical(folder).string()).second) return;
    for (const char* name : {"decode.csv", "torch_peers.csv"})
      if (fs::exists(folder / name)) read_file(folder / name);
    if (fs::exists(folder / "device.json")) try {
        const std::string name = fmt::format("'{}'", (folder / "device.json").string());
        set_.devices.push_back(
            facts_of(need_json(read_input(folder / "device.json", name, kMaxConfigBytes), name)));
      } catch (const InputError& e) {
        set_.notes.push_back(fmt::format("left out: {}", e.what()));
      } catch (const std::exception& e) {
        set_.notes.push_back(fmt::format("left out: '{}': {}", (folder / "device.json").string(), e.what()));
      }
    if (fs::exists(folder / "wisdom.json")) try {
        set_.wisdom.push_back(Wisdom::load(folder / "wisdom.json"));
      } catch (const InputError& e) {
        set_.notes.push_back(fmt::format("left out: {}", e.what()));
      }
  }

  ResultsSet set_;
  std::set<std::string> seen_, folders_;
};

}  // namespace

std::vector<RowRole> roles_of(const std::vector<CsvRow>& rows) {
  const auto problem_of = [](const CsvRow& row) {
    return std::pair(field(row, "device"), field(row, "problem"));
  };
  std::set<std::pair<std::string, std::string>> cold, hot;
  for (const CsvRow& row : rows)
    if (is_first_row(row) && field(row, "status") == "ok")
      (field(row, "cache") == "cold" ? cold : hot).insert(problem_of(row));
  std::vector<RowRole> roles;
  for (const CsvRow& row : rows) {
    const auto problem = problem_of(row);
    const char* shown = hot.contains(problem) && !cold.contains(problem) ? "hot" : "cold";
    roles.push_back(field(row, "cache") != shown ? RowRole::aside
                    : is_first_row(row)          ? RowRole::first
                                                 : RowRole::finalist);
  }
  return roles;
}

void add_history(ResultsSet& set, const fs::path& folder) {
  set.history = read_history(history_files(folder));
  try {
    set.changes = check_history(set.history, {});
  } catch (const InputError& e) {
    set.notes.push_back(fmt::format("no changes are marked: {}", e.what()));
  }
}

ResultsSet read_results(const std::vector<fs::path>& paths) {
  Reader reader;
  for (const fs::path& path : paths) reader.read(path);
  ResultsSet set = reader.take();
  if (set.rows.empty() && set.decode.empty())
    throw InputError("there is no row of a sweep or of decode in what was given{}",
                     set.notes.empty() ? "" : " (" + set.notes.front() + ")");
  return set;
}

}  // namespace warptune
