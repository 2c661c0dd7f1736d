#pragma once
// Random orders that do not depend on the standard library.
#include <cstddef>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace warptune {

inline std::vector<std::size_t> listed(std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

inline std::vector<std::size_t> shuffled(std::size_t count, std::mt19937_64& random) {
  auto order = listed(count);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

}  // namespace warptune
