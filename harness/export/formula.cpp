#include "harness/export/formula.h"

#include <algorithm>

#include "harness/core/variant.h"

namespace warptune {
namespace {

constexpr std::int64_t kMaxDivisor = 1 << 16;

/// plus + times * ceil(multiplier * v / divisor)
struct Shape {
  std::int64_t plus = 0, times = 1, multiplier = 1, divisor = 1;

  std::int64_t at(std::int64_t v) const { return plus + times * ceil_div(multiplier * v, divisor); }
};

bool equals(const Shape& shape, std::span<const std::int64_t> values, std::span<const std::int64_t> results) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (shape.at(values[i]) != results[i]) return false;
  return true;
}

/// `through_zero`: without `plus`.
std::optional<Shape> fit_shape(std::span<const std::int64_t> values, std::span<const std::int64_t> results,
                               bool through_zero) {
  const std::int64_t first = values.front(), last = values.back(), rise = results.back() - results.front();
  if (last == first) return std::nullopt;
  if (rise % (last - first) == 0) {
    Shape line{.times = rise / (last - first)};
    line.plus = results.back() - line.times * last;
    if ((line.plus == 0 || !through_zero) && equals(line, values, results)) return line;
  }
  if (rise < 0 || last <= 0) return std::nullopt;
  for (std::int64_t divisor = 2; divisor <= std::min(kMaxDivisor, last); ++divisor) {
    const std::int64_t steps = ceil_div(last, divisor);
    const Shape staircase{.times = results.back() / steps, .divisor = divisor};
    if (equals(staircase, values, results)) return staircase;
  }
  for (std::int64_t divisor = 2; divisor <= kMaxDivisor; ++divisor) {
    const Shape rounded{.multiplier = results.back() * divisor / last, .divisor = divisor};
    if (equals(rounded, values, results)) return rounded;
  }
  return std::nullopt;
}

}  // namespace

std::int64_t LaunchFormula::evaluate(const std::function<std::int64_t(const std::string&)>& value) const {
  std::int64_t product = times;
  for (const Factor& f : factors) product *= ceil_div(f.multiplier * value(f.name), f.divisor);
  return plus + product;
}

std::optional<LaunchFormula> fit_formula(std::span<const Axis> axes, std::span<const std::int64_t> base,
                                         const AxisFunction& function) {
  const std::int64_t at_base = function(base);
  std::vector<std::pair<const Axis*, std::vector<std::int64_t>>> moving;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    std::vector<std::int64_t> point(base.begin(), base.end()), results;
    for (const std::int64_t value : axes[i].values) {
      point[i] = value;
      results.push_back(function(point));
    }
    if (std::ranges::any_of(results, [&](std::int64_t r) { return r != at_base; }))
      moving.emplace_back(&axes[i], std::move(results));
  }
  if (moving.empty()) return LaunchFormula{.plus = at_base};
  LaunchFormula formula{.times = 1};
  for (const auto& [axis, results] : moving) {
    const auto shape = fit_shape(axis->values, results, moving.size() > 1);
    if (!shape) return std::nullopt;
    formula.factors.push_back({axis->name, shape->multiplier, shape->divisor});
    formula.plus = shape->plus;
    formula.times = shape->times;
  }
  if (moving.size() > 1) {  // each shape's `times` holds the others' factors at the base
    LaunchFormula product{.times = 1, .factors = formula.factors};
    const std::int64_t factors = product.evaluate([&](const std::string& name) {
      return base[static_cast<std::size_t>(std::ranges::find(axes, name, &Axis::name) - axes.begin())];
    });
    if (factors == 0 || at_base % factors != 0) return std::nullopt;
    formula = {.times = at_base / factors, .factors = product.factors};
  }
  return formula;
}

std::vector<std::int64_t> sample_values(std::int64_t from, std::int64_t to, std::size_t count) {
  std::vector<std::int64_t> values;
  const auto width = static_cast<std::size_t>(to - from) + 1;
  if (width <= count) {
    for (std::int64_t v = from; v <= to; ++v) values.push_back(v);
    return values;
  }
  constexpr std::int64_t kRun = 4;  // neighbors tell the divisor of a ceiling, and odd values from even ones
  const auto runs = static_cast<std::int64_t>(std::max<std::size_t>(2, count / kRun));
  for (std::int64_t i = 0; i < runs; ++i)
    for (std::int64_t k = 0; k < kRun; ++k)
      values.push_back(from + i * (to - kRun + 1 - from) / (runs - 1) + k);
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

}  // namespace warptune
