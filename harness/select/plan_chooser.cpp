#include "harness/select/plan_chooser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/expression.h"
#include "harness/core/space.h"

namespace warptune {

std::string_view name_of(PlanSource source) {
  static constexpr std::string_view kNames[] = {"override", "step",    "near_step",
                                                "exact",    "nearest", "default"};
  return kNames[static_cast<std::size_t>(source)];
}

std::string quoted(std::string_view variant, const Config& config) {
  return config.empty() ? fmt::format("'{}'", variant) : fmt::format("'{}' with {}", variant, config.str());
}

PlanOverride parse_plan_override(const OpTable& ops, const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw InputError("'{}' is not of the form op=variant or op=variant:name=value,..", brief(text));
  const auto colon = text.find(':', equals);
  PlanOverride parsed{.op = text.substr(0, equals), .variant = text.substr(equals + 1, colon - equals - 1)};
  const Variant& variant = ops.find(parsed.op).variant(parsed.variant);
  if (colon != std::string::npos) parsed.config = parse_config(variant, text.substr(colon + 1));
  return parsed;
}

std::string PlanOverride::str() const {
  const std::string name = fmt::format("{}={}", op, variant);
  return config ? fmt::format("{}:{}", name, config->str()) : name;
}

/// The policies, which offer choices for one problem to the caller.
class PlanChooser::Policies {
 public:
  Policies(PlanChooser& chooser, const Problem& problem, bool quiet,
           const std::function<bool(const PlanChoice&)>& take)
      : chooser_(chooser), problem_(problem), quiet_(quiet), take_(take) {}

  /// Offers choices, best first, until one is taken. Returns whether one was.
  bool offer() {
    return offer_overrides() || offer_plan_of_step() || offer_exact() || offer_nearest() || offer_default();
  }

 private:
  /// Returns whether the choice is taken. It is not if it needs more than the device has.
  bool take(PlanChoice choice) {
    choice.why_not = refusal_;
    if (!take_(choice)) return false;
    if (!choice.reason.empty()) remark(choice.reason);
    return true;
  }
  void refuse_override(std::size_t override_index, const std::string& why) {
    chooser_.refuse(override_index, fmt::format("{}: {}", problem_.key(), why));
    chooser_.tell(problem_, "the override is not used: " + why);
  }
  void refuse_winner(const std::string& why) {
    const std::string refusal = "the wisdom is not used: " + why;
    chooser_.tell(problem_, refusal);
    if (refusal_.empty()) refusal_ = refusal;
  }
  /// Why a policy has no offer.
  void remark(const std::string& what) {
    if (!quiet_) chooser_.tell(problem_, what);
  }

  /// The configuration of a user's override: the given one, else the winner's, else a default.
  std::optional<Config> config_of(const PlanOverride& wanted, const Variant& variant, std::string& why) {
    std::optional<Config> config = wanted.config;
    if (!config)
      if (const Winner* winner = chooser_.tuned_.match(problem_).winner;
          winner && winner->variant == wanted.variant && chooser_.tuned_.judged(*winner).use != Use::refused)
        config = winner->config;
    if (!config) return default_config(chooser_.ops_, chooser_.facts_, variant, problem_, why);
    const auto unfit = why_unfit(variant, problem_, *config, chooser_.facts_);
    if (!unfit) return config;
    why = *unfit;
    return std::nullopt;
  }

  bool offer_overrides() {
    const auto& overrides = chooser_.options_.overrides;
    for (std::size_t i = 0; i < overrides.size(); ++i) {
      if (overrides[i].op != problem_.op) continue;
      const Variant& variant = chooser_.ops_.find(problem_.op).variant(overrides[i].variant);
      std::string why;
      const auto config = config_of(overrides[i], variant, why);
      if (!config)
        refuse_override(i, why);
      else if (take({&variant, *config, PlanSource::overridden, i}))
        return true;
    }
    return false;
  }

  /// The plan of the step that is being assembled. The chooser has judged it, with the rest of the step.
  bool offer_plan_of_step() {
    const StepPlan* plan = chooser_.step_ ? chooser_.step_->find(problem_) : nullptr;
    return plan && take({.variant = &chooser_.ops_.find(problem_.op).variant(plan->variant),
                         .config = plan->config,
                         .source = chooser_.is_near_step_ ? PlanSource::near_step : PlanSource::step});
  }

  /// Offers a winner if it is still valid.
  bool offer_winner(const Winner& winner, PlanChoice choice) {
    choice.winner = &winner;
    choice.variant = chooser_.ops_.find(problem_.op).find_variant(winner.variant);
    choice.config = winner.config;
    std::string why;
    if (!choice.variant) {
      why = fmt::format("there is no variant '{}' (--kernels FILE brings a kernel of your own)",
                        winner.variant);
    } else if (const Judgement judgement = chooser_.tuned_.judged(winner); judgement.use == Use::refused) {
      why = fmt::format("{}", fmt::join(judgement.refusals, "; "));
    } else if (const auto unfit = why_unfit(*choice.variant, problem_, winner.config, chooser_.facts_)) {
      why = *unfit;
    } else {
      for (const std::string& warning : judgement.warnings) chooser_.tell_once("the wisdom was " + warning);
      return take(choice);
    }
    refuse_winner(why);
    return false;
  }

