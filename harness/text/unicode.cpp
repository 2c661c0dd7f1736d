#include "harness/text/unicode.h"

#include <re2/re2.h>

namespace warptune {
namespace {

unsigned byte_at(std::string_view text, std::size_t i) { return static_cast<unsigned char>(text[i]); }

bool matches(const re2::RE2& one_character, std::string_view character) {
  return re2::RE2::FullMatch(re2::StringPiece(character.data(), character.size()), one_character);
}

}  // namespace

Utf8Head utf8_head(std::string_view text) {
  using enum Utf8Head::Kind;
  const unsigned first = byte_at(text, 0);
  if (first < 0x80) return {character, 1};
  const std::size_t count = first >= 0xc2 && first < 0xe0   ? 2
                            : first >= 0xe0 && first < 0xf0 ? 3
                            : first >= 0xf0 && first < 0xf5 ? 4
                                                            : 0;
  if (count == 0) return {invalid, 1};
  // The second byte excludes overlong forms, surrogates, and what is above U+10FFFF.
  unsigned low = first == 0xe0 ? 0xa0u : first == 0xf0 ? 0x90u : 0x80u;
  unsigned high = first == 0xed ? 0x9fu : first == 0xf4 ? 0x8fu : 0xbfu;
  for (std::size_t i = 1; i < count; ++i) {
    if (i == text.size()) return {incomplete, i};
    if (byte_at(text, i) < low || byte_at(text, i) > high) return {invalid, i};
    low = 0x80;
    high = 0xbf;
  }
  return {character, count};
}

std::size_t valid_utf8_bytes(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Utf8Head head = utf8_head(text.substr(at));
    if (head.kind != Utf8Head::Kind::character) return at;
    at += head.bytes;
  }
  return at;
}

std::size_t last_character_bytes(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && (byte_at(text, begin) & 0xc0u) == 0x80u) --begin;
  return text.size() - begin;
}

bool is_space(std::string_view character) {
  static const re2::RE2 space(R"([\t-\r \x{85}\p{Z}])");
  return matches(space, character);
}

bool is_word(std::string_view character) {
  // Alphabetic (letters, letter numbers, circled letters), marks, digits, connectors, joiners: UTS #18.
  static const re2::RE2 word(
      R"([\p{L}\p{Nl}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})"
      R"(\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}])");
  return matches(word, character);
}

}  // namespace warptune
