#pragma once
// Search strategies: which configuration to try next. A strategy is a pure function of the space, the seed
// and the results so far.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/search/budget.h"
#include "harness/search/space.h"

namespace warptune {

class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Proposes a new candidate; nothing where all were proposed. Several proposals may be in flight before the
  /// first result.
  virtual std::optional<std::size_t> next() = 0;
  /// Reports the time of a proposed candidate; nothing if it failed.
  virtual void tell(std::size_t candidate, std::optional<double> time_us) = 0;
};

const std::vector<std::string>& strategy_names();
/// Throws InputError for an unknown name.
std::unique_ptr<Strategy> make_strategy(const SearchChoice& choice, SearchSpace space);

std::unique_ptr<Strategy> make_exhaustive(const SearchSpace& space);
std::unique_ptr<Strategy> make_random(const SearchSpace& space, std::uint64_t seed);
std::unique_ptr<Strategy> make_local_search(const SearchSpace& space, std::uint64_t seed);
std::unique_ptr<Strategy> make_bayesian(const SearchSpace& space, std::uint64_t seed);
std::unique_ptr<Strategy> make_guided(const SearchSpace& space, std::uint64_t seed);
/// Another program proposes (docs/search.md). Its strategy throws InputError where the program ends, is late,
/// or proposes what is not in the space.
std::unique_ptr<Strategy> make_command(const SearchSpace& space, const SearchChoice& choice);

}  // namespace warptune
