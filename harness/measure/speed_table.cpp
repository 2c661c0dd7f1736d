#include "harness/measure/speed_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/core/variant.h"

namespace warptune {
namespace {

Cell percent_of_floor(const Speed& s) {
  if (s.floor_us <= 0 || s.time_us <= 0) return {};
  const double percent = 100 * s.floor_us / s.time_us;
  return {fmt::format("{:.1f}", percent), percent >= 75   ? Color::green
                                          : percent >= 40 ? Color::yellow
                                                          : Color::red};
}

Cell times_faster(double other_us, double time_us) {
  if (other_us <= 0 || time_us <= 0) return {};
  const double times = other_us / time_us;
  return {fmt::format("{:.2f}", times), times >= 1 ? Color::green : Color::red};
}

/// Three significant digits or, below 1, two.
std::string rate(double value) {
  if (value > 0 && value < 1) return fmt::format("{:.2g}", value);
  return known_number(value, value >= 100 ? 0 : value >= 10 ? 1 : 2);
}

}  // namespace

void Speed::note(std::string_view variant, bool calls_library, double us) {
  const auto keep_best = [us](double& best) { best = best > 0 ? std::min(best, us) : us; };
  if (is_naive(variant)) keep_best(naive_us);
  if (calls_library) keep_best(vendor_us);
}

std::vector<TextTable::Column> speed_columns() {
  return {{"us"}, {"GB/s"}, {"TFLOP/s"}, {"% floor"}, {"x naive"}, {"x vendor"}, text_column("published")};
}

std::vector<Cell> speed_cells(const Speed& s) {
  const double per_us = s.time_us > 0 ? 1 / s.time_us : 0;
  return {known_number(s.time_us, s.time_us < 100 ? 2 : 1),
          rate(s.cost.bytes * per_us * 1e-3),
          rate(s.cost.flops * per_us * 1e-6),
          percent_of_floor(s),
          times_faster(s.naive_us, s.time_us),
          times_faster(s.vendor_us, s.time_us),
          s.published};
}

}  // namespace warptune
