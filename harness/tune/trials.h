#pragma once
// What is known of the configurations of a problem that were tried.
#include <string>
#include <vector>

#include "harness/measure/measurement.h"
#include "harness/tune/plan.h"

namespace warptune {

/// In canonical order. The three lists have one element for each configuration.
struct Trials {
  std::vector<Candidate> candidates;
  std::vector<Measurement> measurements;
  std::vector<std::string> runs;  // ids of the runs that hold their rows
  bool any_new = false;           // not all of them were known
  std::vector<double> first_us;   // as all were timed, one after the other, before the finalists in turn

  /// "no configuration is right: 3 wrong_result, 1 timeout (first: ...)"
  std::string why_none() const;
};

}  // namespace warptune
