#include "harness/core/pattern.h"

#include <fmt/format.h>

#include "harness/core/brief.h"
#include "harness/core/error.h"

namespace warptune {

std::regex pattern_of(const std::string& text, std::string_view what) {
  constexpr std::size_t kMaxBytes = 1000;
  if (text.size() > kMaxBytes)
    throw InputError(
        fmt::format("{} '{}' is too long for a regular expression; at most {} bytes are possible", what,
                    brief(text), kMaxBytes));
  try {
    return std::regex(text);
  } catch (const std::regex_error&) {
    throw InputError(fmt::format("{} '{}' is not a regular expression", what, brief(text)));
  }
}

}  // namespace warptune
