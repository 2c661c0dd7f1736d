// warptune bisect: finds the commit that made a row slower. The search is Python's
// (python/src/warptune/bisect).
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "harness/core/python_process.h"

namespace warptune {

void add_bisect(CLI::App& app, int&) {
  auto* command = app.add_subcommand("bisect", "Finds the commit since which a row is slower");
  command->footer(
      "Builds commits between the two, times the row with each program and the good one interleaved, and "
      "names the\n"
      "first commit that has most of the slowdown. Builds and times are kept in the folder of --work: a "
      "search that\n"
      "was stopped goes on. Commits that do not build are skipped. Exits with 0 if it names a commit, with 1 "
      "if the\n"
      "row did not change, with 3 if the commits that are left do not build.\n"
      "Example:\n"
      "  warptune bisect --good v1.0 --bad main --wisdom results/baseline/h200/wisdom.json \\\n"
      "    --row 'rms_norm[tokens=1,hidden=4096,dtype=bf16]'");
  struct Option {
    const char *name, *what, *otherwise;
    bool is_required = false;
    std::string value = {};
  };
  const auto options = std::make_shared<std::vector<Option>>(std::vector<Option>{
      {"--good", "A commit whose program is fast", "", true},
      {"--bad", "A later commit of the same branch, whose program is slow", "", true},
      {"--row", "The key of the problem or step, as in a CSV", "", true},
      {"--wisdom", "The winners of which one solves the problem, a wisdom.json", "", true},
      {"--repo", "The git repository", "."},
      {"--work", "Folder of the programs, rows and state of the search", "out/bisect"},
      {"--device", "auto (first GPU, else host), cuda:N or host", "auto"},
      {"--min-effect", "Smaller changes are none", "2%"},
      {"--history", "A history of the row: where the programs are equal, it says what else differs", ""},
      {"--build",
       "Shell command that builds the program of a checkout: to the file $PROGRAM, by way of the folder "
       "$BUILD. "
       "By default cmake's",
       ""}});
  for (Option& option : *options) {
    auto* added = command->add_option(option.name, option.value, option.what)->required(option.is_required);
    if (*option.otherwise) added->default_str(option.otherwise);
    option.value = option.otherwise;
  }
  const auto runs = std::make_shared<int>(5);
  command->add_option("--runs", *runs, "Runs of each program, each in a new process")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  command->callback([options, runs] {
    std::vector<std::string> arguments = {
        "--runs=" + std::to_string(*runs),
        "--program=" + std::filesystem::read_symlink("/proc/self/exe").string()};
    for (const Option& option : *options)
      if (!option.value.empty()) arguments.push_back(std::string(option.name) + "=" + option.value);
    become_python("warptune.bisect", arguments);
  });
}

}  // namespace warptune
