#pragma once
// Verifies and times the captured decode step of a model with given plans, a candidate interleaved with the
// best plans so far.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/llama/model.h"
#include "harness/llama/step_problem.h"
#include "harness/measure/measurement.h"
#include "harness/measure/sampler.h"
#include "harness/measure/stage_times.h"
#include "harness/results/wisdom.h"

namespace warptune {

/// A candidate's time over the incumbent's, of replays that follow each other: the median and its 95 %
/// confidence interval.
struct TimeRatio {
  double median = 1, low = 1, high = 1;
};

struct StepTimes {
  Measurement incumbent, candidate;        // times of a whole step
  TimeRatio ratio = {};                    // valid if both are ok
  std::vector<std::string> problems = {};  // keys of what the candidate's step solves
};

/// Weights, KV cache and the logits of the naive plans are made once. A candidate costs its new plans, a
/// capture, two verified replays and its samples.
class StepBench {
 public:
  /// Throws ResourceError if the device has not the memory. `now` limits how long steps are sampled.
  StepBench(const OpTable& ops, Device& device, StepSpec spec, Seconds now = steady_seconds);

  /// Times both interleaved, `rounds` replays each, or until the ratio is surely above `slow`. The logits of
  /// the candidate are verified before and, unless it is that slow, after: a failure of either becomes its
  /// status. Errors of the device itself are thrown.
  StepTimes compare(const StepPlans& incumbent, const StepPlans& candidate, int rounds,
                    double slow = Measurement::NAN_VALUE);

  const StepSpec& spec() const { return spec_; }
  /// How long the stages took since the last call; `load` makes new plans and captures the step.
  StageTimes take_times() { return std::exchange(times_, {}); }

 private:
  /// A captured step, and whether it is right.
  struct Built {
    Model::TakenStep step;
    Measurement state;  // ok, or why it cannot be timed
  };
  Built& build(const StepPlans& plans);
  void replay(CapturedGraph& graph, int first_id);
  std::vector<float> naive_logits(const OpTable& ops);
  void verify(Built& built, CapturedGraph& before, TuningStage stage, const char* when);

  Device& device_;
  const StepSpec spec_;
  const Seconds now_;  // the same on all ranks
  StageTimes times_;
  const Weights weights_;
  std::string remark_;  // the last of the plan book
  PlanBook book_;
  Model model_;
  const std::vector<float> reference_;  // the naive plans' logits
  std::map<std::string, Built> built_;  // by StepPlans::str()
};

}  // namespace warptune
