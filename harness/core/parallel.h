#pragma once
// Loops over host threads, by OpenMP; without it, on one.
#include <concepts>
#include <exception>

namespace warptune {

/// Throws the first exception of a body after the loop: OpenMP ends the program where one leaves a thread.
template <std::integral Count, class Body>
void parallel_for(Count n, [[maybe_unused]] int threads, Body&& body) {
  std::exception_ptr error;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
  for (Count i = 0; i < n; ++i) {
    try {
      body(i);
    } catch (...) {
#pragma omp critical
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace warptune
