// Strategy local_search: moves to the first better neighbor, one parameter at a time; at a local minimum it
// restarts from a random configuration.
#include <cmath>
#include <deque>

#include "harness/search/shuffled.h"
#include "harness/search/strategy.h"

namespace warptune {
namespace {

class LocalSearch final : public Strategy {
 public:
  LocalSearch(const SearchSpace& space, std::uint64_t seed)
      : grids_(grids_of(space)),
        random_(seed),
        starts_(space.likely),
        proposed_(space.candidates.size()),
        position_(space.candidates.size()) {
    const auto others = shuffled(space.candidates.size(), random_);
    starts_.insert(starts_.end(), others.begin(), others.end());
    for (std::size_t g = 0; g < grids_.size(); ++g)
      for (std::size_t m = 0; m < grids_[g].members().size(); ++m) position_[grids_[g].members()[m]] = {g, m};
  }

  std::optional<std::size_t> next() override {
    while (!around_.empty()) {
      const std::size_t candidate = around_.front();
      around_.pop_front();
      if (!proposed_[candidate]) return propose(candidate);
    }
    while (start_ < starts_.size() && proposed_[starts_[start_]]) ++start_;
    if (start_ == starts_.size()) return std::nullopt;
    here_ = INFINITY;  // so that the next result is accepted
    return propose(starts_[start_]);
  }

  void tell(std::size_t candidate, std::optional<double> time_us) override {
    if (!time_us || *time_us >= here_) return;
    here_ = *time_us;
    const auto [grid, member] = position_[candidate];
    const auto near = grids_[grid].neighbors(member);
    around_.clear();
    for (const std::size_t i : shuffled(near.size(), random_))
      around_.push_back(grids_[grid].members()[near[i]]);
  }

 private:
  std::size_t propose(std::size_t candidate) {
    proposed_[candidate] = true;
    return candidate;
  }

  std::vector<VariantGrid> grids_;
  std::mt19937_64 random_;
  std::vector<std::size_t> starts_;
  std::vector<bool> proposed_;
  std::vector<std::pair<std::size_t, std::size_t>> position_;  // grid and member of each candidate
  std::deque<std::size_t> around_;
  std::size_t start_ = 0;
  double here_ = INFINITY;
};

}  // namespace

std::unique_ptr<Strategy> make_local_search(const SearchSpace& space, std::uint64_t seed) {
  return std::make_unique<LocalSearch>(space, seed);
}

}  // namespace warptune
