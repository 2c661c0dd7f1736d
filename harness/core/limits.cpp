#include "harness/core/limits.h"

#include <fmt/format.h>

#include <charconv>

#include "harness/core/brief.h"
#include "harness/core/error.h"

namespace warptune {

std::int64_t whole_number(std::string_view text, std::string_view what) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = end == text.data() + text.size();
  if (whole && error == std::errc::result_out_of_range)
    throw InputError(fmt::format("{} is {}, which does not fit 64 bits", what, brief(text)));
  if (!whole || error != std::errc())
    throw InputError(fmt::format("{} is '{}'; it must be an integer", what, brief(text)));
  return value;
}

void check_dim(const Op& op, const Dim& dim, std::int64_t value) {
  if (value < dim.min)
    throw InputError(
        fmt::format("dim '{}' of op '{}' is {}; it must be at least {}", dim.name, op.name, value, dim.min));
  if (value > dim.max)
    throw InputError(
        fmt::format("dim '{}' of op '{}' is {}; it must be at most {}", dim.name, op.name, value, dim.max));
}

}  // namespace warptune
