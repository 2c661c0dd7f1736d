#include "harness/core/brief.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

namespace warptune {

namespace {

constexpr std::size_t kMaxBytes = 120, kBytesQuoted = 80;

/// The bytes of the UTF-8 character that a text begins with; 0 where it is malformed or a control character.
std::size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x80) return first < 0x20 || first == 0x7f ? 0 : 1;
  const std::size_t count = first >= 0xc2 && first < 0xe0   ? 2
                            : first >= 0xe0 && first < 0xf0 ? 3
                            : first >= 0xf0 && first < 0xf5 ? 4
                                                            : 0;
  if (count == 0 || text.size() < count) return 0;
  if (!std::ranges::all_of(text.substr(1, count - 1), continues_character)) return 0;
  const bool control = first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;  // U+0080 to U+009F
  return control ? 0 : count;
}

/// Levenshtein distance; `enough` where the lengths alone differ by that much.
std::size_t edits(std::string_view a, std::string_view b, std::size_t enough) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) >= enough) return enough;
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

}  // namespace

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u; }

std::string printable(std::string_view text) {
  std::string line;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t count = character_bytes(text.substr(at));
    if (count > 0)
      line += text.substr(at, count);
    else if (text[at] == '\n')
      line += "\\n";
    else if (text[at] == '\t')
      line += "\\t";
    else
      line += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(text[at])));
    at += std::max<std::size_t>(count, 1);
  }
  return line;
}

std::string brief(std::string_view text) {
  if (text.size() <= kMaxBytes) {
    std::string whole = printable(text);
    if (whole.size() <= kMaxBytes) return whole;
  }
  std::size_t end = std::min(kBytesQuoted, text.size());
  while (end > 0 && ((end < text.size() && continues_character(text[end])) ||
                     printable(text.substr(0, end)).size() > kBytesQuoted))
    --end;
  return fmt::format("{}... ({} bytes)", printable(text.substr(0, end)), text.size());
}

std::string near_miss(std::string_view given, std::span<const std::string> known) {
  const std::string* best = nullptr;
  std::size_t least = given.size() <= 3 ? 2 : 3;  // at most one edit in a short word, two in a long one
  for (const std::string& name : known)
    if (const std::size_t d = edits(given, name, least); d < least) {
      least = d;
      best = &name;
    }
  return best ? fmt::format("; did you mean '{}'?", *best) : "";
}

std::string listed(std::span<const std::string> names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

std::string did_you_mean(std::string_view given, std::span<const std::string> known,
                         std::string_view otherwise) {
  const std::string near = near_miss(given, known);
  return near.empty() ? fmt::format("; {} {}", otherwise, listed(known)) : near;
}

}  // namespace warptune
