#include "harness/text/byte_level.h"

#include <array>
#include <map>

#include "harness/text/unicode.h"

namespace warptune {
namespace {

struct Alphabet {
  std::array<std::string, 256> character;
  std::map<std::string, char, std::less<>> byte;
};

/// Printable Latin-1 characters stand for themselves; the other bytes are U+0100 and up, in order.
Alphabet make_alphabet() {
  Alphabet alphabet;
  unsigned next = 0x100;
  for (unsigned b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    const unsigned code = printable ? b : next++;
    std::string& text = alphabet.character[b];
    if (code < 0x80)
      text = static_cast<char>(code);
    else
      text = {static_cast<char>(0xc0u | code >> 6), static_cast<char>(0x80u | (code & 0x3fu))};
    alphabet.byte.emplace(text, static_cast<char>(b));
  }
  return alphabet;
}

const Alphabet& alphabet() {
  static const Alphabet made = make_alphabet();
  return made;
}

}  // namespace

std::string to_byte_characters(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += alphabet().character[static_cast<unsigned char>(byte)];
  return text;
}

std::string from_byte_characters(std::string_view token) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const std::size_t size = utf8_head(token.substr(at)).bytes;
    const auto found = alphabet().byte.find(token.substr(at, size));
    if (found == alphabet().byte.end()) return std::string(token);
    bytes += found->second;
    at += size;
  }
  return bytes;
}

}  // namespace warptune
