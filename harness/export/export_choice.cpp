// Chooses a configuration that can be exported for a problem.
#include <fmt/format.h>

#include "harness/core/error.h"
#include "harness/export/plan_table.h"

namespace warptune {
namespace {

constexpr std::size_t kAllRecorded = 1 << 20;

/// The recorded time of a configuration in the search of a winner.
double recorded_us(const Winner& winner, const Variant& variant, const Config& config) {
  if (winner.variant == variant.name && winner.config == config) return winner.time_us;
  for (const TiedConfig& tied : winner.tied)
    if (tied.variant == variant.name && tied.config == config) return tied.time_us;
  for (const VariantTimes& times : winner.times) {
    if (times.variant != variant.name) continue;
    for (const VariantTimes::Row& row : times.rows)
      if (config_of(variant, times, row) == config) return row.time_us;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

ExportChooser::ExportChooser(const OpTable& ops, const DeviceFacts& facts, const Compiler& compiler,
                             PlanOptions options)
    : facts_(facts),
      compiler_(compiler),
      chooser_(ops, facts, std::move(options)),
      tuned_(ops, facts, chooser_.options()) {}

/// A winner was verified when it was tuned; here it only has to compile and to fit.
bool ExportChooser::compiles(const Variant& variant, const Problem& problem, const Config& config) {
  if (!has_machine_code(variant)) return false;
  try {
    inspect(compiler_, variant, problem, config, facts_);
    return true;
  } catch (const ResourceError&) {
    return false;
  } catch (const CompileError&) {
    return false;
  }
}

std::optional<ExportChoice> ExportChooser::runner_up(const Problem& problem, const Winner& winner) {
  for (const auto& [variant, config] : chooser_.fastest(problem, kAllRecorded))
    if (compiles(*variant, problem, config))
      return ExportChoice{.variant = variant,
                          .config = config,
                          .source = "runner_up",
                          .reason = fmt::format("the winner '{}' calls a library", winner.variant),
                          .time_us = recorded_us(winner, *variant, config),
                          .winner = &winner,
                          .instead_of = &winner};
  return std::nullopt;
}

std::vector<Problem> ExportChooser::add_step(const Problem& step) {
  std::vector<Problem> problems;
  if (const std::string why = chooser_.enter_step(step); !why.empty())
    lost_steps_.push_back(fmt::format("{}: {}", step.key(), why));
  const bool is_near = chooser_.is_near_step();
  if (chooser_.step())
    for (const StepPlan& plan : chooser_.step()->plans) {
      (is_near ? near_steps_ : steps_).try_emplace(plan.problem.key(), step);
      if (!is_near) problems.push_back(plan.problem);
    }
  chooser_.leave_step();
  return problems;
}

const Winner* ExportChooser::winner_of(const Problem& problem) const {
  const WinnerLookup::Match match = tuned_.match(problem);
  return match.exact && match.winner->made_on.arch == facts_.arch ? match.winner : nullptr;
}

ExportChoice ExportChooser::choose(const Problem& problem) {
  chooser_.leave_step();
  for (const auto* steps : {&near_steps_, &steps_})  // a tuned step replaces the near one
    if (const auto step = steps->find(problem.key()); step != steps->end()) chooser_.enter_step(step->second);
  std::optional<ExportChoice> chosen;
  chooser_.choose(problem, true, [&](const PlanChoice& choice) {
    if (choice.source == PlanSource::exact && calls_library(*choice.variant)) {
      chosen = runner_up(problem, *choice.winner);
      return chosen.has_value();
    }
    if (!compiles(*choice.variant, problem, choice.config)) return false;
    chosen = ExportChoice{.variant = choice.variant,
                          .config = choice.config,
                          .source = std::string(name_of(choice.source)),
                          .reason = choice.reason.empty() ? choice.why_not : choice.reason,
                          .winner = choice.winner,
                          .instead_of = nullptr,
                          .why_not = choice.why_not};
    if (choice.source == PlanSource::exact) chosen->time_us = choice.winner->time_us;
    return true;
  });
  if (!chosen)
    throw InputError("{}: no variant can be exported for {}: none compiles and fits", problem.key(),
                     facts_.arch);
  if (chosen->source != "exact" && !chosen->source.ends_with("step")) chosen->instead_of = winner_of(problem);
  return *std::move(chosen);
}

}  // namespace warptune
