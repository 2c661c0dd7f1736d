#pragma once
// The errors of elements against expected values, as the host and a device count them.
#include "kernels/common/vec_width.h"

namespace warptune {

struct ElementErrors {
  static constexpr long long kNone = 0x7fffffffffffffffll;
  double squares = 0;         // sum of the squared errors
  double largest = 0;         // error
  long long worst = kNone;    // the first element that has it
  long long unequal = kNone;  // the first element that must be equal and is not: an integer, NaN or infinity
};

/// Adds element `i`. An error counts beyond `slack`, the rounding error of the expected value.
WARPTUNE_HOST_DEVICE inline void add_error(ElementErrors& errors, double got, double want, double slack,
                                           bool is_exact, long long i) {
  const bool is_nan = got != got, is_finite = want - want == 0;
  if (is_exact || is_nan || !is_finite) {
    const bool is_equal = got == want || (!is_exact && is_nan && want != want);
    if (!is_equal && i < errors.unequal) errors.unequal = i;
    return;
  }
  const double beyond = (got < want ? want - got : got - want) - slack, error = beyond > 0 ? beyond : 0;
  errors.squares += error * error;
  if (error > errors.largest) {
    errors.largest = error;
    errors.worst = i;
  }
}

/// Adds other elements. The order does not matter: of equal errors the first element has the largest.
WARPTUNE_HOST_DEVICE inline void add_errors(ElementErrors& errors, const ElementErrors& other) {
  errors.squares += other.squares;
  if (other.largest > errors.largest || (other.largest == errors.largest && other.worst < errors.worst)) {
    errors.largest = other.largest;
    errors.worst = other.worst;
  }
  if (other.unequal < errors.unequal) errors.unequal = other.unequal;
}

}  // namespace warptune
