// warptune profile PROBLEM|OP/VARIANT: a profiler session on exactly one launch.
#include "harness/tune/profile.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/profile_target.h"
#include "harness/core/error.h"
#include "harness/core/line_process.h"
#include "harness/core/print.h"

namespace warptune {
namespace {

struct ProfileArguments {
  TargetOptions target;
  std::string tool, output = "profile";
  bool inside = false, force = false;
};

void replace_process(std::vector<std::string> command) {
  const auto tool = find_tool(command.front());
  if (!tool)
    throw InputError("{} is not on this machine (neither on the PATH nor in the CUDA Toolkit)",
                     command.front());
  const std::vector<char*> arguments = pointers_to(command);
  std::fflush(stdout);
  for (const int ignored : {SIGPIPE, SIGXFSZ}) ::signal(ignored, SIG_DFL);  // the profiler starts as usual
  ::execvp(tool->c_str(), arguments.data());
  throw InputError("{} cannot be started: {}", tool->string(), std::strerror(errno));
}

}  // namespace

void add_profile(CLI::App& app, int&) {
  auto* command = app.add_subcommand("profile", "Prints or runs a profiler session on one verified launch");
  command->footer(
      "Examples:\n"
      "  warptune profile 'rms_norm[tokens=1,hidden=4096]' --wisdom results/h200/wisdom.json --run ncu\n"
      "  warptune profile rms_norm/vectorized --problem tokens=1,hidden=4096 \\\n"
      "    --config block=256,rows=1,vec=8,cache_hint=none,pdl=0");
  const auto given = std::make_shared<ProfileArguments>();
  add_target_options(*command, given->target);
  command->get_option("TARGET")->required();
  command->add_option("--run", given->tool, "Run this profiler instead of printing the commands")
      ->check(CLI::IsMember({"ncu", "nsys"}));
  command
      ->add_option("-o,--output", given->output, "The report, without extension; the sources go next to it")
      ->capture_default_str();
  add_force(*command, given->force);
  command->add_flag("--inside", given->inside,
                    "Launch the target; the profiler starts the program with this flag");
  command->callback([given] {
    const ProfileTarget target = target_of(given->target);
    if (given->inside) {
      run_profiled(given->target.kernels.ops(), target);
      return;
    }
    if (given->target.wisdom.empty()) note_unlisted(given->target.kernels.ops(), target);
    const std::filesystem::path sources = given->output + ".sources";
    std::vector<std::filesystem::path> inputs = given->target.kernels.files();
    inputs.emplace_back(given->target.wisdom);
    write_sources(given->target.kernels.ops(), target, sources, inputs, given->force);
    const auto program = std::filesystem::read_symlink("/proc/self/exe");
    const auto line = [&](const std::string& tool) {
      return profiler_command(tool, program, target, sources, given->output);
    };
    if (given->tool.empty())
      print("{}\n{}\n", shell_text(line("ncu")), shell_text(line("nsys")));
    else
      replace_process(line(given->tool));
  });
}

}  // namespace warptune
