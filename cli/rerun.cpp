// warptune rerun WISDOM: verifies and times the winners alone, to compare with an earlier run.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/wisdom_in_use.h"
#include "harness/core/print.h"
#include "harness/measure/statistics.h"
#include "harness/results/sweep_file.h"
#include "harness/tune/tune.h"
#include "harness/tune/winners_sweep.h"

namespace warptune {
namespace {

std::string names_a_file(const std::string& name) {
  const std::string fault = fault_of_sweep_name(name);
  return fault.empty() ? fault : fmt::format("'{}' cannot name the CSV: {}", name, fault);
}

}  // namespace

void add_rerun(CLI::App& app, int& exit_code) {
  auto* command =
      app.add_subcommand("rerun", "Verifies and times the winners and steps of a wisdom file, and only them");
  command->footer(
      "Writes OUT/<device>/<name>.csv as tune does, one row per winner, step and run. Replaces no winner in "
      "the wisdom\n"
      "of OUT. Several runs show how far equal runs differ, which compare needs to judge small changes.\n"
      "What was stopped resumes: a winner with a row per run is not timed again; --fresh starts a new CSV.\n"
      "Exits with 1 if a winner is not correct any more.\n"
      "Example:\n"
      "  warptune rerun results/baseline/h200/wisdom.json --runs 3 --name regress --out out");
  struct Given {
    std::string wisdom, problem, name = "regress", device = "auto", output = "results";
    std::vector<std::string> models;
    int runs = 1;
    bool fresh = false;
    std::optional<ClockRequest> lock_clocks;
    BenchOptions bench{.min_samples = 21};
    KernelOption kernels;
    HistoryOption history;
  };
  const auto given = std::make_shared<Given>();
  command->add_option("WISDOM", given->wisdom,
                      "The winners, a wisdom.json; default: the files of WARPTUNE_WISDOM");
  add_problem_filter(*command, given->problem);
  command
      ->add_option("--model", given->models,
                   "Folder of a checkpoint whose steps the wisdom has; may be repeated. Presets need none")
      ->allow_extra_args(false);
  command->add_option("--name", given->name, "Name of the CSV")->check(names_a_file)->capture_default_str();
  add_device(*command, given->device);
  add_as(*command, given->device);
  command->add_option("--out", given->output, "Folder of the results")->capture_default_str();
  command
      ->add_option("--min-samples", given->bench.min_samples,
                   "Samples of each winner, at least; fewer than 6 give no 95 % interval")
      ->check(CLI::Range(kMinSamplesForInterval, 10000))
      ->capture_default_str();
  command->add_option("--runs", given->runs, "Times each winner in this many runs, each in a new process")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--fresh", given->fresh,
                    "Start a new CSV (NAME.2.csv, ...) instead of resuming the newest");
  given->history.add_to(*command);
  given->kernels.add_to(*command);
  add_lock_clocks(*command, given->lock_clocks);
  command->callback([given, &exit_code] {
    given->history.expect_writable();
    std::vector<std::string> left_out;
    const Wisdom wisdom = required_wisdom(given->wisdom, given->device, "WISDOM").wisdom;
    const OpTable& ops = given->kernels.ops();
    const auto steps = steps_of(ops, wisdom, given->problem);
    Sweep sweep = winners_sweep(ops, winners_of(ops, wisdom, given->problem, !steps.empty()), given->name,
                                given->bench, left_out);
    add_steps(sweep, steps, given->models, left_out);
    sweep.kernels = given->kernels.files_as_read();
    for (const std::string& sentence : left_out) print_error("skips " + sentence);
    sweep.device = given->device;
    sweep.output = given->output;
    for (int run = 1; run <= given->runs; ++run) {
      TuneOptions options;
      options.rerun = run;
      options.lock_clocks = given->lock_clocks;
      options.fresh = given->fresh && run == 1;
      if (given->runs > 1) print("run {} of {}\n", run, given->runs);
      const TuneSummary summary = tune(sweep, options);
      if (!summary.unsolved.empty()) exit_code = 1;
      given->history.add(summary.csv);
    }
  });
}

}  // namespace warptune
