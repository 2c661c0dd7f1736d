// warptune tune CONFIG: runs a sweep.
#include "harness/tune/tune.h"

#include <fmt/format.h>

#include <map>
#include <memory>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/wisdom_in_use.h"
#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/core/text.h"
#include "harness/tune/schedule.h"
#include "variants/table.h"

namespace warptune {
namespace {

Status retry_status(const std::string& word) {
  try {
    const Status status = parse_status(word);
    if (status != Status::ok && status != Status::constraint) return status;
  } catch (const InputError&) {
  }
  throw InputError(
      "--retry does not take '{}'; it takes compile_error, resource, launch_error, wrong_result, "
      "timeout, crash, too_fast",
      word);
}

/// Seconds of "90s", "30m", "4h" or "2d".
double seconds_of(const std::string& text) {
  const std::map<char, double> units = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  const double* unit = text.empty() ? nullptr : find_value(units, text.back());
  const double value = unit ? parse_number<double>(text.substr(0, text.size() - 1)).value_or(0) : 0;
  if (!(value > 0 && value <= 1e6))
    throw InputError("--budget is '{}'; it must be a time such as 90s, 30m or 4h", brief(text));
  return value * *unit;
}

}  // namespace

void add_tune(CLI::App& app, int& exit_code) {
  auto* command =
      app.add_subcommand("tune", "Verifies and times every configuration of a sweep and keeps the winners");
  command->footer(
      "Writes OUT/<device>/<sweep>.csv (one row per configuration, docs/csv-schema.md) and\n"
      "OUT/<device>/wisdom.json (the winners). Exits with 1 if a problem has no correct configuration.\n"
      "A sweep that was stopped resumes: a configuration that has a row is not measured again.\n"
      "Examples:\n"
      "  warptune tune configs/quick.yaml\n"
      "  warptune tune configs/llama2-7b.yaml --device cuda:1 --out results --filter 'linear/'\n"
      "  warptune tune configs/quick.yaml --device host --dry-run\n"
      "  warptune tune configs/llama2-7b.yaml --dry-run --arch sm_90a");
  struct Given {
    std::string config, device, output, shard, budget, wisdom;
    std::vector<std::string> retry;
    bool dry_run = false;
    TuneOptions options;
    HistoryOption history;
  };
  const auto given = std::make_shared<Given>();
  command->add_option("CONFIG", given->config, "The sweep, a YAML file")->required();
  command->add_option("--device", given->device,
                      "auto (first GPU, else host), cuda:N, host, all (every GPU), or a list with commas; "
                      "instead of the sweep's");
  auto* as = command->add_option("--as", given->options.as, kAsHelp);
  command->add_option("--out", given->output, "Folder of the results, instead of the sweep's");
  add_sweep_filter(*command, given->options.filter);
  auto* dry = command->add_flag("--dry-run", given->dry_run,
                                "Print configurations, evaluations and an estimate of the time, and stop");
  command
      ->add_option("--arch", given->options.arch,
                   fmt::format("With --dry-run: a GPU that need not be present: {}", known_archs()))
      ->needs(dry)
      ->excludes(as);
  add_jobs(*command, given->options.compile_jobs);
  command
      ->add_option("--budget", given->budget,
                   "Time for the whole sweep, such as 30m: the problems with the largest share of their "
                   "model's step come first, and 'steps' get 40 % of it or more")
      ->excludes(dry);
  command
      ->add_option("--deadline", given->options.deadline.max_seconds,
                   "Seconds after which a configuration counts as hung; the best so far lowers it")
      ->check(within(0.1, 86400))
      ->capture_default_str();
  command
      ->add_option("--first-deadline", given->options.first_job_seconds,
                   "Extra seconds for the first configuration of a problem, which computes the reference")
      ->check(within(0, 86400))
      ->capture_default_str();
  command
      ->add_option("--compile-deadline", given->options.compile_seconds,
                   "Seconds after which a compilation times out")
      ->check(within(0.1, 86400))
      ->capture_default_str();
  command->add_flag("--fresh", given->options.fresh,
                    "Start a new CSV (SWEEP.2.csv, ...) instead of resuming the newest");
  command
      ->add_option(
          "--retry", given->retry,
          "Measure rows with these statuses again; a list with commas: timeout, crash, resource, ...")
      ->delimiter(',');
  command->add_option("--wisdom", given->wisdom,
                      "For a sweep with 'missing: true': the winners that are known (default: the files of "
                      "WARPTUNE_WISDOM, else OUT/<device>/wisdom.json)");
  command->add_option("--shard", given->shard, "I/N: only part I of N of the configurations, for N nodes");
  add_lock_clocks(*command, given->options.lock_clocks);
  given->history.add_to(*command);
  command->add_flag("-v,--verbose", given->options.verbose, "Also print where the time went");
  command->callback([given, &exit_code] {
    TuneOptions& options = given->options;
    given->history.expect_writable();
    if (!given->device.empty()) options.device = given->device;
    if (!given->output.empty()) options.output = given->output;
    for (const std::string& word : given->retry) options.retry.insert(retry_status(word));
    if (!given->budget.empty()) options.budget_seconds = seconds_of(given->budget);
    if (!given->shard.empty()) options.shard = parse_shard(given->shard);
    const Sweep sweep = load_sweep(ops(), given->config);
    if (!given->wisdom.empty() && !sweep.missing)
      throw InputError("--wisdom is for a sweep with 'missing: true', and '{}' has none", given->config);
    options.known = [&](const DeviceFacts& facts) {
      const auto folder = options.output.value_or(sweep.output) / facts.slug();
      return wisdom_in_use(given->wisdom, facts, folder / "wisdom.json").wisdom;
    };
    if (given->dry_run) return dry_run(sweep, options);
    const TuneSummary summary = tune(sweep, options);
    exit_code = summary.unsolved.empty() ? 0 : 1;
    given->history.add(summary.csv);
    for (const auto& csv : summary.other_csvs) given->history.add(csv);
  });
}

}  // namespace warptune
