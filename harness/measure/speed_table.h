#pragma once
// The speed columns of every table: time, rates, percent of floor, and the speedup over the naive variant and
// the vendor library.
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/op.h"
#include "harness/core/text_table.h"

namespace warptune {

/// 0: not known.
struct Speed {
  double time_us = 0;
  Cost cost = {};
  double floor_us = 0;         // the roofline time on the device
  double naive_us = 0;         // the naive variant's time
  double vendor_us = 0;        // the best time of a variant that calls a library
  std::string published = {};  // "27.3 vLLM 0.14.0": others' time (results/published.h)

  /// Keeps the time of a naive variant, or of one that calls a library, if it is the best.
  void note(std::string_view variant, bool calls_library, double us);
};

/// "us", "GB/s", "TFLOP/s", "% floor", "x naive", "x vendor", "published".
std::vector<TextTable::Column> speed_columns();
std::vector<Cell> speed_cells(const Speed& speed);

}  // namespace warptune
