#include "harness/tune/builds.h"

namespace warptune {

void Builds::begin(std::size_t candidate) {
  const Candidate& c = planned_->candidates[candidate];
  if (is_compiled(*c.variant) && !tasks_.contains(candidate))
    tasks_[candidate] = lanes_->add({c.variant, &planned_->item->problem, &c.config});
}

const CompileResult& Builds::take(std::size_t candidate) {
  const auto [result, is_new] = results_.try_emplace(candidate);
  if (const auto task = tasks_.find(candidate); is_new && task != tasks_.end())
    result->second = lanes_->take(task->second, seconds_);
  return result->second;
}

}  // namespace warptune
