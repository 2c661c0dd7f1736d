#pragma once
// A hash of 128 bits (XXH3), for content that a cache is keyed by.
#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string>
#include <string_view>

namespace warptune {

inline std::string content_hash(std::string_view text) {
  const XXH128_hash_t h = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

}  // namespace warptune
