#pragma once
// UTF-8 and the character classes that tokenizers use.
#include <cstddef>
#include <string>
#include <string_view>

namespace warptune {

/// What a text begins with.
struct Utf8Head {
  enum class Kind { character, incomplete, invalid };
  Kind kind;
  std::size_t bytes;  // of the character; else the longest beginning that a character could have
};

/// Of a text that is not empty. `incomplete`: the text ends within a character.
Utf8Head utf8_head(std::string_view text);
/// The bytes before the first that is not UTF-8; the size of the text if it is valid.
std::size_t valid_utf8_bytes(std::string_view text);
/// The bytes of the last character of a valid text that is not empty.
std::size_t last_character_bytes(std::string_view text);

/// Classes of one character: Unicode's White_Space, and a part of a word (\w).
bool is_space(std::string_view character);
bool is_word(std::string_view character);

inline constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";  // U+FFFD
inline constexpr std::string_view kSpaceMarker = "\xe2\x96\x81";           // U+2581, SentencePiece's blank

}  // namespace warptune
