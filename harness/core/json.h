#pragma once
// JSON from files. Parsing bounds the depth and the keys, so that what walks over the value later neither
// overflows the stack nor takes quadratic time.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/error.h"

namespace warptune {

inline constexpr int kMaxJsonDepth = 64;
/// The most keys of an object that keeps their order: adding one compares it with all before it.
inline constexpr std::size_t kMaxOrderedKeys = 1000;

/// Uses an item of a list that is a member of the outermost object, by the member's name. Returns whether the
/// item is left out of the list: so a large file is never in memory as JSON.
template <class Json>
using UseJsonItem = std::function<bool(const std::string& member, const Json& item)>;

/// Builds the value that the parser of the library reads. Parsing with a callback of the library takes time
/// that is quadratic in the items of a list.
template <class Json>
class JsonBuilder {
 public:
  JsonBuilder(std::string_view origin, const UseJsonItem<Json>& use) : origin_(origin), use_(use) {}
  Json value() && { return std::move(root_); }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(const std::string& value) { return add(value); }  // the parser uses its memory again
  bool binary(typename Json::binary_t&) { return false; }       // no text has one
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(const std::string& name) {
    Open& object = open_.back();
    if (++object.keys > kMaxOrderedKeys && kOrdered)
      throw InputError("{}: an object has more than {} keys", origin_, kMaxOrderedKeys);
    if (open_.size() == 1) member_ = name;
    if constexpr (kOrdered) grow(object.value->template get_ref<typename Json::object_t&>());
    next_ = &(*object.value)[name];
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) { return false; }

 private:
  static constexpr bool kOrdered = std::is_same_v<Json, nlohmann::ordered_json>;
  struct Open {
    Json* value;
    std::size_t keys = 0;  // so far
  };

  /// Makes room for a key. An object that keeps the order would copy its values with all that they contain.
  static void grow(typename Json::object_t& object) {
    if (object.size() < object.capacity()) return;
    typename Json::object_t larger;
    larger.reserve(std::max<std::size_t>(4, 2 * object.size()));
    for (auto& [name, value] : object) larger.emplace_back(name, std::move(value));
    object.swap(larger);
  }

  template <class Value>
  Json& place(Value&& value) {
    if (open_.empty()) return root_ = std::forward<Value>(value);
    if (open_.back().value->is_array()) return open_.back().value->emplace_back(std::forward<Value>(value));
    return *next_ = std::forward<Value>(value);
  }
  template <class Value>
  bool add(Value&& value) {
    use(place(std::forward<Value>(value)));
    return true;
  }
  bool open(Json&& value) {
    if (open_.size() >= std::size_t{kMaxJsonDepth})
      throw InputError("{}: lists and objects nest deeper than {} levels", origin_, kMaxJsonDepth);
    open_.push_back({&place(std::move(value))});
    return true;
  }
  bool close() {
    const Json& value = *open_.back().value;
    open_.pop_back();
    use(value);
    return true;
  }
  void use(const Json& value) {
    if (!use_ || open_.size() != 2) return;
    Json& list = *open_[1].value;
    if (open_[0].value->is_object() && list.is_array() && use_(member_, value)) list.erase(list.size() - 1);
  }

  std::string_view origin_;
  const UseJsonItem<Json>& use_;
  Json root_;
  std::vector<Open> open_;  // objects and lists, from the outermost
  Json* next_ = nullptr;    // the value of the last key
  std::string member_;      // the last key of the outermost object
};

/// The value of a JSON text; a discarded value where the text is not JSON. Throws InputError that begins with
/// `origin` where lists and objects nest deeper than kMaxJsonDepth, or an ordered object has too many keys.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text, std::string_view origin, const UseJsonItem<Json>& use = {}) {
  JsonBuilder<Json> builder(origin, use);
  const bool is_json = Json::sax_parse(text.begin(), text.end(), &builder);
  return is_json ? std::move(builder).value() : Json(Json::value_t::discarded);
}

/// "line 3, column 7: a comma before '}'; JSON has none there": the first error of a text that is not JSON.
std::string json_fault(std::string_view text);

/// As parse_json(), for a text that must be JSON. Throws InputError: "ORIGIN: " and the fault.
template <class Json = nlohmann::json>
Json need_json(std::string_view text, std::string_view origin, const UseJsonItem<Json>& use = {}) {
  Json json = parse_json<Json>(text, origin, use);
  if (json.is_discarded()) throw InputError("{}: {}", origin, json_fault(text));
  return json;
}

/// As need_json(), for a text that must be an object.
template <class Json = nlohmann::json>
Json need_json_object(std::string_view text, std::string_view origin, const UseJsonItem<Json>& use = {}) {
  Json json = need_json<Json>(text, origin, use);
  if (!json.is_object())
    throw InputError("{}: this is not a JSON object but a JSON {}", origin, json.type_name());
  return json;
}

/// Typed access to the keys of a JSON object that a user gave. A missing key and a wrong type are one
/// sentence that begins with the file.
class JsonReader {
 public:
  /// `object` must outlive the reader. A key whose value is null counts as missing.
  JsonReader(const nlohmann::json& object, std::string origin)
      : object_(object), origin_(std::move(origin)) {}

  bool has(const char* key) const;
  int whole(const char* key, int max = kMaxInt) const { return to_int(need(key), key, 1, max); }
  int whole_or(const char* key, int fallback, int max = kMaxInt) const {
    return has(key) ? whole(key, max) : fallback;
  }
  /// An integer from 0.
  int id(const char* key, int max = kMaxInt) const { return to_int(need(key), key, 0, max); }
  /// One integer from 0, or a list of them; empty where the key is missing.
  std::vector<int> ids(const char* key, int max = kMaxInt) const;
  double number(const char* key) const;  // above 0
  double number(const char* key, double fallback) const { return has(key) ? number(key) : fallback; }
  bool flag(const char* key, bool fallback) const;
  std::string text(const char* key) const;
  std::string text_or(const char* key, std::string fallback) const {
    return has(key) ? text(key) : std::move(fallback);
  }
  JsonReader object(const char* key) const;
  const nlohmann::json& list(const char* key) const;

  /// Throws InputError: "FILE: 'KEY' is VALUE; it must be WANTED", also where the key is missing.
  [[noreturn]] void fail(const char* key, const std::string& wanted) const;
  template <class... T>
  requires(sizeof...(T) > 0)
      [[noreturn]] void fail(const char* key, fmt::format_string<T...> wanted, T&&... values) const {
    fail(key, fmt::format(wanted, std::forward<T>(values)...));
  }
  const std::string& origin() const { return origin_; }
  const nlohmann::json& json() const { return object_; }

 private:
  static constexpr int kMaxInt = std::numeric_limits<int>::max();

  const nlohmann::json& need(const char* key) const;
  int to_int(const nlohmann::json& value, const char* key, int min, int max) const;

  const nlohmann::json& object_;
  std::string origin_;
};

}  // namespace warptune
