#pragma once
// Predicts times by a fit to how launches load the device.
#include <string_view>
#include <vector>

#include "harness/select/predict.h"
#include "harness/select/time_fit.h"

namespace warptune {

/// Takes the configuration with the least predicted time, of all that were timed on problems of the same
/// features and that keep their constraints on this one.
///
/// The times of a kernel (a variant with all its parameters but the number of splits) on other problems are
/// fitted by what they should be made of (time_parts()): the nearest of them, and the nearer the more
/// (Cleveland, "Locally weighted regression", 1979), a little more in one fit and much more in another,
/// between which the time lies. Kernels that differ only in their L2 prefetch count as farther, and so do
/// other features where memory decides. A configuration takes no less than on a problem that is nowhere
/// larger, and no more than on one that is nowhere smaller. The error of a fit counts against what it
/// predicts. Where nothing near was timed nothing is predicted; kernels that few problems have timed are not
/// chosen.
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
    std::vector<TimedLaunch> launches;  // its own, and those that are alike without splits
    std::vector<std::size_t> problems;  // on which it was timed, each once
  };
  struct Candidate {
    Config config;
    std::size_t kernel;
    std::vector<std::size_t> problems;
  };
  struct TimedVariant {
    const Variant* variant;
    std::vector<Kernel> kernels;
    std::vector<Candidate> candidates;  // by their text
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
  std::vector<TimedVariant> variants_;  // by their names
};

}  // namespace warptune
