#pragma once
// Samples several replays interleaved, A B C A B C, so that drift (clocks, heat) affects all alike.
#include "harness/measure/sampler.h"

namespace warptune {

struct InterleaveRule {
  int rounds = 21;
  double max_rel_ci = 0.005;  // decides whether an interval is narrow enough, not when to stop
  double max_time = 4;        // seconds for all candidates; at least 3 rounds are sampled
  int max_discarded = 32;     // throttled samples per candidate that are taken again
  /// Whether the samples so far decide, from kMinSamplesForInterval of each on.
  std::function<bool(const std::vector<Samples>&)> is_decided = {};
};

/// `sample(i)` times candidate i. A candidate that returns no time (negative or not finite) is skipped from
/// then on; its stop is no_time. The drift of a round is how long it took beside others: the median, over the
/// candidates, of their sample over the median of their samples. One candidate alone has none.
std::vector<Samples> interleave(const InterleaveRule& rule, std::size_t candidates,
                                const std::function<Sample(std::size_t)>& sample,
                                const Seconds& now = steady_seconds);

}  // namespace warptune
