#pragma once
#include "harness/tune/schedule.h"

namespace warptune::testing {

/// A candidate whose space has no other configuration.
inline Candidate candidate(const Variant& variant, const Config& config) {
  Variant one{.name = variant.name};
  for (const auto& entry : config) one.parameters.push_back({entry.name, {entry.value}});
  return {variant, std::make_shared<const Space>(one, Problem{}, DeviceFacts{}), 0};
}

}  // namespace warptune::testing
