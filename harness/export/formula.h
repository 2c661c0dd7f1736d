#pragma once
// Numbers of a launch that depend on dims, as formulas that other programs evaluate.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace warptune {

/// plus + times * the product of ceil(multiplier * value / divisor) over the factors.
struct LaunchFormula {
  struct Factor {
    std::string name;  // of a dim, or of a member of the args struct
    std::int64_t multiplier = 1, divisor = 1;
    bool operator==(const Factor&) const = default;
  };
  std::int64_t plus = 0, times = 0;
  std::vector<Factor> factors = {};  // empty: the number `plus`

  std::int64_t evaluate(const std::function<std::int64_t(const std::string&)>& value) const;
  bool operator==(const LaunchFormula&) const = default;
};

/// A variable with the values at which a function is known.
struct Axis {
  std::string name;
  std::vector<std::int64_t> values;
};

/// A function of the values of the axes, in their order.
using AxisFunction = std::function<std::int64_t(std::span<const std::int64_t>)>;

/// The formula that equals a function at every value of each axis, with the other axes at `base`. Empty if
/// there is none. The caller checks other points.
std::optional<LaunchFormula> fit_formula(std::span<const Axis> axes, std::span<const std::int64_t> base,
                                         const AxisFunction& function);

/// Values of [from, to], ascending, with both ends: all of them, or `count` with runs of neighbors at both
/// ends and between.
std::vector<std::int64_t> sample_values(std::int64_t from, std::int64_t to, std::size_t count);

}  // namespace warptune
