#pragma once
// Typed access to the keys of a JSON object that a user gave. A missing key and a wrong type are one sentence
// that begins with the file.
#include <limits>
#include <string>
#include <vector>

#include "harness/core/json.h"

namespace warptune {

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
