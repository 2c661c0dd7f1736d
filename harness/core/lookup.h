#pragma once
// Looks up elements of ranges and maps.
#include <algorithm>
#include <functional>
#include <ranges>
#include <string_view>

namespace warptune {

/// Whether an element, or what the projection makes of it, equals the value.
template <class Range, class Value, class Projection = std::identity>
bool contains(const Range& range, const Value& value, Projection projection = {}) {
  return std::ranges::find(range, value, projection) != std::ranges::end(range);
}

/// The value of a key in a map, or nullptr.
template <class Map, class Key = typename Map::key_type>
auto* find_value(Map& map, const Key& key) {
  const auto it = map.find(key);
  return it == map.end() ? nullptr : &it->second;
}

/// The first thing of this name in a range, or nullptr.
template <class Range>
auto* find_named(Range& range, std::string_view name) {
  const auto it = std::ranges::find_if(range, [&](const auto& item) { return item.name == name; });
  return it == std::ranges::end(range) ? nullptr : &*it;
}

}  // namespace warptune
