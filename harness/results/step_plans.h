#pragma once
// The plans of a model's decode step, tuned together in the captured step.
#include <algorithm>
#include <string>
#include <vector>

#include "harness/core/problem.h"

namespace warptune {

/// The op of the problem that a step is: "step[model=llama3.2-1b,batch=1,context=512,dtype=bf16]".
inline constexpr const char* kStepOp = "step";

/// The configuration that solves a problem of the step.
struct StepPlan {
  Problem problem;
  std::string variant;
  Config config;
  std::string source_hash = {}, code_hash = {};  // as those of a winner (results/wisdom.h)

  std::string str() const {
    return problem.key() + " " + variant + (config.empty() ? "" : " ") + config.str();
  }
};

/// What a step is made of: its options (llama/fusion.h) and a plan for each of its problems.
struct StepPlans {
  Assignment options = {};  // an option without a value here is chosen by the times of the ops alone
  std::vector<StepPlan> plans = {};

  const StepPlan* find(const Problem& problem) const {
    const auto it = std::ranges::find(plans, problem, &StepPlan::problem);
    return it == plans.end() ? nullptr : &*it;
  }
  /// All of it as one text: equal steps have equal texts.
  std::string str() const {
    std::string text = options.str();
    for (const StepPlan& plan : plans) text += "; " + plan.str();
    return text;
  }
};

}  // namespace warptune
