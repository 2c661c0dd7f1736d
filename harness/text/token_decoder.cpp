#include "harness/text/token_decoder.h"

#include <charconv>

#include "harness/text/byte_level.h"

namespace warptune {

std::string byte_of_fallback(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return token;
  unsigned byte = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  if (error != std::errc() || end != token.data() + 5) return token;
  return std::string(1, static_cast<char>(byte));
}

std::string TokenDecoder::bytes_of(std::string token) const {
  for (const auto& [from, to] : replacements) token = replace_all(token, from, to);
  if (byte_fallback) token = byte_of_fallback(token);
  return byte_level ? from_byte_characters(token) : token;
}

}  // namespace warptune
