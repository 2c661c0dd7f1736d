#include "cli/history_option.h"

#include <fmt/format.h>

#include "harness/core/error.h"
#include "harness/core/print.h"
#include "harness/results/history.h"
#include "harness/results/sweep_file.h"

namespace warptune {

void HistoryOption::add_to(CLI::App& command) {
  command.add_option("--history", folder_,
                     "Folder that keeps the rows of each run in a file of its own, which `history` reads");
}

void HistoryOption::expect_writable() const {
  if (!is_given()) return;
  if (std::filesystem::exists(folder_) && !std::filesystem::is_directory(folder_))
    throw InputError(fmt::format("--history is '{}', which is no folder", folder_));
  warptune::expect_writable(std::filesystem::path(folder_) / "run.csv");
}

void HistoryOption::add(const std::filesystem::path& csv) const {
  if (is_given()) add(read_sweep(csv));
}

void HistoryOption::add(std::vector<CsvRow> rows) const {
  if (!is_given()) return;
  for (const auto& file : add_to_history(folder_, std::move(rows))) print("history: {}\n", file.string());
}

}  // namespace warptune
