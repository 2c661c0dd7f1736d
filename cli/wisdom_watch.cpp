// warptune wisdom watch: the winners and steps that the regression gate times.

#include <memory>

#include "cli/commands.h"
#include "cli/output_option.h"
#include "harness/core/print.h"
#include "harness/results/watch.h"

namespace warptune {

void add_wisdom_watch(CLI::App& wisdom) {
  struct Given {
    std::string file;
    OutputOption output{"watched.json"};
    std::size_t per_variant = 3;
  };
  const auto given = std::make_shared<Given>();
  auto* command = wisdom.add_subcommand(
      "watch",
      "Writes the steps, and of each kernel the problems that take longest, for the regression gate");
  command->add_option("WISDOM", given->file, "wisdom.json")->required();
  given->output.add_to(*command, "The wisdom file to write; default watched.json");
  command->add_option("--per-kernel", given->per_variant, "Problems of each kernel (op/variant)")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command->callback([given] {
    const OutputKind kind{.name = "a wisdom", .is_earlier = [](std::string_view) { return false; }};
    const TextOutput output = given->output.open(kind, {given->file});
    const Watched watched = watched_part(Wisdom::load(given->file), given->per_variant);
    output.write(watched.wisdom.to_json());
    print("{}", Lines{summary_of(watched)});
  });
}

}  // namespace warptune
