#include "harness/select/plan_chooser.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/space.h"

namespace warptune {

std::string_view name_of(PlanSource source) {
  static constexpr std::string_view kNames[] = {"override", "step", "exact", "nearest", "default"};
  return kNames[static_cast<std::size_t>(source)];
}

std::string quoted(std::string_view variant, const Config& config) {
  return config.empty() ? fmt::format("'{}'", variant) : fmt::format("'{}' with {}", variant, config.str());
}

PlanOverride parse_plan_override(const OpTable& ops, const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw InputError(
        fmt::format("'{}' is not of the form op=variant or op=variant:name=value,..", brief(text)));
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

/// Passes the offers for one problem to the caller and reports the remarks of the policies.
class PlanChooser::Taker : public Offers {
 public:
  Taker(PlanChooser& chooser, const Problem& problem, bool quiet,
        const std::function<bool(const PlanChoice&)>& take)
      : chooser_(chooser), problem_(problem), quiet_(quiet), take_(take) {}

  bool take(PlanChoice choice) override {
    choice.why_not = refusal_;
    if (!take_(choice)) return false;
    if (!choice.reason.empty()) remark(choice.reason);
    return true;
  }
  void refuse_override(std::size_t override_index, const std::string& why) override {
    chooser_.refuse(override_index, fmt::format("{}: {}", problem_.key(), why));
    chooser_.tell(problem_, "the override is not used: " + why);
  }
  void refuse_winner(const std::string& why) override {
    refusal_ = "the wisdom is not used: " + why;
    chooser_.tell(problem_, refusal_);
  }
  void warn(const std::string& what) override { chooser_.tell_once("the wisdom was " + what); }
  void remark(const std::string& what) override {
    if (!quiet_) chooser_.tell(problem_, what);
  }

 private:
  PlanChooser& chooser_;
  const Problem& problem_;
  const bool quiet_;
  const std::function<bool(const PlanChoice&)>& take_;
  std::string refusal_;
};

PlanChooser::PlanChooser(const OpTable& ops, const DeviceFacts& facts, PlanOptions options)
    : ops_(ops), facts_(facts), options_(std::move(options)), tuned_(ops_, facts_, options_) {}

std::string PlanChooser::enter_step(const Problem& step) {
  step_ = fixed_step_ ? &*fixed_step_ : nullptr;
  if (step_) return {};
  std::string why;
  if (const StepWinner* winner = tuned_.step(step, why)) step_ = &winner->plans;
  if (why.empty()) return {};
  why = "the plans that were tuned in the step are not used: " + why;
  tell(step, why);
  return why;
}

bool PlanChooser::choose(const Problem& problem, bool quiet,
                         const std::function<bool(const PlanChoice&)>& take) {
  Taker taker(*this, problem, quiet, take);
  const PolicyInput input{.ops = ops_, .facts = facts_, .options = options_, .tuned = tuned_, .step = step_};
  return std::ranges::any_of(policies(), [&](Policy policy) { return policy(input, problem, taker); });
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
