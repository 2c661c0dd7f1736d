#include "harness/measure/stage_times.h"

#include <numeric>

namespace warptune {

std::string_view name_of(TuningStage stage) {
  static constexpr std::array<std::string_view, kTuningStages> names = {
      "search",  "wait for a compile", "buffers",   "reference", "load", "verify", "capture",
      "samples", "second verify",      "finalists", "row"};
  return names[static_cast<std::size_t>(stage)];
}

StageTimes& StageTimes::operator+=(const StageTimes& other) {
  for (std::size_t i = 0; i < kTuningStages; ++i) seconds_[i] += other.seconds_[i];
  return *this;
}

StageTimes& StageTimes::operator-=(const StageTimes& other) {
  for (std::size_t i = 0; i < kTuningStages; ++i) seconds_[i] -= other.seconds_[i];
  return *this;
}

double StageTimes::sum() const { return std::accumulate(seconds_.begin(), seconds_.end(), 0.0); }

}  // namespace warptune
