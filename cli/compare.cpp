// warptune compare BASE.csv NEW.csv: finds rows that became faster or slower.
#include "harness/results/compare.h"

#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/comparison_output.h"
#include "cli/options.h"
#include "harness/core/print.h"
#include "harness/tune/confirm.h"

namespace warptune {
namespace {

struct CompareArguments {
  std::string base, now;
  std::string wisdom, base_program, device = "auto", confirm_out;
  std::vector<std::string> models;
  int confirm_runs = ConfirmOptions{}.runs;
  CompareOptions options;
  ComparisonOutput output;
};

Comparison confirm(const Comparison& comparison, const CompareArguments& given) {
  const ConfirmOptions options{.runs = given.confirm_runs,
                               .base_program = given.base_program,
                               .device = given.device,
                               .models = given.models,
                               .output = given.confirm_out.empty()
                                             ? std::filesystem::path(given.now).parent_path()
                                             : std::filesystem::path(given.confirm_out)};
  return confirm(comparison, Wisdom::load(given.wisdom), options);
}

int run_compare(CompareArguments& given) {
  const TextOutput output = given.output.open({given.base, given.now, given.wisdom});
  Comparison comparison =
      compare(read_timed_configs(given.base), read_timed_configs(given.now), given.options);
  if (!given.wisdom.empty()) comparison = confirm(comparison, given);
  output.write(given.output.formatted(comparison));
  if (comparison.matched == 0)
    print_error(
        "no row of '{}' that decides is in '{}' (device, problem, variant, config, cache); "
        "--all-rows prints the others",
        given.base, given.now);
  return comparison.exit_code();
}

}  // namespace

void add_compare(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("compare", "Finds the rows of a sweep that became faster or slower");
  command->footer(
      "Exits with 1 if a row is slower, with 3 if fewer than half of the rows could be judged, with 2 if a "
      "row\n"
      "is missing or none match, else with 0. Rows of rerun decide, and winners and finalists of tune; times "
      "of\n"
      "the screening do not. docs/regression.md has the rules.\n"
      "The weekly gate (scripts/regress.sh does it):\n"
      "  warptune rerun results/baseline/h200/wisdom.json --runs 3 --name regress --out out --fresh\n"
      "  warptune compare results/baseline/h200/regress.csv out/h200/regress.csv \\\n"
      "    --confirm results/baseline/h200/wisdom.json\n"
      "Two sweeps:\n"
      "  warptune compare base/h200/quick.csv results/h200/quick.csv --format markdown -o changes.md");
  const auto given = std::make_shared<CompareArguments>();
  command->add_option("BASE", given->base, "The CSV of the earlier run")->required();
  command->add_option("NEW", given->now, "The CSV of the new run")->required();
  add_test_options(*command, given->options);
  command->add_flag("--all-rows", given->options.all_rows,
                    "Also print rows that do not decide: screened, abandoned, other cache states");
  command->add_flag("--interleaved", given->options.interleaved,
                    "The runs of BASE and NEW were interleaved: recordings do not drift apart");
  auto* wisdom =
      command->add_option("--confirm", given->wisdom,
                          "Time rows that seem slower again before they count: the winners, a wisdom.json");
  command
      ->add_option("--base-program", given->base_program,
                   "With --confirm: the warptune of the base, timed interleaved with this one")
      ->check(CLI::ExistingFile)
      ->needs(wisdom);
  command->add_option("--confirm-runs", given->confirm_runs, "With --confirm: runs of each program")
      ->check(CLI::Range(2, 1000))
      ->needs(wisdom)
      ->capture_default_str();
  command
      ->add_option("--confirm-out", given->confirm_out,
                   "With --confirm: folder of the rows; by default NEW's")
      ->needs(wisdom);
  command
      ->add_option("--model", given->models,
                   "With --confirm: folder of a checkpoint whose steps are among the rows; may be repeated")
      ->allow_extra_args(false)
      ->needs(wisdom);
  command
      ->add_option("--device", given->device, "With --confirm: auto (first GPU, else host), cuda:N or host")
      ->needs(wisdom)
      ->capture_default_str();
  given->output.add_to(*command);
  command->callback([given, &exit_code] { exit_code = run_compare(*given); });
}

}  // namespace warptune
