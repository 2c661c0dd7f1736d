#include "harness/results/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

#include <array>

namespace warptune {

namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

Digest digest_of(std::string_view text) {
  Digest digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

}  // namespace

std::string sha256(std::string_view text) {
  std::string hex;
  for (const unsigned char byte : digest_of(text)) hex += fmt::format("{:02x}", byte);
  return hex;
}

std::string sha256_base64(std::string_view text) {
  const Digest digest = digest_of(text);
  std::array<unsigned char, (SHA256_DIGEST_LENGTH + 2) / 3 * 4 + 1> encoded{};
  const int length = EVP_EncodeBlock(encoded.data(), digest.data(), static_cast<int>(digest.size()));
  return {encoded.begin(), encoded.begin() + length};
}

}  // namespace warptune
