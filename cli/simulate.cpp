// warptune simulate RESULTS: search strategies on recorded exhaustive spaces.
#include "harness/search/simulate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "cli/commands.h"
#include "cli/options.h"
#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/exchange/recorded_json.h"
#include "harness/results/durable_file.h"
#include "harness/search/strategy.h"
#include "variants/table.h"

namespace warptune {
namespace {

std::vector<RecordedSpace> spaces_of(const std::filesystem::path& file, const std::string& pattern) {
  return file.extension() == ".json" ? recorded_json_spaces(ops(), file, pattern)
                                     : recorded_spaces(ops(), file, pattern);
}

}  // namespace

void add_simulate(CLI::App& app, int&) {
  auto* command = app.add_subcommand("simulate", "Simulates search strategies on recorded exhaustive spaces");
  command->footer(
      "Prints the best time found over the optimum (median, p10, p90 over seeds) by number of evaluations.\n"
      "Needs no device.\nExample:\n"
      "  warptune simulate results/h200/spaces.csv --strategy guided,random --seeds 100\n"
      "  warptune simulate convolution_A100.json --strategy guided,random --seeds 100\n"
      "  warptune simulate spaces.csv --at 8,16,40,15%");
  struct Given {
    std::vector<std::string> files, at;
    std::string problem;
    SimulateOptions options;
  };
  const auto given = std::make_shared<Given>();
  command
      ->add_option("RESULTS", given->files,
                   "The CSV of a sweep; or a .json: a cachefile of Kernel Tuner, or results in T4")
      ->required();
  command
      ->add_option("--strategy", given->options.strategies,
                   fmt::format("{}", fmt::join(strategy_names(), ", ")))
      ->delimiter(',')
      ->check(CLI::IsMember(strategy_names()));
  command->add_option("--seeds", given->options.seeds, "Runs per strategy, with the seeds 0, 1, ...")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_option("--budget", given->options.budget_pct, "Evaluations, percent of the space")
      ->transform([](std::string text) {
        if (!text.empty() && text.back() == '%') text.pop_back();
        return text;
      })
      ->check(within(0.1, 100.0))
      ->capture_default_str();
  command
      ->add_option("--at", given->at,
                   "One table of all spaces at these numbers of evaluations and percent: 8,16,40,15%")
      ->delimiter(',');
  command->add_option("--run", given->options.run, "The program of --strategy command");
  add_problem_filter(*command, given->problem);
  command->add_option("--ahead", given->options.ahead, "Proposals in flight, as with compile jobs")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_flag("--resources", given->options.resources,
                    "Tell strategies registers and occupancy of all configurations beforehand");
  command->add_option("--csv", given->options.csv, "Also write the table to this file");
  command->callback([given] {
    SimulateOptions& options = given->options;
    if (contains(options.strategies, "command") == options.run.empty())
      throw InputError("--run and --strategy command go together");
    for (const std::string& text : given->at) {
      options.at.push_back(parse_budget(text));
      if (options.at.back().unit == Budget::Unit::seconds)
        throw InputError("--at: '{}' is a time, and a simulation takes none", text);
    }
    if (!options.at.empty() && !options.csv.empty())
      throw InputError("--csv is for the table by percent; --at prints its table only");
    if (!options.csv.empty()) expect_writable(options.csv);
    std::vector<RecordedSpace> spaces;
    for (const std::string& file : given->files)
      std::ranges::move(spaces_of(file, given->problem), std::back_inserter(spaces));
    simulate(std::move(spaces), options);
  });
}

}  // namespace warptune
