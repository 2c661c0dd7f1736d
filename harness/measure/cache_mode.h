#pragma once
// The state of the caches in which a problem is timed; "cold" and "hot" in YAML, CSV, JSON.
#include <optional>
#include <string_view>

namespace warptune {

enum class CacheMode {
  cold,  // weights and KV come from memory, a set per launch; other tensors as their CacheState says
  hot    // one set, everything as the previous launch left it
};

constexpr const char* name_of(CacheMode cache) { return cache == CacheMode::hot ? "hot" : "cold"; }

/// Empty for any other name.
constexpr std::optional<CacheMode> cache_mode_of(std::string_view name) {
  if (name == "cold") return CacheMode::cold;
  if (name == "hot") return CacheMode::hot;
  return std::nullopt;
}

}  // namespace warptune
