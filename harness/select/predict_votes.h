#pragma once
// Predicts the fastest configuration by a vote of the nearest tuned problems.
#include <map>
#include <vector>

#include "harness/select/predict.h"

namespace warptune {

/// A weighted vote of k nearest neighbors (Dudani, "The distance-weighted k-nearest-neighbor rule", 1976).
///
/// Every configuration that was timed on one of the kNeighbors nearest problems of the same op and dtype is a
/// candidate if it satisfies its constraints on the problem. The distance of two problems is the sum over
/// dims of |log2(a / b)|; a label that differs adds kOtherLabel. A neighbor weighs 1 / (d + 0.3)^2.
///
/// A neighbor scores a candidate with log(time / best time there): a ratio, so that neighbors of different
/// sizes can be averaged. Wisdom stores only the fastest times of a problem (times_of(),
/// tune/device_tuner.cpp) and the best time of each variant. A configuration without a time therefore
/// scores a little more than the best of its variant; a variant without a time scores kUnknownVariant.
/// The least weighted mean wins. docs/choosing.md has the measured regret.
class VotePredictor : public Predictor {
 public:
  explicit VotePredictor(const RecordedTimes& times);
  std::optional<Prediction> predict(const Problem& problem) const override;

 private:
  struct Candidate {
    const Variant* variant;
    Config config;
  };
  struct TunedProblem {
    Problem problem;                           // without omitted dims
    Assignment dims;                           // all dims
    double best_us;                            // the best valid time
    std::map<std::size_t, double> us;          // by index in candidates_
    std::map<const Variant*, double> best_of;  // us
  };
  struct Neighbor {
    const TunedProblem* tuned;
    double weight;

    double score(std::size_t index, const Candidate& candidate) const;
  };

  struct Reader;

  double distance(const Assignment& a, const Assignment& b) const;
  std::vector<Neighbor> neighbors(const Problem& problem) const;
  /// The candidate with the least score that can run; stores the score in `score`.
  const Candidate* winner(const Problem& problem, const std::vector<Neighbor>& neighbors,
                          double& score) const;
  /// The best time: the weighted geometric mean of the neighbors' best times, each scaled with the root of
  /// the bytes, between a launch-bound op (constant time) and a memory-bound one (proportional).
  double best_us(const Problem& problem, const std::vector<Neighbor>& neighbors) const;

  const OpEntry& op_;
  const DeviceFacts& facts_;
  std::vector<Candidate> candidates_;
  std::vector<TunedProblem> problems_;
};

}  // namespace warptune
