// warptune inspect CONFIG|--defaults|--rows CSV --arch sm_80,sm_90a: compiles a sweep, or the tile table, or
// evaluates the constraints of recorded configurations, without a GPU.
#include <fmt/format.h>

#include <map>
#include <memory>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/profile_target.h"
#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/core/print.h"
#include "harness/core/space.h"
#include "harness/results/csv.h"
#include "harness/tune/inspection.h"
#include "variants/table.h"
#include "variants/tile_table.h"

namespace warptune {
namespace {

/// Prints FILE:LINE and the reason for each row of a CSV whose configuration the architecture excludes.
/// Returns their number. The columns problem, variant and config are those of the CSV of a sweep.
std::size_t print_excluded_rows(const std::string& csv, const DeviceFacts& facts) {
  const auto columns = csv_columns(csv);
  for (const char* name : {"problem", "variant", "config"})
    if (!contains(columns, name)) throw InputError("{}:1: there is no column '{}'", csv, name);
  std::size_t rows = 0, excluded = 0;
  std::map<std::string, Space> spaces;
  const auto why_excluded = [&](const std::string& key, const std::string& name, const std::string& config) {
    const Problem problem = problem_of(ops(), key, "");
    const Variant& variant = ops().find(problem.op).variant(name);
    auto space = spaces.find(key + name);
    if (space == spaces.end()) space = spaces.try_emplace(key + name, variant, problem, facts).first;
    return space->second.why_excluded(parse_config(variant, config));
  };
  for_each_row(csv, [&](int line, const std::map<std::string, std::string>& row) {
    ++rows;
    std::string why;
    try {
      why = why_excluded(row.at("problem"), row.at("variant"), row.at("config"));
    } catch (const InputError& error) {
      why = error.what();
    }
    if (why.empty()) return;
    ++excluded;
    print("{}:{}: {} {}: {}\n", csv, line, row.at("problem"), row.at("variant"), why);
  });
  print("{} of {} rows are excluded on {}\n", excluded, rows, facts.arch);
  return excluded;
}

}  // namespace

void add_inspect(CLI::App& app, int&) {
  auto* command = app.add_subcommand(
      "inspect",
      "Compiles the configurations of a sweep, or the defaults; prints registers, shared memory, spills, "
      "occupancy");
  command->footer(
      "Needs no GPU. Exits with 1 if a configuration does not compile, or a row of --rows is excluded.\n"
      "Examples:\n"
      "  warptune inspect configs/quick.yaml --arch sm_80,sm_90a\n"
      "  warptune inspect --defaults --arch sm_80\n"
      "  warptune inspect --rows results/a100/predicted.csv --arch sm_80\n"
      "  warptune inspect configs/llama2-7b.yaml --arch sm_90a --sample 4 --csv inspect.csv");
  struct Given {
    std::string config, csv, rows;
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
                   fmt::format("Architectures, commas between them: {}", known_archs()))
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
  auto* rows = command->add_option("--rows", given->rows,
                                   "A CSV with problems, variants and configurations: only evaluates their "
                                   "constraints, prints the rows that the architecture excludes");
  for (auto* other : {config, filter, sample, per_variant, csv, rows}) defaults->excludes(other);
  for (auto* other : {config, filter, sample, per_variant, csv}) rows->excludes(other);
  command->callback([given] {
    if (given->defaults) {
      if (const std::size_t bad = inspect_defaults(ops(), tile_examples(ops()), given->options.archs,
                                                   given->options.compile_jobs))
        throw CheckError("{} defaults do not compile or fit the device", bad);
      return;
    }
    if (!given->rows.empty()) {
      std::size_t excluded = 0;
      for (const std::string& arch : given->options.archs)
        excluded += print_excluded_rows(given->rows, known_device(arch));
      if (excluded) throw CheckError("{} rows are excluded", excluded);
      return;
    }
    if (given->config.empty()) throw InputError("inspect needs a sweep, --defaults or --rows");
    given->options.csv = given->csv;
    if (const std::size_t errors = inspect_sweep(load_sweep(ops(), given->config), given->options))
      throw CheckError("{} configurations do not compile", errors);
  });
}

}  // namespace warptune
