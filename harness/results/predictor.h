#pragma once
// Which configuration to take for a problem that was not tuned, and what it should take there.
#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "harness/core/variant.h"
#include "harness/results/time_fit.h"
#include "harness/results/wisdom.h"

namespace warptune {

struct PredictedConfig {
  const Variant* variant = nullptr;
  Config config;
  double time_us = 0;
};

/// Whether the times of a variant still hold here.
using Holds = std::function<bool(const Winner&, const VariantTimes&)>;

/// What a wisdom's times of one op and dtype say of its other problems. Of fifty thousand times, to read them
/// takes about a second, to ask some hundredths of one: make one and ask it often.
class Predictor {
 public:
  /// Keeps nothing of the wisdom; the facts must outlive it.
  Predictor(const Wisdom& wisdom, std::string_view op, DType dtype, const DeviceFacts& facts,
            const Holds& holds);

  /// The configuration that should be the fastest, of all that were timed on problems of the same features
  /// and that keep their constraints on this one; nothing where too little is known. The times of this very
  /// problem do not count.
  ///
  /// The times of a kernel (a variant with all its parameters but the number of splits) on other problems are
  /// fitted by what they should be made of (parts_of()): the nearest of them, and the nearer the more
  /// (Cleveland, "Locally weighted regression", 1979), a little more in one fit and much more in another,
  /// between which the time lies. Kernels that differ only in `ahead` count as farther, and so do other
  /// features where bytes decide. A configuration takes no less than on a problem that is nowhere larger, and
  /// no more than on one that is nowhere smaller. The error of a fit counts against what it predicts. Where
  /// nothing near was timed nothing is predicted; kernels that few problems have timed are not chosen.
  std::optional<PredictedConfig> at(const Problem& problem) const;

 private:
  static constexpr std::string_view kWorkDims[] = {"tokens", "batch",   "context",  "q_len",
                                                   "kv_len", "q_heads", "kv_heads", "uneven"};
  /// What kWorkDims are of a problem; 0 for those that it has not.
  using Sizes = std::array<std::int64_t, std::size(kWorkDims)>;

  struct Tuned {
    Problem problem;
    Sizes sizes;
    double least_rate;  // us of a byte of work
  };
  struct Timed {
    std::size_t tuned;  // the problem
    Place place;
    TimeParts parts;
    double splits;
    std::int64_t ahead;
    bool memory;
    double time_us;
  };
  struct Kernel {
    std::vector<Timed> times;           // its own, and those that are alike without splits
    std::vector<std::size_t> timed_on;  // problems, each once
  };
  struct Candidate {
    Config config;
    std::size_t kernel;
    std::vector<std::size_t> timed_on;
  };
  struct Known {
    const Variant* variant;
    std::vector<Kernel> kernels;
    std::vector<Candidate> candidates;  // by their text
  };
  /// What a tuned problem is to the one that is asked about.
  enum class Kin : char { itself, other_features, same_features };

  struct Bounds;
  struct Reader;

  std::vector<Kin> kin_of(const Problem& problem) const;
  std::optional<TimeFit::Estimate> time_of(const Kernel& kernel, const std::vector<Kin>& kin,
                                           const LaunchLoad& load, const Sizes& sizes,
                                           std::int64_t ahead) const;
  static Sizes sizes_of(const Problem& problem);
  static bool same_features(const Problem& a, const Problem& b);

  const OpEntry& entry_;
  const DeviceFacts& facts_;
  std::vector<Tuned> tuned_;
  std::vector<Known> known_;  // by the names of variants
};

}  // namespace warptune
