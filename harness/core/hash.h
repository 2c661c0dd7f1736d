#pragma once
// A hash that is the same on every machine and in every run: 64-bit FNV-1a, then the finalizer of
// MurmurHash3.
#include <cstdint>
#include <string_view>

namespace warptune {

constexpr std::uint64_t stable_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccd;
  hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53;
  return hash ^ hash >> 33;
}

}  // namespace warptune
