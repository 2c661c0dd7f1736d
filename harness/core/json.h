#pragma once
// JSON from files. Parsing bounds the depth and the keys, so that what walks over the value later neither
// overflows the stack nor takes quadratic time.
#include <fmt/format.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/error.h"

namespace warptune {

inline constexpr int kMaxJsonDepth = 64;
/// Of an object that keeps the order of its keys: adding one compares it with all before it.
inline constexpr std::size_t kMaxOrderedKeys = 1000;

/// The value of a JSON text; a discarded value where the text is not JSON. Throws InputError that begins with
/// `origin` where lists and objects nest deeper than kMaxJsonDepth, or an ordered object has too many keys.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text, std::string_view origin) {
  std::vector<std::size_t> keys;  // of each open object
  constexpr bool kOrdered = std::is_same_v<Json, nlohmann::ordered_json>;
  const auto check = [&](int depth, typename Json::parse_event_t event, const Json&) {
    using Event = typename Json::parse_event_t;
    if ((event == Event::object_start || event == Event::array_start) && depth >= kMaxJsonDepth)
      throw InputError(
          fmt::format("{}: lists and objects nest deeper than {} levels", origin, kMaxJsonDepth));
    if (event == Event::object_start) keys.push_back(0);
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && ++keys.back() > kMaxOrderedKeys && kOrdered)
      throw InputError(fmt::format("{}: an object has more than {} keys", origin, kMaxOrderedKeys));
    return true;
  };
  return Json::parse(text.begin(), text.end(), check, false);
}

/// "line 3, column 7: a comma before '}'; JSON has none there": the first error of a text that is not JSON.
std::string json_fault(std::string_view text);

/// As parse_json(), for a text that must be JSON. Throws InputError: "ORIGIN: " and the fault.
template <class Json = nlohmann::json>
Json need_json(std::string_view text, std::string_view origin) {
  Json json = parse_json<Json>(text, origin);
  if (json.is_discarded()) throw InputError(fmt::format("{}: {}", origin, json_fault(text)));
  return json;
}

/// As need_json(), for a text that must be an object.
template <class Json = nlohmann::json>
Json need_json_object(std::string_view text, std::string_view origin) {
  Json json = need_json<Json>(text, origin);
  if (!json.is_object())
    throw InputError(fmt::format("{}: this is not a JSON object but a JSON {}", origin, json.type_name()));
  return json;
}

}  // namespace warptune
