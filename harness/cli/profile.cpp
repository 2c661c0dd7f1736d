// warptune profile PROBLEM|OP/VARIANT: a profiler session on exactly one launch.
#include "harness/tune/profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "harness/cli/commands.h"
#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/message.h"
#include "harness/core/space.h"
#include "harness/results/wisdom.h"
#include "variants/table.h"

namespace warptune {
namespace {

struct Given {
  std::string target, problem, dtype = "bf16", config, wisdom, device = "auto", tool, output = "profile";
  bool inside = false;
};

/// A sweep may try values that the variant does not list, so this is only a note.
void note_unlisted(const Variant& variant, const Config& config) {
  for (const Parameter& p : variant.parameters)
    if (std::ranges::find(p.values, config[p.name]) == p.values.end())
      print_error(fmt::format("{}={} is not among the values that {} lists ({})", p.name, config[p.name],
                              variant.name, fmt::join(p.values, ", ")));
}

/// The problem of "rms_norm[tokens=1,hidden=4096]"; --dtype applies if the text has no dtype.
Problem problem_of(const std::string& text, const std::string& dtype) {
  const auto open = text.find('[');
  if (!text.ends_with(']'))
    throw InputError(fmt::format("'{}' is not of the form OP[DIM=N,...]", brief(text)));
  auto pairs = parse_pairs(text.substr(open + 1, text.size() - open - 2));
  const auto own = std::ranges::find(pairs, "dtype", &std::pair<std::string, std::string>::first);
  const DType type = parse_dtype(own == pairs.end() ? dtype : own->second);
  if (own != pairs.end()) pairs.erase(own);
  return find_op(text.substr(0, open)).op.problem(pairs, type);
}

/// The winner of the problem; OP/VARIANT restricts it to that variant's.
ProfileTarget winner_of(const Given& given, const Problem& problem, const std::string& variant) {
  const Wisdom wisdom = Wisdom::load(given.wisdom);
  const Winner* winner = wisdom.exact(problem);
  if (!winner) throw InputError(fmt::format("'{}' holds no winner of {}", given.wisdom, problem.key()));
  if (!variant.empty() && winner->variant != variant)
    throw InputError(fmt::format("'{}' holds no winner of {} for {}; its winner is {} {}", given.wisdom,
                                 variant, problem.key(), winner->variant, winner->config.str()));
  const Variant& known = find_op(problem.op).variant(winner->variant);
  return {.problem = problem,
          .variant = known.name,
          .config = parse_config(known, winner->config.str()),
          .device = given.device};
}

ProfileTarget target_of(const Given& given) {
  if (given.target.find('[') != std::string::npos) {
    if (given.wisdom.empty() || !given.problem.empty())
      throw InputError("a problem needs --wisdom, the file with its winner, and takes no --problem");
    return winner_of(given, problem_of(given.target, given.dtype), "");
  }
  const auto slash = given.target.find('/');
  if (slash == std::string::npos)
    throw InputError(
        fmt::format("'{}' is neither a problem, OP[DIM=N,...], nor OP/VARIANT", brief(given.target)));
  const OpEntry& entry = find_op(given.target.substr(0, slash));
  const Variant& variant = entry.variant(given.target.substr(slash + 1));
  if (given.problem.empty()) throw InputError("OP/VARIANT needs --problem with the dims");
  const Problem problem = entry.op.problem(parse_pairs(given.problem), parse_dtype(given.dtype));
  if (!given.wisdom.empty()) return winner_of(given, problem, variant.name);
  const Config config = parse_config(variant, given.config);
  if (!given.inside) note_unlisted(variant, config);
  return {.problem = problem, .variant = variant.name, .config = config, .device = given.device};
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
  for (const int ignored : {SIGPIPE, SIGXFSZ}) ::signal(ignored, SIG_DFL);  // the profiler starts as usual
  ::execvp(tool->c_str(), arguments.data());
  throw InputError(fmt::format("{} cannot be started: {}", tool->string(), std::strerror(errno)));
}

}  // namespace

void add_profile(CLI::App& app, int&) {
  auto* command = app.add_subcommand("profile", "Prints or runs a profiler session on one verified launch");
  command->footer(
      "Examples:\n"
      "  warptune profile 'rms_norm[tokens=1,hidden=4096]' --wisdom results/h200/wisdom.json --run ncu\n"
      "  warptune profile rms_norm/vectorized --problem tokens=1,hidden=4096 \\\n"
      "    --config block=256,rows=1,vec=8,cache_hint=none,pdl=0");
  const auto given = std::make_shared<Given>();
  command
      ->add_option("TARGET", given->target,
                   "A problem, to launch its winner: \"rms_norm[tokens=1,hidden=4096]\"; or OP/VARIANT")
      ->required();
  command->add_option("--problem", given->problem, "The dims for OP/VARIANT: \"tokens=1,hidden=4096\"");
  command->add_option("--dtype", given->dtype, "fp32, fp16, bf16 or int32, if the problem has no dtype")
      ->capture_default_str();
  auto* config =
      command->add_option("--config", given->config, "The parameters for OP/VARIANT: \"block=256,vec=8\"");
  command->add_option("--wisdom", given->wisdom, "The file with the winner")->excludes(config);
  command->add_option("--device", given->device, "auto (first GPU, else host), cuda:N or host")
      ->capture_default_str();
  command->add_option("--run", given->tool, "Run this profiler instead of printing the commands")
      ->check(CLI::IsMember({"ncu", "nsys"}));
  command
      ->add_option("-o,--output", given->output, "The report, without extension; the sources go next to it")
      ->capture_default_str();
  command->add_flag("--inside", given->inside,
                    "Launch the target; the profiler starts the program with this flag");
  command->callback([given] {
    const ProfileTarget target = target_of(*given);
    if (given->inside) {
      run_profiled(ops(), target);
      return;
    }
    const std::filesystem::path sources = given->output + ".sources";
    write_sources(ops(), target, sources);
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
