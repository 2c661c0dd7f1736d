#include "harness/select/policies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/core/expression.h"
#include "harness/core/space.h"

namespace warptune {
namespace {

/// The configuration of a user's override: the given one, else the winner's, else a default.
std::optional<Config> config_of(const PolicyInput& in, const PlanOverride& wanted, const Variant& variant,
                                const Problem& problem, std::string& why) {
  std::optional<Config> config = wanted.config;
  if (!config)
    if (const Winner* winner = in.tuned.match(problem).winner;
        winner && winner->variant == wanted.variant && in.tuned.judged(*winner).use != Use::refused)
      config = winner->config;
  if (!config) return default_config(in.ops, in.facts, variant, problem, why);
  const auto unfit = why_unfit(variant, problem, *config, in.facts);
  if (!unfit) return config;
  why = *unfit;
  return std::nullopt;
}

bool offer_overrides(const PolicyInput& in, const Problem& problem, Offers& offers) {
  const auto& overrides = in.options.overrides;
  for (std::size_t i = 0; i < overrides.size(); ++i) {
    if (overrides[i].op != problem.op) continue;
    const Variant& variant = in.ops.find(problem.op).variant(overrides[i].variant);
    std::string why;
    const auto config = config_of(in, overrides[i], variant, problem, why);
    if (!config)
      offers.refuse_override(i, why);
    else if (offers.take({&variant, *config, PlanSource::overridden, i}))
      return true;
  }
  return false;
}

/// The plan of the step that is being assembled. The chooser has judged it, with the rest of the step.
bool offer_plan_of_step(const PolicyInput& in, const Problem& problem, Offers& offers) {
  const StepPlan* plan = in.step ? in.step->find(problem) : nullptr;
  return plan && offers.take({.variant = &in.ops.find(problem.op).variant(plan->variant),
                              .config = plan->config,
                              .source = PlanSource::step});
}

/// Offers a winner if it is still valid.
bool offer_winner(const PolicyInput& in, const Winner& winner, const Problem& problem, PlanChoice choice,
                  Offers& offers) {
  choice.winner = &winner;
  choice.variant = in.ops.find(problem.op).find_variant(winner.variant);
  choice.config = winner.config;
  std::string why;
  if (!choice.variant) {
    why =
        fmt::format("there is no variant '{}' (--kernels FILE brings a kernel of your own)", winner.variant);
  } else if (const Judgement judgement = in.tuned.judged(winner); judgement.use == Use::refused) {
    why = fmt::format("{}", fmt::join(judgement.refusals, "; "));
  } else if (const auto unfit = why_unfit(*choice.variant, problem, winner.config, in.facts)) {
    why = *unfit;
  } else {
    for (const std::string& warning : judgement.warnings) offers.warn(warning);
    return offers.take(choice);
  }
  offers.refuse_winner(why);
  return false;
}

/// The winner of this problem.
bool offer_exact(const PolicyInput& in, const Problem& problem, Offers& offers) {
  const auto [winner, exact] = in.tuned.match(problem);
  return exact && offer_winner(in, *winner, problem, {.source = PlanSource::exact}, offers);
}

/// The winner of the problem with the nearest amount of work; the problem's own may be refused.
bool offer_nearest(const PolicyInput& in, const Problem& problem, Offers& offers) {
  if (!in.options.has_wisdom || in.options.naive) return false;
  const Winner* winner = in.tuned.match(problem, &problem).winner;
  if (!winner && !in.tuned.match(problem).exact)
    offers.remark("the wisdom has nothing near; takes a default");
  return winner &&
         offer_winner(in, *winner, problem,
                      {.source = PlanSource::nearest,
                       .reason = "takes the winner of the nearest tuned problem, " + winner->problem.key()},
                      offers);
}

bool offer_tile(const PolicyInput& in, const Problem& problem, Offers& offers) {
  return std::ranges::any_of(in.ops.default_tiles(problem, in.facts), [&](const DefaultTile& tile) {
    return may_win(*tile.variant, in.facts) &&
           offers.take({.variant = tile.variant,
                        .config = tile.config,
                        .source = PlanSource::fallback,
                        .reason = fmt::format("takes the default {} ({})",
                                              quoted(tile.variant->name, tile.config), tile.origin())});
  });
}

/// A default tile that fits, then the op's preferences, then any variant, naive ones first.
bool offer_default(const PolicyInput& in, const Problem& problem, Offers& offers) {
  const OpEntry& entry = in.ops.find(problem.op);
  const auto take = [&](const Variant& variant) {
    if (!may_win(variant, in.facts)) return false;
    std::string why;
    const auto config = default_config(in.ops, in.facts, variant, problem, why);
    return config && offers.take({.variant = &variant, .config = *config, .source = PlanSource::fallback});
  };
  if (!in.options.naive) {
    if (offer_tile(in, problem, offers)) return true;
    const NamedValues known = known_values(problem, in.facts);
    for (const Preference& p : entry.preferences)
      if (Evaluator(p.when, known.names)(known.values) != 0 && take(entry.variant(p.variant))) return true;
  }
  for (const bool naive : {true, false})
    for (const Variant& variant : entry.variants)
      if (is_naive(variant.name) == naive && take(variant)) return true;
  return false;
}

constexpr Policy kPolicies[] = {offer_overrides, offer_plan_of_step, offer_exact, offer_nearest,
                                offer_default};

}  // namespace

std::span<const Policy> policies() { return kPolicies; }

}  // namespace warptune
