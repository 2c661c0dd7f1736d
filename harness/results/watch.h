#pragma once
// The part of a wisdom that the regression gate times (docs/regression.md).
#include <cstddef>
#include <map>
#include <string>

#include "harness/results/wisdom.h"

namespace warptune {

struct Watched {
  Wisdom wisdom;                                // the steps and some winners, without the times of others
  std::map<std::string, std::size_t> left_out;  // how many winners are not in it, by op/variant
};

/// All steps, and of each variant the problems on which it wins that take longest, those of the steps first.
Watched watched_part(const Wisdom& wisdom, std::size_t problems_per_variant);

/// Two sentences: what is watched, and how many winners of each variant are not.
std::string summary_of(const Watched& watched);

}  // namespace warptune
