#pragma once
// The ways to choose a plan for a problem, each a small class. They are tried in this order.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/select/plan_choice.h"
#include "harness/select/tuned_plans.h"

namespace warptune {

/// Takes the choices of the policies, and what they say.
class Offers {
 public:
  virtual ~Offers() = default;
  /// Whether the choice is taken: it may need more than the device has.
  virtual bool take(const PlanChoice& choice) = 0;
  /// Why a policy does not offer what it should.
  virtual void refuse_override(std::size_t override_index, const std::string& why) = 0;
  virtual void refuse_winner(const std::string& why) = 0;
  /// What has changed since a winner was tuned; the same for many winners.
  virtual void warn(const std::string& what) = 0;
  /// Why a policy has nothing to offer.
  virtual void remark(const std::string& what) = 0;
};

class Policy {
 public:
  virtual ~Policy() = default;
  /// Offers choices for a problem, best first, until one is taken. Returns whether one was.
  virtual bool choose(const Problem& problem, Offers& offers) const = 0;
};

/// What all policies read; it outlives them.
struct PolicyInput {
  const OpTable& ops;
  const DeviceFacts& facts;
  const PlanOptions& options;
  const TunedPlans& tuned;
};

/// override, exact, predicted, nearest, default; those of the wisdom only where there is one.
std::vector<std::unique_ptr<Policy>> make_policies(const PolicyInput& input);

}  // namespace warptune
