#pragma once
// Predicts times by a fit to the load of a launch.
#include <string_view>
#include <vector>

#include "harness/select/predict.h"
#include "harness/select/time_fit.h"

namespace warptune {

/// Chooses the configuration with the least predicted time. Candidates are the configurations that were timed
/// on a problem with the same features and that satisfy the constraints on this problem.
///
/// A kernel is a variant with all its parameters but the number of splits. Its times on the nearest other
/// problems are fitted to the terms of time_parts(), with weights that fall with distance (Cleveland,
/// "Locally weighted regression", 1979). There are two fits, one with weakly and one with strongly falling
/// weights; the prediction is their geometric mean. Kernels that differ only in their L2 prefetch count with
/// an added distance, and so do other features if the launch is memory bound. The prediction is bounded: a
/// configuration is not faster than on a problem whose sizes are all at most as large, and not slower than on
/// one whose sizes are all at least as large. The error of a fit is added to its time as a penalty. Without a
/// near timed launch there is no prediction. Kernels that were timed on few problems are not chosen.
class FitPredictor : public Predictor {
 public:
  explicit FitPredictor(const RecordedTimes& times);
  std::optional<Prediction> predict(const Problem& problem) const override;

 private:
  /// The values of all dims but those of DimRole::shape.
  using Sizes = std::vector<std::int64_t>;

  struct TunedProblem {
    Problem problem;
    Sizes sizes;
    double least_us_per_byte;  // of work
  };
  struct TimedLaunch {
    std::size_t problem;  // in problems_
    LoadPoint point;
    TimeParts parts;
    double splits;
    std::int64_t l2_prefetch;
    bool memory_bound;
    double time_us;
  };
  struct Kernel {
    std::vector<TimedLaunch> launches;  // its own, and those of kernels that are equal without splits
    std::vector<std::size_t> problems;  // the problems on which it was timed
  };
  struct Candidate {
    Config config;
    std::size_t kernel;
    std::vector<std::size_t> problems;
  };
  struct TimedVariant {
    const Variant* variant;
    std::vector<Kernel> kernels;
    std::vector<Candidate> candidates;  // in the order of their text
  };
  /// How a tuned problem compares with the problem to predict.
  enum class Similarity : char { itself, other_features, same_features };

  struct Bounds;
  struct Reader;

  std::vector<Similarity> similarities(const Problem& problem) const;
  std::optional<TimeFit::Estimate> estimate(const Kernel& kernel, const std::vector<Similarity>& similar,
                                            const LaunchLoad& load, const Sizes& sizes,
                                            std::int64_t l2_prefetch) const;
  Sizes sizes_of(const Problem& problem) const;
  bool same_features(const Problem& a, const Problem& b) const;

  const OpEntry& op_;
  const DeviceFacts& facts_;
  std::vector<TunedProblem> problems_;
  std::vector<TimedVariant> variants_;  // in the order of their names
};

}  // namespace warptune
