#include "harness/select/policies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/core/expression.h"
#include "harness/core/space.h"

namespace warptune {
namespace {

/// The configuration of a variant's first default tile that fits, else the middle one of its space. Sets
/// `why` if there is none.
std::optional<Config> default_config(const PolicyInput& in, const Variant& variant, const Problem& problem,
                                     std::string& why) {
  if (const auto not_here = why_not_here(variant, problem, in.facts)) {
    why = *not_here;
    return std::nullopt;
  }
  if (const auto tiles = in.ops.default_tiles(problem, in.facts, variant.name); !tiles.empty())
    return tiles.front().config;
  const auto configs = Space(variant, problem, in.facts).configs();
  if (!configs.empty()) return configs[configs.size() / 2];
  why = fmt::format("'{}' has no configuration for it", variant.name);
  return std::nullopt;
}

/// The user's override: a variant with the given configuration, else its winner's, else its default.
class OverridePolicy : public Policy {
 public:
  explicit OverridePolicy(const PolicyInput& in) : in_(in) {}
  bool choose(const Problem& problem, Offers& offers) const override {
    const auto& overrides = in_.options.overrides;
    for (std::size_t i = 0; i < overrides.size(); ++i) {
      if (overrides[i].op != problem.op) continue;
      const Variant& variant = in_.ops.find(problem.op).variant(overrides[i].variant);
      std::string why;
      const auto config = config_of(overrides[i], variant, problem, why);
      if (!config)
        offers.refuse_override(i, why);
      else if (offers.take({&variant, *config, PlanSource::overridden, i}))
        return true;
    }
    return false;
  }

 private:
  std::optional<Config> config_of(const PlanOverride& wanted, const Variant& variant, const Problem& problem,
                                  std::string& why) const {
    std::optional<Config> config = wanted.config;
    if (!config)
      if (const Winner* winner = in_.tuned.match(problem).winner;
          winner && winner->variant == wanted.variant && in_.tuned.judged(*winner).use != Use::refused)
        config = winner->config;
    if (!config) return default_config(in_, variant, problem, why);
    const auto unfit = why_unfit(variant, problem, *config, in_.facts);
    if (!unfit) return config;
    why = *unfit;
    return std::nullopt;
  }

  const PolicyInput in_;
};

/// The plan of the step that is being assembled. The chooser has judged it, with the rest of the step.
class StepPolicy : public Policy {
 public:
  explicit StepPolicy(const PolicyInput& in) : in_(in) {}
  bool choose(const Problem& problem, Offers& offers) const override {
    const StepPlan* plan = in_.step ? in_.step->find(problem) : nullptr;
    return plan && offers.take({.variant = &in_.ops.find(problem.op).variant(plan->variant),
                                .config = plan->config,
                                .source = PlanSource::step});
  }

 private:
  const PolicyInput in_;
};

/// Offers a winner if it is still valid.
bool offer_winner(const PolicyInput& in, const Winner& winner, const Problem& problem, PlanChoice choice,
                  Offers& offers) {
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
class ExactPolicy : public Policy {
 public:
  explicit ExactPolicy(const PolicyInput& in) : in_(in) {}
  bool choose(const Problem& problem, Offers& offers) const override {
    const auto [winner, exact] = in_.tuned.match(problem);
    return exact && offer_winner(in_, *winner, problem, {.source = PlanSource::exact}, offers);
  }

 private:
  const PolicyInput in_;
};

/// The configuration with the best prediction from the recorded times of other problems.
class PredictedPolicy : public Policy {
 public:
  explicit PredictedPolicy(const PolicyInput& in) : in_(in) {}
  bool choose(const Problem& problem, Offers& offers) const override {
    const auto prediction = in_.tuned.predict(problem);
    if (!prediction) return false;
    return offers.take({.variant = prediction->variant,
                        .config = prediction->config,
                        .source = PlanSource::predicted,
                        .reason = fmt::format("takes {}, the fastest by the times of tuned problems",
                                              quoted(prediction->variant->name, prediction->config))});
  }

 private:
  const PolicyInput in_;
};

/// The winner of the problem with the nearest amount of work.
class NearestPolicy : public Policy {
 public:
  explicit NearestPolicy(const PolicyInput& in) : in_(in) {}
  bool choose(const Problem& problem, Offers& offers) const override {
    const auto [winner, exact] = in_.tuned.match(problem);
    if (!winner) offers.remark("the wisdom has nothing near; takes a default");
    if (!winner || exact) return false;
    return offer_winner(in_, *winner, problem,
                        {.source = PlanSource::nearest,
                         .reason = "takes the winner of the nearest tuned problem, " + winner->problem.key()},
                        offers);
  }

 private:
  const PolicyInput in_;
};

/// A default tile that fits, then the op's preferences, then any variant, naive ones first.
class DefaultPolicy : public Policy {
 public:
  explicit DefaultPolicy(const PolicyInput& in) : in_(in) {}
  bool choose(const Problem& problem, Offers& offers) const override {
    const OpEntry& entry = in_.ops.find(problem.op);
    if (!in_.options.naive && (take_tile(problem, offers) || take_preference(entry, problem, offers)))
      return true;
    for (const bool naive : {true, false})
      for (const Variant& variant : entry.variants)
        if (is_naive(variant.name) == naive && take(variant, problem, offers)) return true;
    return false;
  }

 private:
  bool take_tile(const Problem& problem, Offers& offers) const {
    return std::ranges::any_of(in_.ops.default_tiles(problem, in_.facts), [&](const DefaultTile& tile) {
      return offers.take({.variant = tile.variant,
                          .config = tile.config,
                          .source = PlanSource::fallback,
                          .reason = fmt::format("takes the default {} ({})",
                                                quoted(tile.variant->name, tile.config), tile.origin())});
    });
  }
  bool take_preference(const OpEntry& entry, const Problem& problem, Offers& offers) const {
    const NamedValues known = known_values(problem, in_.facts);
    return std::ranges::any_of(entry.preferences, [&](const Preference& p) {
      return Evaluator(p.when, known.names)(known.values) != 0 &&
             take(entry.variant(p.variant), problem, offers);
    });
  }
  bool take(const Variant& variant, const Problem& problem, Offers& offers) const {
    std::string why;
    const auto config = default_config(in_, variant, problem, why);
    return config && offers.take({.variant = &variant, .config = *config, .source = PlanSource::fallback});
  }

  const PolicyInput in_;
};

}  // namespace

std::vector<std::unique_ptr<Policy>> make_policies(const PolicyInput& input) {
  std::vector<std::unique_ptr<Policy>> policies;
  policies.push_back(std::make_unique<OverridePolicy>(input));
  policies.push_back(std::make_unique<StepPolicy>(input));
  if (input.options.has_wisdom && !input.options.naive) {
    policies.push_back(std::make_unique<ExactPolicy>(input));
    policies.push_back(std::make_unique<PredictedPolicy>(input));
    policies.push_back(std::make_unique<NearestPolicy>(input));
  }
  policies.push_back(std::make_unique<DefaultPolicy>(input));
  return policies;
}

}  // namespace warptune
