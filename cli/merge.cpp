// warptune merge OUT_A OUT_B -o OUT: merges the results of several nodes.
#include "harness/results/merge.h"

#include <memory>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/wisdom_in_use.h"
#include "harness/core/print.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

/// The devices of result folders; those of the output count first.
std::vector<DeviceFacts> devices_in(const fs::path& out, const std::vector<fs::path>& folders) {
  std::vector<fs::path> wisdoms;
  std::error_code error;
  const auto add = [&](const fs::path& folder) {
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
      wisdoms.push_back(it->path() / "wisdom.json");
  };
  add(out);
  for (const fs::path& folder : folders) add(folder);
  return devices_beside(wisdoms);
}

}  // namespace

void add_merge(CLI::App& app, int&) {
  auto* command =
      app.add_subcommand("merge", "Merges result folders: rows by key, the better winner of each problem");
  command->footer(
      "OUT may exist; its results are kept and merged with the others.\n"
      "Example:\n  warptune merge results/shard-1 results/shard-2 -o results/all");
  struct Given {
    std::vector<std::string> inputs;
    std::string out;
    KernelOption kernels;
  };
  const auto given = std::make_shared<Given>();
  command->add_option("FOLDER", given->inputs, "Folders that `tune --out` wrote")->required();
  command->add_option("-o,--out", given->out, "The merged folder")->required();
  given->kernels.add_to(*command);
  command->callback([given] {
    const std::vector<fs::path> folders(given->inputs.begin(), given->inputs.end());
    const MergeCounts counts =
        merge_results({given->kernels.ops(), devices_in(given->out, folders)}, folders, given->out);
    print_refused(counts.refused);
    print("{} rows in {} files ({} duplicates dropped), {} winners: {}\n", counts.rows, counts.files,
          counts.duplicates, counts.winners, given->out);
  });
}

}  // namespace warptune
