#include "harness/core/brief.h"

#include <fmt/format.h>

namespace warptune {

namespace {

constexpr std::size_t kMost = 120, kBeginning = 80;  // bytes

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u; }  // UTF-8

}  // namespace

std::string brief(std::string_view text) {
  if (text.size() <= kMost) return std::string(text);
  std::size_t end = kBeginning;
  while (end > 0 && continues_character(text[end])) --end;
  return fmt::format("{}... ({} bytes)", text.substr(0, end), text.size());
}

}  // namespace warptune
