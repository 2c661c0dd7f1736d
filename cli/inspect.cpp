// warptune inspect CONFIG|--defaults --arch sm_80,sm_90a: compiles a sweep, or the tile table, without a GPU.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/options.h"
#include "harness/core/error.h"
#include "harness/tune/inspection.h"
#include "variants/table.h"
#include "variants/tile_table.h"

namespace warptune {

void add_inspect(CLI::App& app, int&) {
  auto* command = app.add_subcommand(
      "inspect",
      "Compiles the configurations of a sweep, or the defaults; prints registers, shared memory, spills, "
      "occupancy");
  command->footer(
      "Needs no GPU. Exits with 1 if a configuration does not compile.\n"
      "Examples:\n"
      "  warptune inspect configs/quick.yaml --arch sm_80,sm_90a\n"
      "  warptune inspect --defaults --arch sm_80\n"
      "  warptune inspect configs/llama2-7b.yaml --arch sm_90a --sample 4 --csv inspect.csv");
  struct Given {
    std::string config, csv;
    bool defaults = false;
    InspectOptions options;
  };
  const auto given = std::make_shared<Given>();
  auto* config = command->add_option("CONFIG", given->config, "The sweep, a YAML file");
  auto* defaults =
      command->add_flag("--defaults", given->defaults,
                        "The tile table, the defaults of devices without wisdom, on example problems");
  command
      ->add_option("--arch", given->options.archs,
                   "Architectures: sm_80, sm_90a, sm_100, sm_120; commas between them")
      ->required()
      ->delimiter(',');
  auto* filter = add_sweep_filter(*command, given->options.filter);
  auto* sample =
      command
          ->add_option("--sample", given->options.sample, "At most N configurations per problem and variant")
          ->check(CLI::Range(1, 1000000));
  auto* per_variant =
      command
          ->add_option("--per-variant", given->options.per_variant,
                       "At most N configurations per variant of the sweep, spread over its problems")
          ->check(CLI::Range(1, 1000000));
  add_jobs(*command, given->options.compile_jobs);
  auto* csv = command->add_option("--csv", given->csv, "Append a row per configuration to this file");
  for (auto* other : {config, filter, sample, per_variant, csv}) defaults->excludes(other);
  command->callback([given] {
    if (given->defaults) {
      if (const std::size_t bad = inspect_defaults(ops(), tile_examples(ops()), given->options.archs,
                                                   given->options.compile_jobs))
        throw CheckError(fmt::format("{} defaults do not compile or fit the device", bad));
      return;
    }
    if (given->config.empty()) throw InputError("inspect needs a sweep, or --defaults");
    given->options.csv = given->csv;
    if (const std::size_t errors = inspect_sweep(load_sweep(ops(), given->config), given->options))
      throw CheckError(fmt::format("{} configurations do not compile", errors));
  });
}

}  // namespace warptune