  /// The winner of this problem.
  bool offer_exact() {
    const auto [winner, exact] = chooser_.tuned_.match(problem_);
    return exact && offer_winner(*winner, {.source = PlanSource::exact});
  }

  /// The winner of the problem with the nearest amount of work; the problem's own may be refused.
  bool offer_nearest() {
    if (!chooser_.options_.has_wisdom || chooser_.options_.naive) return false;
    const Winner* winner = chooser_.tuned_.match(problem_, &problem_).winner;
    if (!winner && !chooser_.tuned_.match(problem_).exact)
      remark("the wisdom has nothing near; takes a default");
    return winner && offer_winner(*winner, {.source = PlanSource::nearest,
                                            .reason = "takes the winner of the nearest tuned problem, " +
                                                      winner->problem.key()});
  }

  bool offer_tile() {
    return std::ranges::any_of(
        chooser_.ops_.default_tiles(problem_, chooser_.facts_), [&](const DefaultTile& tile) {
          return may_win(*tile.variant, chooser_.facts_) &&
                 take({.variant = tile.variant,
                       .config = tile.config,
                       .source = PlanSource::fallback,
                       .reason = fmt::format("takes the default {} ({})",
                                             quoted(tile.variant->name, tile.config), tile.origin())});
        });
  }

  /// A default tile that fits, then the op's preferences, then any variant, naive ones first.
  bool offer_default() {
    const OpEntry& entry = chooser_.ops_.find(problem_.op);
    const auto offer_variant = [&](const Variant& variant) {
      if (!may_win(variant, chooser_.facts_)) return false;
      std::string why;
      const auto config = default_config(chooser_.ops_, chooser_.facts_, variant, problem_, why);
      return config && take({.variant = &variant, .config = *config, .source = PlanSource::fallback});
    };
    if (!chooser_.options_.naive) {
      if (offer_tile()) return true;
      const NamedValues known = known_values(problem_, chooser_.facts_);
      for (const Preference& p : entry.preferences)
        if (Evaluator(p.when, known.names)(known.values) != 0 && offer_variant(entry.variant(p.variant)))
          return true;
    }
    for (const bool naive : {true, false})
      for (const Variant& variant : entry.variants)
        if (is_naive(variant.name) == naive && offer_variant(variant)) return true;
    return false;
  }

  PlanChooser& chooser_;
  const Problem& problem_;
  const bool quiet_;
  const std::function<bool(const PlanChoice&)>& take_;
  std::string refusal_;  // of the first refused winner, the problem's own if it has one
};

PlanChooser::PlanChooser(const OpTable& ops, const DeviceFacts& facts, PlanOptions options)
    : ops_(ops), facts_(facts), options_(std::move(options)), tuned_(ops_, facts_, options_) {}

std::string PlanChooser::enter_step(const Problem& step) {
  step_ = fixed_step_ ? &*fixed_step_ : nullptr;
  is_near_step_ = false;
  if (step_) return {};
  std::string why;
  if (const StepWinner* winner = tuned_.step(step, why)) {
    step_ = &winner->plans;
    is_near_step_ = !(winner->step == step);
  }
  if (!why.empty()) tell(step, why);
  return why;
}

bool PlanChooser::choose(const Problem& problem, bool quiet,
                         const std::function<bool(const PlanChoice&)>& take) {
  return Policies(*this, problem, quiet, take).offer();
}

bool PlanChooser::prefers(std::span<const Problem> some, std::span<const Problem> others) const {
  using Time = std::optional<double> (TunedPlans::*)(const Problem&) const;
  const auto sum = [&](std::span<const Problem> problems, Time time) {
    std::optional<double> us = 0;
    for (const Problem& problem : problems) {
      const auto of_one = (tuned_.*time)(problem);
      us = us && of_one ? std::optional(*us + *of_one) : std::nullopt;
    }
    return us;
  };
  const auto tuned = sum(some, &TunedPlans::tuned_us), tuned_others = sum(others, &TunedPlans::tuned_us);
  if (tuned || tuned_others) return tuned && (!tuned_others || *tuned < *tuned_others);
  const auto expected = sum(some, &TunedPlans::expected_us),
             expected_others = sum(others, &TunedPlans::expected_us);
  return expected && (!expected_others || *expected < *expected_others);
}

void PlanChooser::refuse(std::size_t override_index, const std::string& why) {
  refused_because_.try_emplace(override_index, why);
}

void PlanChooser::tell(const Problem& problem, const std::string& what) {
  tell_once(fmt::format("{}: {}", problem.key(), what));
}

void PlanChooser::tell_once(const std::string& what) {
  if (options_.tell && told_.insert(what).second) options_.tell(what);
}

}  // namespace warptune
