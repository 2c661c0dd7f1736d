// warptune history: what was measured in each run, and since when a row is slower.
#include "harness/results/history.h"

#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/comparison_output.h"
#include "harness/core/error.h"
#include "harness/core/pattern.h"
#include "harness/core/print.h"
#include "harness/core/text_table.h"
#include "harness/results/sweep_file.h"
#include "variants/table.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;

struct HistoryArguments {
  std::string folder, row, before;
  std::vector<std::string> csvs;
  std::size_t keep = 0;
  HistoryOptions check;
  ComparisonOutput output;
};

std::string name_of(const TimedConfig& row) {
  return row.problem + " " + row.variant + (row.config.empty() ? "" : " ") + row.config;
}

std::vector<HistoryRun> runs_of(const HistoryArguments& given) {
  std::vector<HistoryRun> runs = read_history(history_files(given.folder));
  const Pattern wanted(given.row, "--row");
  for (HistoryRun& run : runs)
    std::erase_if(run.configs, [&](const TimedConfig& row) { return !wanted.is_in(name_of(row)); });
  return runs;
}

void add(const HistoryArguments& given) {
  for (const std::string& csv : given.csvs)
    for (const fs::path& file : add_to_history(given.folder, read_sweep(csv))) print("{}\n", file.string());
}

void list(const HistoryArguments& given) {
  TextTable table(
      {text_column("run"), text_column("commit"), text_column("device"), text_column("driver"), {"KiB"}});
  for (const HistoryFile& file : history_files(given.folder))
    table.add({file.run_id, file.commit, file.device, file.driver,
               fmt::format("{}", fs::file_size(file.path) / 1024)});
  print(stdout, table);
}

/// The label of a row without default dims; a step has no op in the table.
std::string label(const TimedConfig& row) {
  const OpEntry* entry = ops().find_if_known(row.op);
  return entry ? label_of(entry->op, row.problem) : row.problem;
}

void show(const HistoryArguments& given) {
  const std::vector<HistoryRun> runs = runs_of(given);
  std::vector<std::string> keys;  // in the order of their first runs
  std::map<std::string, std::vector<std::pair<const HistoryRun*, const TimedConfig*>>> points;
  for (const HistoryRun& run : runs)
    for (const TimedConfig& row : run.configs) {
      auto& list = points[row.key()];
      if (list.empty()) keys.push_back(row.key());
      list.emplace_back(&run, &row);
    }
  constexpr std::size_t kRowsInFull = 5;
  if (keys.size() <= kRowsInFull) {
    for (const std::string& key : keys) {
      const TimedConfig& row = *points[key].front().second;
      print("{} {} {} on {}\n", label(row), row.variant, row.config, row.device);
      TextTable table({text_column("run"),
                       text_column("commit"),
                       text_column("driver"),
                       text_column("card"),
                       {"us"},
                       {"runs"},
                       text_column("failure")});
      for (const auto& [run, config] : points[key])
        table.add({run->file.run_id, run->file.commit, run->file.driver, run->card.substr(0, 12),
                   known_number(config->time_us(), 3), fmt::format("{}", config->runs.size()),
                   config->failure});
      print(stdout, table);
    }
    return;
  }
  TextTable table({text_column("row"), {"runs"}, {"oldest us"}, {"least us"}, {"newest us"}});
  for (const std::string& key : keys) {
    double least = HUGE_VAL;
    for (const auto& [run, config] : points[key]) least = std::fmin(least, config->time_us());
    const TimedConfig& row = *points[key].back().second;
    table.add({label(row) + " " + row.variant, fmt::format("{}", points[key].size()),
               known_number(points[key].front().second->time_us(), 3), known_number(least, 3),
               known_number(row.time_us(), 3)});
  }
  print(stdout, table);
}

void prune(const HistoryArguments& given) {
  std::map<std::string, std::vector<HistoryFile>> by_device;  // the oldest first
  for (HistoryFile& file : history_files(given.folder)) by_device[file.device].push_back(std::move(file));
  for (const auto& [device, files] : by_device)
    for (std::size_t i = 0; i < files.size(); ++i) {
      const bool is_old = given.keep > 0 ? i + given.keep < files.size() : files[i].run_id < given.before;
      if (!is_old) continue;
      fs::remove(files[i].path);
      print("removed {}\n", files[i].path.string());
    }
}

int check(const HistoryArguments& given) {
  const TextOutput output = given.output.open({given.folder});
  const Comparison comparison = check_history(runs_of(given), given.check);
  output.write(given.output.formatted(comparison));
  if (comparison.matched == 0)
    print_error("no row of '{}' has the {} runs of {} processes that show a change", given.folder,
                2 * kMinRunsOfALevel, 2 * kMinProcessesOfALevel);
  return comparison.exit_code();
}

std::string is_date(const std::string& text) {
  static const Pattern date("[0-9]{8}(T[0-9]{6}Z)?", "a date");
  return date.matches(text) ? "" : fmt::format("'{}' is no date like 20261101", text);
}

}  // namespace

void add_history(CLI::App& app, int& exit_code) {
  CLI::App* history =
      app.add_subcommand("history", "The runs of a folder that --history of tune, rerun and decode fills");
  history->require_subcommand(1);
  history->footer(
      "A folder has one CSV per run, which no command changes later. docs/regression.md has the rules.\n"
      "Examples:\n"
      "  warptune rerun results/baseline/h200/wisdom.json --runs 3 --fresh --history history\n"
      "  warptune history show history --row 'rms_norm.*tokens=1,'\n"
      "  warptune history check history --since 20261101 --format markdown\n"
      "  warptune history prune history --keep 100");
  const auto given = std::make_shared<HistoryArguments>();
  const auto command = [&](const char* name, const char* what, void (*run)(const HistoryArguments&)) {
    CLI::App* added = history->add_subcommand(name, what);
    added->add_option("DIR", given->folder, "The folder")->required();
    if (run) added->callback([given, run] { run(*given); });
    return added;
  };
  const auto add_row = [&](CLI::App* added) {
    added->add_option("--row", given->row,
                      "A regular expression: only rows whose problem, variant and config match");
  };
  command("list", "Lists the runs", list);
  add_row(command("show", "Shows the rows of all runs; of five rows and fewer the time of each run", show));
  command("add", "Adds the runs of recorded CSVs", add)
      ->add_option("CSV", given->csvs, "CSVs of tune or rerun")
      ->required();
  CLI::App* removing = command("prune", "Removes old runs", nullptr);
  auto* keep = removing->add_option("--keep", given->keep, "Keep the newest so many files of each device")
                   ->check(CLI::Range(1, 1000000));
  removing->add_option("--before", given->before, "Remove the files before this date, like 20261101")
      ->check(is_date)
      ->excludes(keep);
  removing->callback([given] {
    if (given->keep == 0 && given->before.empty())
      throw InputError("history prune needs --keep N or --before DATE");
    prune(*given);
  });
  CLI::App* checking =
      command("check", "Finds since when a row is slower or faster, and what changed with it", nullptr);
  checking->footer(
      "Exits as compare does: with 1 if a row is slower since a change of code, toolkit or driver. Needs "
      "the\n"
      "Python package ruptures (scripts/setup.sh --python).");
  add_row(checking);
  checking->add_option("--since", given->check.since, "Earlier changes raise no alarm: a date like 20261101")
      ->check(is_date);
  add_test_options(*checking, given->check.compare);
  given->output.add_to(*checking);
  checking->callback([given, &exit_code] { exit_code = check(*given); });
}

}  // namespace warptune
