#pragma once
// User input in error messages: shortened quotes, and suggestions for misspelled names.
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace warptune {

/// Whether a byte continues a character of UTF-8.
bool continues_character(char c);

/// The text with control characters and bytes that are not UTF-8 escaped: "\n", "\x1b", "\xff".
std::string printable(std::string_view text);

/// The text, printable. A long one becomes its beginning, "..." and its length in bytes, so that the error
/// message stays readable.
std::string brief(std::string_view text);

/// "a, b, c", or "none".
std::string listed(std::span<const std::string> names);

/// "; did you mean 'vec'?" where a known name is at most two edits from the given one, else "".
std::string near_miss(std::string_view given, std::span<const std::string> known);

/// The end of a sentence about an unknown name: "; did you mean 'bf16'?", or "; known are fp32, fp16" with
/// `otherwise` ("known are") before the list.
std::string did_you_mean(std::string_view given, std::span<const std::string> known,
                         std::string_view otherwise = "known are");

/// The names of a range of things that have one.
template <class Range>
std::vector<std::string> names_of(const Range& range) {
  std::vector<std::string> names;
  for (const auto& item : range) names.emplace_back(item.name);
  return names;
}

}  // namespace warptune
