#pragma once
// Where the time of tuning goes: seconds per stage, by the steady clock.
#include <array>
#include <cstddef>
#include <string_view>

#include "harness/core/stopwatch.h"

namespace warptune {

/// In the order in which a configuration passes them. The worker process has `buffers` to `finalists`.
enum class TuningStage {
  search,         // the strategy chooses the next configuration
  compile,        // waits for a compile job
  buffers,        // allocates and fills the tensors of a problem
  reference,      // computes the expected outputs of a problem
  load,           // loads the module
  verify,         // before timing
  capture,        // records the graph of a sample
  samples,        // flushes and timed replays
  second_verify,  // after timing, on other inputs
  finalists,      // all of the above for the finalists of a problem
  row             // writes the row
};
inline constexpr std::size_t kTuningStages = 11;

/// "second verify"
std::string_view name_of(TuningStage stage);

class StageTimes {
 public:
  double& operator[](TuningStage stage) { return seconds_[static_cast<std::size_t>(stage)]; }
  double operator[](TuningStage stage) const { return seconds_[static_cast<std::size_t>(stage)]; }
  StageTimes& operator+=(const StageTimes& other);
  StageTimes& operator-=(const StageTimes& other);
  double sum() const;

 private:
  std::array<double, kTuningStages> seconds_{};
};

/// Adds its lifetime to a stage.
class StageTimer {
 public:
  StageTimer(StageTimes& times, TuningStage stage) : seconds_(times[stage]) {}
  ~StageTimer() { seconds_ += watch_.seconds(); }
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;

 private:
  double& seconds_;
  const Stopwatch watch_;
};

}  // namespace warptune
