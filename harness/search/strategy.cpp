#include "harness/search/strategy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/search/shuffled.h"

namespace warptune {
namespace {

/// A fixed order.
class Listed final : public Strategy {
 public:
  explicit Listed(std::vector<std::size_t> order) : order_(std::move(order)) {}
  std::optional<std::size_t> next() override {
    return at_ < order_.size() ? std::optional(order_[at_++]) : std::nullopt;
  }
  void tell(std::size_t, std::optional<double>) override {}

 private:
  std::vector<std::size_t> order_;
  std::size_t at_ = 0;
};

}  // namespace

const std::vector<std::string>& strategy_names() {
  static const std::vector<std::string> names = {"exhaustive", "random", "local_search",
                                                 "bayesian",   "guided", "command"};
  return names;
}

std::unique_ptr<Strategy> make_exhaustive(const SearchSpace& space) {
  return std::make_unique<Listed>(listed(space.candidates.size()));
}

std::unique_ptr<Strategy> make_random(const SearchSpace& space, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  return std::make_unique<Listed>(shuffled(space.candidates.size(), random));
}

std::unique_ptr<Strategy> make_strategy(const SearchChoice& choice, SearchSpace space) {
  const std::string& name = choice.strategy;
  const std::uint64_t seed = choice.seed;
  if (name == "exhaustive") return make_exhaustive(space);
  if (name == "random") return make_random(space, seed);
  if (name == "local_search") return make_local_search(space, seed);
  if (name == "bayesian") return make_bayesian(space, seed);
  if (name == "guided") return make_guided(space, seed);
  if (name == "command") return make_command(space, choice);
  throw InputError("unknown strategy '{}'; known are {}", brief(name), fmt::join(strategy_names(), ", "));
}

}  // namespace warptune
