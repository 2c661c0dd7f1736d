#include "harness/core/brief.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace warptune {

namespace {

constexpr std::size_t kMaxBytes = 120, kBytesQuoted = 80;

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u; }  // UTF-8

/// Levenshtein distance.
std::size_t edits(std::string_view a, std::string_view b) {
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

std::string brief(std::string_view text) {
  if (text.size() <= kMaxBytes) return std::string(text);
  std::size_t end = kBytesQuoted;
  while (end > 0 && continues_character(text[end])) --end;
  return fmt::format("{}... ({} bytes)", text.substr(0, end), text.size());
}

std::string near_miss(std::string_view given, std::span<const std::string> known) {
  const std::string* best = nullptr;
  std::size_t least = given.size() <= 3 ? 2 : 3;  // at most one edit in a short word, two in a long one
  for (const std::string& name : known)
    if (const std::size_t d = edits(given, name); d < least) {
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
