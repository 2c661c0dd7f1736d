#include "cli/profile_target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/core/print.h"
#include "harness/core/space.h"
#include "harness/results/wisdom.h"

namespace warptune {
namespace {

/// The winner of the problem; OP/VARIANT restricts it to that variant's.
ProfileTarget winner_of(const TargetOptions& given, const Problem& problem, const std::string& variant) {
  const WisdomInUse in_use = target_wisdom(given);
  const Winner* winner = in_use.wisdom.exact(problem);
  if (!winner) throw InputError("'{}' holds no winner of {}", in_use.present(), problem.key());
  if (!variant.empty() && winner->variant != variant)
    throw InputError("'{}' holds no winner of {} for {}; its winner is {} {}", in_use.present(), variant,
                     problem.key(), winner->variant, winner->config.str());
  const Variant& known = given.kernels.ops().find(problem.op).variant(winner->variant);
  return {.problem = problem,
          .variant = known.name,
          .config = parse_config(known, winner->config.str()),
          .device = given.device,
          .kernel_files = given.kernels.files()};
}

}  // namespace

Problem problem_of(const OpTable& ops, const std::string& text, const std::string& dtype) {
  const auto open = text.find('[');
  if (!text.ends_with(']')) throw InputError("'{}' is not of the form OP[DIM=N,...]", brief(text));
  auto pairs = parse_pairs(text.substr(open + 1, text.size() - open - 2));
  const auto own = std::ranges::find(pairs, "dtype", &std::pair<std::string, std::string>::first);
  const DType type = parse_dtype(own == pairs.end() ? dtype : own->second);
  if (own != pairs.end()) pairs.erase(own);
  return ops.find(text.substr(0, open)).op.problem(pairs, type);
}

void add_target_options(CLI::App& command, TargetOptions& options) {
  command.add_option("TARGET", options.target,
                     "A problem, to launch its winner: \"rms_norm[tokens=1,hidden=4096]\"; or OP/VARIANT");
  command.add_option("--problem", options.problem, "The dims for OP/VARIANT: \"tokens=1,hidden=4096\"");
  command.add_option("--dtype", options.dtype, "fp32, fp16, bf16 or int32, if the problem has no dtype")
      ->capture_default_str();
  auto* config =
      command.add_option("--config", options.config, "The parameters for OP/VARIANT: \"block=256,vec=8\"");
  command
      .add_option("--wisdom", options.wisdom,
                  "The file with the winner; for a problem default: the files of WARPTUNE_WISDOM")
      ->excludes(config);
  add_device(command, options.device);
  add_as(command, options.device);
  options.kernels.add_to(command);
}

WisdomInUse target_wisdom(const TargetOptions& given) {
  return required_wisdom(given.wisdom, given.device, "--wisdom FILE");
}

namespace {

ProfileTarget any_target_of(const TargetOptions& given) {
  if (given.target.find('[') != std::string::npos) {
    if ((given.wisdom.empty() && !has_wisdom_path()) || !given.problem.empty())
      throw InputError("a problem needs --wisdom, the file with its winner, and takes no --problem");
    return winner_of(given, problem_of(given.kernels.ops(), given.target, given.dtype), "");
  }
  const auto slash = given.target.find('/');
  if (slash == std::string::npos)
    throw InputError("'{}' is neither a problem, OP[DIM=N,...], nor OP/VARIANT", brief(given.target));
  const OpEntry& entry = given.kernels.ops().find(given.target.substr(0, slash));
  const Variant& variant = entry.variant(given.target.substr(slash + 1));
  if (given.problem.empty()) throw InputError("OP/VARIANT needs --problem with the dims");
  const Problem problem = entry.op.problem(parse_pairs(given.problem), parse_dtype(given.dtype));
  if (!given.wisdom.empty()) return winner_of(given, problem, variant.name);
  const Config config = parse_config(variant, given.config);
  return {.problem = problem,
          .variant = variant.name,
          .config = config,
          .device = given.device,
          .kernel_files = given.kernels.files()};
}

}  // namespace

ProfileTarget target_of(const TargetOptions& given) {
  ProfileTarget target = any_target_of(given);
  if (const auto ranks = ranks_of(target.problem); ranks > 1)
    throw InputError("{} runs on {} ranks; a profiler starts one", target.problem.key(), ranks);
  return target;
}

void note_unlisted(const OpTable& ops, const ProfileTarget& target) {
  const Variant& variant = ops.find(target.problem.op).variant(target.variant);
  for (const Parameter& p : variant.parameters)
    if (!contains(p.values, target.config[p.name]))
      print_error("{}={} is not among the values that {} lists ({})", p.name, target.config[p.name],
                  variant.name, fmt::join(p.values, ", "));
}

}  // namespace warptune
