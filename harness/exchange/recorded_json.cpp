#include "harness/exchange/recorded_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/core/json.h"
#include "harness/core/lookup.h"
#include "harness/core/pattern.h"

namespace warptune {
namespace fs = std::filesystem;
using Json = nlohmann::json;
namespace {

/// Kernel Tuner's older cachefiles give a failed configuration this time, in ms.
constexpr double kFailedMs = 1e20;

/// The time in us, if `value` is a time in `unit`.
std::optional<double> time_us(const Json& value, const std::string& unit) {
  static const std::map<std::string, double> us = {{"s", 1e6}, {"ms", 1e3}, {"us", 1}, {"ns", 1e-3}};
  if (!value.is_number()) return std::nullopt;
  const double time = value.get<double>();
  const auto it = us.find(unit);
  if (it == us.end()) throw InputError("a time has the unit '{}'; it must be s, ms, us or ns", brief(unit));
  if (!(time > 0) || time >= kFailedMs || !std::isfinite(time)) return std::nullopt;
  return time * it->second;
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// A configuration as the file has it.
struct RawConfig {
  std::string variant;
  std::map<std::string, Json> values;
  std::optional<double> us;
};

/// The values of a parameter as integers. Where all of them are whole they are themselves; else they are
/// labels: numbers in their order, texts in the order in which they appear.
class ParameterValues {
 public:
  void add(const Json& value) {
    if (std::find(values_.begin(), values_.end(), value) == values_.end()) values_.push_back(value);
  }
  void finish() {
    whole_ = std::ranges::all_of(values_, [](const Json& v) { return v.is_number_integer(); });
    if (std::ranges::all_of(values_, [](const Json& v) { return v.is_number(); }))
      std::sort(values_.begin(), values_.end());
  }
  void set(Assignment& config, const std::string& name, const Json& value) const {
    if (whole_) return config.set(name, value.get<std::int64_t>());
    config.set(name, std::find(values_.begin(), values_.end(), value) - values_.begin(), text_of(value));
  }

 private:
  std::vector<Json> values_;
  bool whole_ = false;
};

RecordedSpace space_of(std::string name, const std::vector<std::string>& parameters,
                       const std::vector<RawConfig>& configs) {
  RecordedSpace recorded{.problem = std::move(name)};
  std::map<std::string, ParameterValues> known;
  for (const RawConfig& raw : configs)
    for (const auto& [parameter, value] : raw.values) known[parameter].add(value);
  for (auto& [parameter, values] : known) values.finish();
  for (const RawConfig& raw : configs) {
    SearchCandidate candidate{.variant = raw.variant};
    for (const std::string& parameter : parameters)
      if (const auto it = raw.values.find(parameter); it != raw.values.end())
        known.at(parameter).set(candidate.config, parameter, it->second);
    recorded.space.candidates.push_back(std::move(candidate));
    recorded.times_us.push_back(raw.us.value_or(INFINITY));
  }
  recorded.best_us = recorded.times_us.empty() ? INFINITY : std::ranges::min(recorded.times_us);
  return recorded;
}

const Json& need(const Json& object, const char* key, Json::value_t type, const char* wanted) {
  if (!object.is_object() || !object.contains(key)) throw InputError("'{}' is missing", key);
  if (object[key].type() != type) throw InputError("'{}' must be {}", key, wanted);
  return object[key];
}

/// "4096x4096", or a text such as "callable".
std::string size_of(const Json& size) {
  if (!size.is_array()) return text_of(size);
  std::vector<std::string> parts;
  for (const Json& part : size) parts.push_back(text_of(part));
  return fmt::format("{}", fmt::join(parts, "x"));
}

RecordedSpace of_cachefile(const Json& json) {
  const std::string kernel = need(json, "kernel_name", Json::value_t::string, "a text");
  std::vector<std::string> parameters;
  for (const Json& key : need(json, "tune_params_keys", Json::value_t::array, "a list of names"))
    parameters.push_back(text_of(key));
  std::vector<RawConfig> configs;
  for (const auto& [key, entry] : need(json, "cache", Json::value_t::object, "an object").items()) {
    RawConfig raw{.variant = kernel};
    for (const std::string& parameter : parameters) {
      if (!entry.is_object() || !entry.contains(parameter))
        throw InputError("the configuration '{}' has no '{}'", brief(key), brief(parameter));
      raw.values[parameter] = entry[parameter];
    }
    if (entry.contains("time") && !entry.contains("__error__")) raw.us = time_us(entry["time"], "ms");
    configs.push_back(std::move(raw));
  }
  const std::string device = json.contains("device_name") ? text_of(json["device_name"]) : "unknown";
  const std::string size = json.contains("problem_size") ? size_of(json["problem_size"]) : "unknown";
  return space_of(fmt::format("{}[problem_size={},device={}]", kernel, size, device), parameters, configs);
}

/// The time of a T4 result: the measurement of the first objective, else of "time".
std::optional<double> t4_time(const Json& result) {
  if (need(result, "invalidity", Json::value_t::string, "a text") != "correct") return std::nullopt;
  if (result.contains("correctness") && result["correctness"].is_number() && result["correctness"] == 0)
    return std::nullopt;
  if (!result.contains("measurements")) return std::nullopt;
  for (const Json& measurement : result["measurements"]) {
    if (!measurement.is_object() || measurement.value("name", Json()) != "time") continue;
    const std::string unit = text_of(measurement.value("unit", Json("ms")));
    return time_us(measurement.value("value", Json()), unit.empty() ? "ms" : unit);
  }
  return std::nullopt;
}

RecordedSpace of_t4(const Json& json, const std::string& file_name) {
  std::vector<std::string> parameters;
  std::vector<RawConfig> configs;
  for (const Json& result : json["results"]) {
    RawConfig raw{.variant = "kernel"};
    for (const auto& [name, value] :
         need(result, "configuration", Json::value_t::object, "an object").items()) {
      if (name == "variant" && value.is_string()) {
        raw.variant = value;
        continue;
      }
      if (!contains(parameters, name)) parameters.push_back(name);
      raw.values[name] = value;
    }
    raw.us = t4_time(result);
    configs.push_back(std::move(raw));
  }
  const bool named = json.contains("metadata") && json["metadata"].is_object() &&
                     json["metadata"].contains("problem") && json["metadata"]["problem"].is_string();
  return space_of(named ? json["metadata"]["problem"].get<std::string>() : file_name, parameters, configs);
}

/// The text with null for each NaN and infinity, which Python writes and JSON does not have.
std::string with_nulls(std::string_view text) {
  std::string result;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (in_string) {
      in_string = text[i] != '"';
      if (text[i] == '\\' && i + 1 < text.size()) result += text[i++];
      result += text[i];
      continue;
    }
    in_string = text[i] == '"';
    std::string_view word = text.substr(i, 1);
    for (const std::string_view number : {"NaN", "Infinity", "-Infinity"})
      if (text.substr(i).starts_with(number)) word = number;
    result += word.size() > 1 ? "null" : word;
    i += word.size() - 1;
  }
  return result;
}

/// A cachefile lacks its closing brackets while it is written, and a kill leaves an incomplete last line.
std::string closed(const std::string& text) {
  const auto end = text.rfind(",\n");
  const auto last = text.find_last_not_of(" \n\r\t");
  if (last != std::string::npos && text[last] == ',') return text.substr(0, last) + "}\n}";
  return end == std::string::npos ? text : text.substr(0, end) + "}\n}";
}

}  // namespace

std::vector<RecordedSpace> recorded_json_spaces(const OpTable& ops, const fs::path& file,
                                                const std::string& pattern) {
  const ProblemPattern wanted(pattern);
  const std::string origin = fmt::format("'{}'", file.string());
  const std::string text = with_nulls(read_input(file, origin, kMaxWisdomBytes));
  Json json = parse_json<Json>(text, origin);
  if (json.is_discarded()) json = parse_json<Json>(closed(text), origin);
  if (json.is_discarded()) throw InputError("{}: {}", origin, json_fault(text));
  const bool t4 = json.is_object() && json.contains("results") && json["results"].is_array();
  if (!t4 && !(json.is_object() && json.contains("cache")))
    throw InputError(
        "{} is neither a cachefile of Kernel Tuner ('cache') nor results in the T4 format ('results')",
        origin);
  RecordedSpace recorded;
  try {
    recorded = t4 ? of_t4(json, file.stem()) : of_cachefile(json);
  } catch (const InputError& e) {
    throw InputError("{}: {}", origin, e.what());
  }
  if (!wanted.is_in(ops, recorded.problem))
    throw InputError("{} holds '{}', which does not match '{}'", origin, brief(recorded.problem),
                     brief(pattern));
  if (!std::isfinite(recorded.best_us))
    throw InputError("{} holds no time: no configuration has a 'time'", origin);
  return {std::move(recorded)};
}

}  // namespace warptune
