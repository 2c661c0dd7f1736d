#include "harness/core/print.h"

#include <algorithm>

namespace warptune {

std::string printable_lines(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find_first_of("\n\t", at), text.size());
    out += printable(text.substr(at, end - at));
    if (end < text.size()) out += text[end];
    at = end + 1;
  }
  return out;
}

void write_text(std::FILE* to, std::string_view text) { fmt::print(to, "{}", text); }

}  // namespace warptune
