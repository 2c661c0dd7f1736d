#pragma once
// Who is timed again after screening, and who wins. Pure functions of measurements.
#include <optional>
#include <span>
#include <vector>

#include "harness/measure/measurement.h"

namespace warptune {

/// Two medians closer than this are the same: what one run differs from the next by, whatever the intervals.
inline constexpr double kSameTime = 0.005;

/// The indices of the fastest right configurations that were not abandoned, at most `most`, fastest first.
std::vector<std::size_t> choose_finalists(std::span<const Measurement> measurements, int most);

struct Choice {
  std::size_t winner = 0;
  std::vector<std::size_t> tied;  // the others whose time cannot be told from the fastest, in canonical order
  bool throttled = false;         // the winner's time is of a device that held its clocks down
};

/// Measurements stand in canonical order. Tied with the fastest are those whose interval of the median
/// overlaps its own, or whose median is within kSameTime of it. Of all these the simplest wins: least shared
/// memory, then fewest registers, then canonical order. Nothing where none is ok.
std::optional<Choice> choose_winner(std::span<const Measurement> measurements);

}  // namespace warptune
