// Numbers of a launch that depend on the problem: formulas, evaluated without overflow.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "warptune/detail/json.h"

namespace warptune::detail {

/// Magnitudes of all numbers in formulas. The sum of two of them is an int64.
inline constexpr std::int64_t kMaxMagnitude = std::int64_t{1} << 61;

/// A number, or plus + times * the product of ceil(multiplier * value / divisor) over the factors. A factor
/// knows its value by an index.
class Formula {
 public:
  /// `index_of(json)` is the index of the value that a factor names; it throws Error for an unknown name.
  template <class IndexOf>
  Formula(const Json& json, const IndexOf& index_of) : name_(json.name()) {
    const auto number = [](const Json& value) { return value.whole(-kMaxMagnitude, kMaxMagnitude); };
    if (json.is(Json::Kind::number)) {
      plus_ = number(json);
      return;
    }
    if (!json.is(Json::Kind::object)) throw Error("'" + name_ + "' must be a number or a formula");
    plus_ = number(json["plus"]);
    times_ = number(json["times"]);
    for (const Json& f : json["factors"].list())
      factors_.push_back({index_of(f["of"]), number(f["multiplier"]), f["divisor"].whole(1, kMaxMagnitude)});
  }

  bool is_zero() const { return plus_ == 0 && times_ == 0; }

  /// `value_at(index)` is a value. The result is from `least` to `most`; Error otherwise.
  template <class ValueAt>
  std::int64_t evaluate(const ValueAt& value_at, std::int64_t least, std::int64_t most) const {
    std::int64_t result = times_;
    for (const Factor& f : factors_) {
      const std::int64_t scaled = product(f.multiplier, bounded(value_at(f.of)));
      result = product(result, bounded(scaled + (f.divisor - 1)) / f.divisor);
    }
    result = bounded(result + plus_);
    if (result >= least && result <= most) return result;
    throw Error("'" + name_ + "' is " + std::to_string(result) + " here; it must be from " +
                std::to_string(least) + " to " + std::to_string(most));
  }

 private:
  struct Factor {
    std::size_t of;
    std::int64_t multiplier, divisor;
  };
  std::int64_t bounded(std::int64_t value) const {
    if (value >= -kMaxMagnitude && value <= kMaxMagnitude) return value;
    throw Error("'" + name_ + "' is beyond 2^61 here");
  }
  std::int64_t product(std::int64_t a, std::int64_t b) const {
    const auto magnitude = [](std::int64_t value) { return value < 0 ? -value : value; };
    if (b == 0 || magnitude(a) <= kMaxMagnitude / magnitude(b)) return a * b;
    throw Error("'" + name_ + "' is beyond 2^61 here");
  }

  std::string name_;
  std::int64_t plus_ = 0, times_ = 0;
  std::vector<Factor> factors_;
};

}  // namespace warptune::detail
