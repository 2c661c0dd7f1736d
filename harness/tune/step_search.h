#pragma once
// The search of the plans of a model step: exchanges one part at a time and keeps what is faster. It knows
// parts by their numbers only.
#include <cstddef>
#include <tuple>
#include <vector>

namespace warptune {

/// The candidate that each part of the step takes, by its number.
using Picks = std::vector<std::size_t>;

/// A step that was timed interleaved with another one.
struct StepTrial {
  bool ok = false;                      // verified and timed
  double ratio = 1, low = 1, high = 1;  // its time over the other's: median and 95 % interval
};

class StepTimer {
 public:
  virtual ~StepTimer() = default;
  /// Times both interleaved. Only `candidate` may fail: `incumbent` was a candidate before.
  virtual StepTrial time(const Picks& incumbent, const Picks& candidate) = 0;
  /// Whether a part belongs to the step that takes these picks. A step with the same options was timed
  /// before: a fused step has other problems.
  virtual bool has_part(const Picks& picks, std::size_t part) const = 0;
  /// Whether the candidates of a part decide which other parts the step has: an option, such as a fusion.
  virtual bool is_option(std::size_t /*part*/) const { return false; }
  /// Whether the search may exchange two candidates of a part at once.
  virtual bool are_neighbors(std::size_t part, std::size_t a, std::size_t b) const = 0;
  /// Whether the search ends now with the picks so far.
  virtual bool time_is_over() const { return false; }
  /// Candidates with equal times are ordered by this, the least first: whether the needs are unknown, shared
  /// memory, registers and number.
  using Complexity = std::tuple<bool, long long, int, std::size_t>;
  virtual Complexity complexity(std::size_t part, std::size_t candidate) const = 0;
};

/// A ratio of times closer to 1 than this is no difference: replays of one step differ that much.
inline constexpr double kSameStep = 0.001;

/// Whether the candidate of a trial is surely faster.
bool is_faster(const StepTrial& trial);

struct StepSearch {
  Picks picks;     // the best found
  int rounds = 0;  // over all parts
  int trials = 0;
};

/// `sizes`: the number of candidates of each part. Begins at `start`, which was timed. For each part the
/// neighbors of its candidate are timed interleaved with the picks so far. If one is surely faster, the
/// simplest of the ones that tie with the fastest is timed once more, and picked if it is faster again: the
/// fastest of many samples is too often a lucky one. Then its neighbors that were not timed yet follow.
/// Otherwise the part stays, so that equal candidates do not alternate. From the second round on the parts
/// that another value of an option brings are exchanged before the two steps are compared: at first these
/// parts have the plans that are the fastest alone. Ends when nothing has changed since each part was tried,
/// after `max_rounds`, or when the time is over.
StepSearch search_step(StepTimer& timer, const std::vector<std::size_t>& sizes, Picks start,
                       int max_rounds = 8);

}  // namespace warptune
