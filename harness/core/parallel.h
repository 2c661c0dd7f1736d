#pragma once
// Loops over host threads, by OpenMP; without it, on one. An exception must not leave the body.
#include <cstdint>

namespace warptune {

template <class Body>
void parallel_for(std::int64_t n, [[maybe_unused]] int threads, Body&& body) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
  for (std::int64_t i = 0; i < n; ++i) body(i);
}

}  // namespace warptune
