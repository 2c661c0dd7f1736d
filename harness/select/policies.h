#pragma once
// The policies that choose a plan for a problem.
#include <span>
#include <string>

#include "harness/select/plan_choice.h"
#include "harness/select/tuned_plans.h"

namespace warptune {

/// Receives the choices and remarks of the policies.
class Offers {
 public:
  virtual ~Offers() = default;
  /// Returns whether the choice is taken. It is not if it needs more than the device has.
  virtual bool take(PlanChoice choice) = 0;
  /// Reports why an override is not used.
  virtual void refuse_override(std::size_t override_index, const std::string& why) = 0;
  /// Reports why a winner is not used.
  virtual void refuse_winner(const std::string& why) = 0;
  /// Reports a change since a winner was tuned; the text is the same for many winners.
  virtual void warn(const std::string& what) = 0;
  /// Reports why a policy has no offer.
  virtual void remark(const std::string& what) = 0;
};

/// The inputs of all policies.
struct PolicyInput {
  const OpTable& ops;
  const DeviceFacts& facts;
  const PlanOptions& options;
  const TunedPlans& tuned;
  const StepPlans* step;  // the step that is being assembled; null outside of one
};

/// Offers choices for a problem, best first, until one is taken. Returns whether one was.
using Policy = bool (*)(const PolicyInput& in, const Problem& problem, Offers& offers);

/// In order: override, step, exact, nearest, default.
std::span<const Policy> policies();

}  // namespace warptune
