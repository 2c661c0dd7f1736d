#include "harness/core/json_reader.h"

#include <fmt/format.h>

#include "harness/core/brief.h"
#include "harness/core/error.h"

namespace warptune {

using Json = nlohmann::json;

bool JsonReader::has(const char* key) const { return object_.contains(key) && !object_.at(key).is_null(); }

std::vector<int> JsonReader::ids(const char* key, int max) const {
  std::vector<int> result;
  if (!has(key)) return result;
  const Json& value = object_.at(key);
  if (!value.is_array()) return {to_int(value, key, 0, max)};
  for (const Json& id : value) result.push_back(to_int(id, key, 0, max));
  return result;
}

double JsonReader::number(const char* key) const {
  const Json& value = need(key);
  if (!value.is_number() || value.get<double>() <= 0) fail(key, "a number above 0");
  return value.get<double>();
}

bool JsonReader::flag(const char* key, bool fallback) const {
  if (!has(key)) return fallback;
  if (!object_.at(key).is_boolean()) fail(key, "true or false");
  return object_.at(key).get<bool>();
}

std::string JsonReader::text(const char* key) const {
  const Json& value = need(key);
  if (!value.is_string()) fail(key, "a string");
  return value.get<std::string>();
}

JsonReader JsonReader::object(const char* key) const {
  const Json& value = need(key);
  if (!value.is_object()) fail(key, "an object");
  return JsonReader(value, origin_ + ": " + key);
}

const Json& JsonReader::list(const char* key) const {
  const Json& value = need(key);
  if (!value.is_array()) fail(key, "a list");
  return value;
}

void JsonReader::fail(const char* key, const std::string& wanted) const {
  if (!object_.contains(key))
    throw InputError(fmt::format("{}: key '{}' is missing; it must be {}", origin_, key, wanted));
  throw InputError(
      fmt::format("{}: '{}' is {}; it must be {}", origin_, key, brief(object_.at(key).dump()), wanted));
}

const Json& JsonReader::need(const char* key) const {
  if (!has(key)) throw InputError(fmt::format("{}: key '{}' is missing", origin_, key));
  return object_.at(key);
}

int JsonReader::to_int(const Json& value, const char* key, int min, int max) const {
  if (!value.is_number_integer() || value.get<double>() < min || value.get<double>() > max)
    fail(key, fmt::format("an integer from {} to {}", min, max));
  return value.get<int>();
}

}  // namespace warptune
