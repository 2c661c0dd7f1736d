#pragma once
// Validators of options that CLI11 does not have.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

namespace warptune {

/// A number of this range. Unlike CLI::Range it refuses NaN.
inline CLI::Validator within(double low, double high) {
  return {[=](std::string& text) {
            double value = 0;
            const bool number = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
            return number ? std::string()
                          : fmt::format("'{}' is not a number from {} to {}", text, low, high);
          },
          fmt::format("NUMBER in [{} - {}]", low, high)};
}

}  // namespace warptune
