// warptune wisdom show|export: looks at the winners, or hands them to other programs.
#include "harness/results/wisdom.h"

#include <fmt/format.h>

#include <fstream>
#include <memory>

#include "harness/cli/commands.h"
#include "harness/core/error.h"
#include "harness/results/durable_file.h"
#include "harness/results/wisdom_export.h"
#include "variants/table.h"

namespace warptune {
namespace {

struct Given {
  std::string file, format = "json", output;
};

void show_wisdom(const std::string& file) {
  const Wisdom wisdom = Wisdom::load(file);
  for (const std::string& sentence : unknown_winners(ops(), wisdom))
    fmt::print(stderr, "warptune: {}\n", sentence);
  fmt::print("{}", to_table(wisdom));
}

void export_wisdom(const Given& given) {
  if (!given.output.empty()) expect_writable(given.output);
  const Wisdom wisdom = Wisdom::load(given.file);
  if (const auto unknown = unknown_winners(ops(), wisdom); !unknown.empty())
    throw InputError(fmt::format("'{}' is not exported: {}", given.file, unknown.front()));
  if (given.format == "json") {
    if (given.output.empty())
      fmt::print("{}", wisdom.to_json());
    else
      wisdom.save(given.output);
    return;
  }
  const std::string header = to_header(wisdom);
  if (given.output.empty()) {
    fmt::print("{}", header);
    return;
  }
  std::ofstream out(given.output);
  out << header;
  if (!out.flush()) throw InputError(fmt::format("'{}' cannot be written", given.output));
}

}  // namespace

void add_wisdom(CLI::App& app, int&) {
  auto* command = app.add_subcommand("wisdom", "Shows or exports the winners of a wisdom file");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  warptune wisdom show results/h200/wisdom.json\n"
      "  warptune wisdom export results/h200/wisdom.json --format header -o warptune_wisdom.h");
  const auto given = std::make_shared<Given>();
  auto* show = command->add_subcommand("show", "Prints a table of the winners");
  show->add_option("WISDOM", given->file, "wisdom.json")->required();
  show->callback([given] { show_wisdom(given->file); });
  auto* save = command->add_subcommand("export", "Writes the winners for another program");
  save->add_option("WISDOM", given->file, "wisdom.json")->required();
  save->add_option("--format", given->format, "json, or header: a C++17 header without dependencies")
      ->check(CLI::IsMember({"json", "header"}))
      ->capture_default_str();
  save->add_option("-o,--output", given->output, "The file; by default standard output");
  save->callback([given] { export_wisdom(*given); });
}

}  // namespace warptune
