// warptune profile OP/VARIANT: a profiler session on exactly one launch.
#include "harness/tune/profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "harness/cli/commands.h"
#include "harness/core/error.h"
#include "harness/core/space.h"
#include "harness/results/wisdom.h"
#include "variants/table.h"

namespace warptune {
namespace {

struct Given {
  std::string target, problem, dtype = "bf16", config, wisdom, device = "auto", tool, output = "profile";
  bool inside = false;
};

/// A sweep may try other values than a variant lists, so they are no error.
void note_unlisted(const Variant& variant, const Config& config) {
  for (const Parameter& p : variant.parameters)
    if (std::ranges::find(p.values, config[p.name]) == p.values.end())
      fmt::print(stderr, "warptune: {}={} is none of the values that {} lists ({})\n", p.name, config[p.name],
                 variant.name, fmt::join(p.values, ", "));
}

ProfileTarget target_of(const Given& given) {
  const auto slash = given.target.find('/');
  if (slash == std::string::npos)
    throw InputError(fmt::format("'{}' is not of the form OP/VARIANT", given.target));
  const OpEntry& entry = find_op(given.target.substr(0, slash));
  const Variant& variant = entry.variant(given.target.substr(slash + 1));
  ProfileTarget target{.problem = entry.op.problem(parse_pairs(given.problem), parse_dtype(given.dtype)),
                       .variant = variant.name,
                       .device = given.device};
  if (!given.wisdom.empty()) {
    const Wisdom wisdom = Wisdom::load(given.wisdom);
    const Winner* winner = wisdom.exact(target.problem);
    if (!winner || winner->variant != variant.name)
      throw InputError(fmt::format(
          "'{}' holds no winner of {} for {}{}", given.wisdom, variant.name, target.problem.key(),
          winner ? fmt::format("; its winner is {} {}", winner->variant, winner->config.str()) : ""));
    target.config = parse_config(variant, winner->config.str());
  } else {
    target.config = parse_config(variant, given.config);
    if (!given.inside) note_unlisted(variant, target.config);
  }
  return target;
}

void replace_process(std::vector<std::string> command) {
  const auto tool = find_tool(command.front());
  if (!tool)
    throw InputError(fmt::format("{} is not on this machine (neither on the PATH nor in the CUDA Toolkit)",
                                 command.front()));
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::fflush(stdout);
  ::execvp(tool->c_str(), arguments.data());
  throw InputError(fmt::format("{} cannot be started: {}", tool->string(), std::strerror(errno)));
}

}  // namespace

void add_profile(CLI::App& app, int&) {
  auto* command = app.add_subcommand("profile", "Prints or runs a profiler session on one verified launch");
  command->footer(
      "Examples:\n"
      "  warptune profile rms_norm/vectorized --problem tokens=1,hidden=4096 --config "
      "block=256,rows=1,vec=8,cache_hint=none,pdl=0\n"
      "  warptune profile linear/gemv_split_k --problem tokens=1,in=4096,out=4096 --from-wisdom wisdom.json "
      "--run "
      "ncu");
  const auto given = std::make_shared<Given>();
  command->add_option("OP/VARIANT", given->target, "What to launch")->required();
  command->add_option("--problem", given->problem, "Its dims: \"tokens=1,hidden=4096\"")->required();
  command->add_option("--dtype", given->dtype, "fp32, fp16, bf16 or int32")->capture_default_str();
  auto* config = command->add_option("--config", given->config, "Its parameters: \"block=256,vec=8\"");
  command->add_option("--from-wisdom", given->wisdom, "Take the parameters from this file's winner")
      ->excludes(config);
  command->add_option("--device", given->device, "auto (first GPU, else host), cuda:N or host")
      ->capture_default_str();
  command->add_option("--run", given->tool, "Run this profiler instead of printing the commands")
      ->check(CLI::IsMember({"ncu", "nsys"}));
  command->add_option("-o,--output", given->output, "The report, without extension; sources go beside it")
      ->capture_default_str();
  command->add_flag("--inside", given->inside, "Launch: what the profiler starts");
  command->callback([given] {
    const ProfileTarget target = target_of(*given);
    if (given->inside) {
      run_profiled(target);
      return;
    }
    const std::filesystem::path sources = given->output + ".sources";
    write_sources(target, sources);
    const auto program = std::filesystem::read_symlink("/proc/self/exe");
    const auto line = [&](const std::string& tool) {
      return profiler_command(tool, program, target, sources, given->output);
    };
    if (given->tool.empty())
      fmt::print("{}\n{}\n", shell_text(line("ncu")), shell_text(line("nsys")));
    else
      replace_process(line(given->tool));
  });
}

}  // namespace warptune
