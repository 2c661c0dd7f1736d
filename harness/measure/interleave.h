#pragma once
// Samples of several replays in turn, A B C A B C, so that what drifts (clocks, heat) drifts for all alike.
#include "harness/measure/sampler.h"

namespace warptune {

struct InterleaveRule {
  int rounds = 21;
  double max_rel_ci = 0.005;  // only to say whether an interval is as narrow as wanted
  double max_time = 4;        // seconds for all together; at least 3 rounds are made
  int max_discarded = 32;     // throttled samples of each that are taken again
};

/// `sample(i)` times candidate i. One that gives no time (negative or not finite) is left out from then on;
/// its stop is no_time.
std::vector<Samples> interleave(const InterleaveRule& rule, std::size_t candidates,
                                const std::function<Sample(std::size_t)>& sample, Seconds now = {});

}  // namespace warptune
