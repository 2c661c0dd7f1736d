#pragma once
// Which configuration to try next. A strategy is a pure function of the space, the seed and what it was told.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/search/space.h"

namespace warptune {

class Strategy {
 public:
  virtual ~Strategy() = default;
  /// A candidate that was not proposed before; nothing where all were. Several may be asked for before the
  /// first of them is told.
  virtual std::optional<std::size_t> next() = 0;
  /// The time of a proposed candidate; nothing where it failed.
  virtual void tell(std::size_t candidate, std::optional<double> time_us) = 0;
};

const std::vector<std::string>& strategy_names();
/// Throws InputError for an unknown name.
std::unique_ptr<Strategy> make_strategy(const std::string& name, SearchSpace space, std::uint64_t seed);

std::unique_ptr<Strategy> make_exhaustive(const SearchSpace& space);
std::unique_ptr<Strategy> make_random(const SearchSpace& space, std::uint64_t seed);
std::unique_ptr<Strategy> make_local_search(const SearchSpace& space, std::uint64_t seed);
std::unique_ptr<Strategy> make_bayesian(const SearchSpace& space, std::uint64_t seed);
std::unique_ptr<Strategy> make_guided(const SearchSpace& space, std::uint64_t seed);

}  // namespace warptune
