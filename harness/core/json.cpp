#include "harness/core/json.h"

#include "harness/core/brief.h"
#include "harness/core/input_file.h"

namespace warptune {

namespace {

/// "line 3, column 7" of a byte.
std::string position(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, byte);
  const auto line = std::ranges::count(before, '\n') + 1;
  const auto start = before.rfind('\n') + 1;  // 0 where there is none
  return fmt::format("line {}, column {}", line, byte - start + 1);
}

/// What the library says, without its own prefix "[..] parse error at line 1, column 2: ".
std::string_view reason_of(std::string_view message) {
  const auto column = message.find(", column ");
  const auto colon = message.find(": ", column == std::string_view::npos ? 0 : column);
  return colon == std::string_view::npos ? message : message.substr(colon + 2);
}

}  // namespace

std::string json_fault(std::string_view text) {
  if (const std::string_view format = foreign_format(text); !format.empty())
    return fmt::format("line 1, column 1: this is {}", format);
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return "it is empty; it must be JSON";
  try {
    const auto json = nlohmann::json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::parse_error& e) {
    const std::size_t at = std::min(std::max<std::size_t>(e.byte, 1) - 1, text.size());
    const auto last = text.substr(0, at).find_last_not_of(" \t\r\n");
    const bool closes = at < text.size() && (text[at] == '}' || text[at] == ']');
    if (closes && last != std::string_view::npos && text[last] == ',')
      return fmt::format("{}: a comma before '{}'; JSON has none there", position(text, last), text[at]);
    return fmt::format("{}: this is not JSON: {}", position(text, at), brief(reason_of(e.what())));
  } catch (const nlohmann::json::out_of_range& e) {  // a number that no double holds: "parsing '1e999'"
    const std::string_view what = e.what();
    const auto quote = what.find('\'') + 1;
    const std::string_view number = what.substr(quote, what.rfind('\'') - quote);
    return fmt::format("{}: {} is too large", position(text, std::min(text.find(number), text.size())),
                       brief(number));
  }
  return "this is not JSON";
}

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
    throw InputError("{}: key '{}' is missing; it must be {}", origin_, key, wanted);
  throw InputError("{}: '{}' is {}; it must be {}", origin_, key, brief(object_.at(key).dump()), wanted);
}

const Json& JsonReader::need(const char* key) const {
  if (!has(key)) throw InputError("{}: key '{}' is missing", origin_, key);
  return object_.at(key);
}

int JsonReader::to_int(const Json& value, const char* key, int min, int max) const {
  if (!value.is_number_integer() || value.get<double>() < min || value.get<double>() > max)
    fail(key, fmt::format("an integer from {} to {}", min, max));
  return value.get<int>();
}

}  // namespace warptune
