// warptune inspect CONFIG --arch sm_80,sm_90a: compiles a sweep without a GPU.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "core/error.h"
#include "tune/inspection.h"

namespace warptune {

void add_inspect(CLI::App& app, int&) {
  auto* command = app.add_subcommand(
      "inspect",
      "Compiles every configuration of a sweep; prints registers, shared memory, spills, occupancy");
  command->footer(
      "Needs no GPU. Exits with 1 where a configuration does not compile.\n"
      "Examples:\n"
      "  warptune inspect configs/quick.yaml --arch sm_80,sm_90a\n"
      "  warptune inspect configs/llama2-7b.yaml --arch sm_90a --sample 4 --csv inspect.csv");
  struct Given {
    std::string config, csv;
    InspectOptions options;
  };
  const auto given = std::make_shared<Given>();
  command->add_option("CONFIG", given->config, "The sweep, a YAML file")->required();
  command
      ->add_option("--arch", given->options.archs, "Architectures: sm_80, sm_90, sm_90a; commas between them")
      ->required()
      ->delimiter(',');
  command->add_option("--filter", given->options.filter,
                      "Only variants whose op/variant holds this regular expression");
  command->add_option("--sample", given->options.sample, "At most N configurations per problem and variant")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--lanes", given->options.lanes, "Compile threads; by default all but one")
      ->check(CLI::Range(1, 1024));
  command->add_option("--csv", given->csv, "Append a row per configuration to this file");
  command->callback([given] {
    given->options.csv = given->csv;
    if (const std::size_t errors = inspect_sweep(load_sweep(given->config), given->options))
      throw CheckError(fmt::format("{} configurations do not compile", errors));
  });
}

}  // namespace warptune
