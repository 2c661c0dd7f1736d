// warptune export-t4: the configurations of a problem in T4, for other autotuners.

#include <memory>

#include "cli/commands.h"
#include "cli/output_option.h"
#include "harness/exchange/t4.h"
#include "variants/table.h"

namespace warptune {

void add_export_t4(CLI::App& app, int&) {
  auto* command =
      app.add_subcommand("export-t4", "Writes the rows of a problem as T4 results for other autotuners");
  command->footer(
      "T4 is the JSON format for results of the auto-tuning methodology project; Kernel Tuner reads and "
      "writes it,\n"
      "and simulate reads it.\n"
      "Example:\n"
      "  warptune export-t4 results/h200/spaces.csv --problem 'linear.*out=4096' -o linear.json");
  struct Given {
    std::string csv, problem;
    OutputOption output;
  };
  const auto given = std::make_shared<Given>();
  command->add_option("RESULTS", given->csv, "The CSV of a sweep")->required();
  command->add_option(
      "--problem", given->problem,
      "The problem: a regular expression that matches one key; not needed for a CSV of one problem");
  given->output.add_to(*command, "The file; by default standard output");
  command->callback([given] {
    const TextOutput output = given->output.open(
        kind_that_begins("a T4 file", {"{\n \"schema_version\": \"1.0.0\",\n \"metadata\": "}), {given->csv});
    output.write(to_t4(ops(), given->csv, given->problem));
  });
}

}  // namespace warptune
