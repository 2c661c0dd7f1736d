// warptune merge OUT_A OUT_B -o OUT: joins the results of several nodes.
#include "harness/results/merge.h"

#include <fmt/format.h>

#include <memory>

#include "harness/cli/commands.h"
#include "variants/table.h"

namespace warptune {

void add_merge(CLI::App& app, int&) {
  auto* command =
      app.add_subcommand("merge", "Joins result folders: rows by key, the better winner of each problem");
  command->footer(
      "OUT may exist; what it holds is kept and joined with the rest.\n"
      "Example:\n  warptune merge results/shard-1 results/shard-2 -o results/all");
  struct Given {
    std::vector<std::string> inputs;
    std::string out;
  };
  const auto given = std::make_shared<Given>();
  command->add_option("FOLDER", given->inputs, "Folders that `tune --out` wrote")->required();
  command->add_option("-o,--out", given->out, "The joined folder")->required();
  command->callback([given] {
    const MergeCounts counts = merge_results(ops(), {given->inputs.begin(), given->inputs.end()}, given->out);
    fmt::print("{} rows in {} files ({} duplicates dropped), {} winners: {}\n", counts.rows, counts.files,
               counts.duplicates, counts.winners, given->out);
  });
}

}  // namespace warptune
