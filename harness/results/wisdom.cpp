#include "harness/results/wisdom.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/results/durable_file.h"

namespace warptune {
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
namespace {

constexpr int kSchema = 1;

/// {"tokens": 1, "style": {"value": 1, "label": "interleaved"}}
Json to_json(const Assignment& values) {
  Json json = Json::object();
  for (const auto& entry : values.said()) {
    if (entry.label.empty())
      json[entry.name] = entry.value;
    else
      json[entry.name] = {{"value", entry.value}, {"label", entry.label}};
  }
  return json;
}

/// A field of an object. Throws InputError that names it where it is missing or of another type.
const Json& field(const Json& json, const char* name) {
  if (!json.is_object() || !json.contains(name)) throw InputError(fmt::format("'{}' is missing", name));
  return json[name];
}
[[noreturn]] void refuse(const char* name, const Json& value, const char* wanted) {
  throw InputError(fmt::format("'{}' is {}; it must be {}", name, brief(value.dump()), wanted));
}
std::string text(const Json& json, const char* name) {
  const Json& value = field(json, name);
  if (!value.is_string()) refuse(name, value, "a text");
  return value;
}
double time_of(const Json& json) {
  const Json& value = field(json, "time_us");
  if (!value.is_number() || !(value.get<double>() > 0)) refuse("time_us", value, "a time, more than 0");
  return value;
}
const Json& list(const Json& json, const char* name) {
  const Json& value = field(json, name);
  if (!value.is_array()) refuse(name, value, "a list");
  return value;
}

constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::min();

/// Dims or the values of parameters, none of them less than `least`.
Assignment assignment(const Json& json, const char* name, std::int64_t least = kAny) {
  const Json& object = field(json, name);
  if (!object.is_object()) refuse(name, object, "an object of names and whole numbers");
  Assignment values;
  for (const auto& [key, value] : object.items()) {
    const bool labelled = value.is_object() && value.contains("value") && value.contains("label");
    const Json& number = labelled ? value["value"] : value;
    if (!number.is_number_integer() || number.get<std::int64_t>() < least)
      refuse(key.c_str(), value, least == kAny ? "a whole number" : "a whole number, at least 0");
    values.set(key, number.get<std::int64_t>(), labelled ? text(value, "label") : "");
  }
  return values;
}

Json to_json(const std::vector<TiedConfig>& tied) {
  Json list = Json::array();
  for (const TiedConfig& t : tied)
    list.push_back({{"variant", t.variant}, {"config", to_json(t.config)}, {"time_us", t.time_us}});
  return list;
}

/// Files of before ties were kept have none.
std::vector<TiedConfig> tied_of(const Json& winner) {
  std::vector<TiedConfig> tied;
  if (winner.contains("tied"))
    for (const Json& t : list(winner, "tied"))
      tied.push_back({text(t, "variant"), assignment(t, "config"), time_of(t)});
  return tied;
}

/// {"split_ring": {"source_hash": "..", "parameters": "splits warps", "rows": ["8 4 6.25", ..]}, ..}
Json to_json(const std::vector<VariantTimes>& times) {
  Json json = Json::object();
  for (const VariantTimes& t : times) {
    Json rows = Json::array();
    for (const VariantTimes::Row& row : t.rows)
      rows.push_back(t.parameters.empty()
                         ? fmt::format("{:.5g}", row.time_us)
                         : fmt::format("{} {:.5g}", fmt::join(row.values, " "), row.time_us));
    json[t.variant] = {{"source_hash", t.source_hash},
                       {"parameters", fmt::format("{}", fmt::join(t.parameters, " "))},
                       {"rows", rows}};
  }
  return json;
}

/// Whether all of the word is a number.
template <class T>
bool read(std::string_view word, T& value) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size();
}

VariantTimes::Row row_of(const std::string& line, std::size_t parameters) {
  VariantTimes::Row row{.values = std::vector<std::int64_t>(parameters)};
  std::istringstream in(line);
  std::string word;
  bool right = true;
  for (std::int64_t& value : row.values) right = right && in >> word && read(word, value);
  if (!right || !(in >> word) || !read(word, row.time_us) || !(row.time_us > 0) || in >> word)
    throw InputError(
        fmt::format("'{}' in 'rows' must be a value of each parameter and a time, more than 0", brief(line)));
  return row;
}

/// Files of before times were kept have none.
std::vector<VariantTimes> times_of(const Json& winner) {
  std::vector<VariantTimes> times;
  if (!winner.contains("times")) return times;
  if (!winner["times"].is_object()) refuse("times", winner["times"], "an object of variants");
  for (const auto& [variant, json] : winner["times"].items()) {
    VariantTimes& t =
        times.emplace_back(VariantTimes{.variant = variant, .source_hash = text(json, "source_hash")});
    std::istringstream names(text(json, "parameters"));
    for (std::string name; names >> name;) t.parameters.push_back(name);
    for (const Json& line : list(json, "rows")) {
      if (!line.is_string()) refuse("rows", line, "a list of texts");
      t.rows.push_back(row_of(line, t.parameters.size()));
    }
  }
  return times;
}

Json to_json(const Provenance& p) {
  return {{"device", p.device},
          {"arch", p.arch},
          {"driver", p.driver},
          {"toolkit", p.toolkit},
          {"git_commit", p.git_commit}};
}

Provenance provenance_of(const Json& json) {
  return {.device = text(json, "device"),
          .arch = text(json, "arch"),
          .driver = text(json, "driver"),
          .toolkit = text(json, "toolkit"),
          .git_commit = text(json, "git_commit")};
}

/// Files of before it was kept hold cold winners.
CacheMode cache_of(const Json& winner) {
  if (!winner.contains("cache")) return CacheMode::cold;
  const auto cache = cache_mode_of(text(winner, "cache"));
  if (!cache) refuse("cache", winner["cache"], "cold or hot");
  return *cache;
}

Winner winner_of(const Json& json) {
  return {.problem = {.op = text(json, "op"),
                      .dims = assignment(json, "dims", 0),
                      .dtype = parse_dtype(text(json, "dtype"))},
          .variant = text(json, "variant"),
          .config = assignment(json, "config"),
          .time_us = time_of(json),
          .source_hash = text(json, "source_hash"),
          .run_id = text(json, "run_id"),
          .csv = text(json, "csv"),
          .made_on = json.contains("made_on") ? provenance_of(json["made_on"]) : Provenance{},
          .cache = cache_of(json),
          .throttled = json.contains("throttled") ? text(json, "throttled") : "",
          .tied = tied_of(json),
          .times = times_of(json)};
}

}  // namespace

void add_times(std::vector<VariantTimes>& times, const std::vector<VariantTimes>& newer) {
  for (const VariantTimes& t : newer) {
    const auto same = std::ranges::find(times, t.variant, &VariantTimes::variant);
    if (same == times.end()) {
      times.push_back(t);
    } else if (same->source_hash != t.source_hash || same->parameters != t.parameters) {
      *same = t;
    } else {
      for (const VariantTimes::Row& row : t.rows) {
        const auto old = std::ranges::find(same->rows, row.values, &VariantTimes::Row::values);
        if (old == same->rows.end())
          same->rows.push_back(row);
        else
          *old = row;
      }
    }
  }
}

Wisdom Wisdom::load(const fs::path& path) {
  std::ifstream in(path);
  if (!in) throw InputError(fmt::format("the wisdom file '{}' cannot be read", path.string()));
  const Json json = Json::parse(in, nullptr, false);
  if (json.is_discarded() || !json.is_object())
    throw InputError(fmt::format("the wisdom file '{}' is not JSON", path.string()));
  if (!json.contains("schema") || json["schema"] != kSchema)
    throw InputError(fmt::format("the wisdom file '{}' has schema {}; this program reads schema {}",
                                 path.string(), json.contains("schema") ? json["schema"].dump() : "none",
                                 kSchema));
  std::string where;
  try {
    Wisdom wisdom(provenance_of(json));
    for (const Json& winner : list(json, "winners")) {
      where = fmt::format("winner {}: ", wisdom.winners().size() + 1);
      wisdom.put(winner_of(winner));
    }
    return wisdom;
  } catch (const InputError& e) {
    throw InputError(fmt::format("the wisdom file '{}' is wrong: {}{}", path.string(), where, e.what()));
  }
}

std::string Wisdom::to_json() const {
  Json json = {{"schema", kSchema}};
  json.update(warptune::to_json(provenance_));
  json["winners"] = Json::array();
  for (const Winner& w : winners_) {
    Json& winner = json["winners"].emplace_back(Json{{"op", w.problem.op},
                                                     {"dims", warptune::to_json(w.problem.dims)},
                                                     {"dtype", name_of(w.problem.dtype)},
                                                     {"variant", w.variant},
                                                     {"config", warptune::to_json(w.config)},
                                                     {"time_us", w.time_us},
                                                     {"source_hash", w.source_hash},
                                                     {"run_id", w.run_id},
                                                     {"csv", w.csv},
                                                     {"cache", name_of(w.cache)}});
    if (!w.throttled.empty()) winner["throttled"] = w.throttled;
    if (!w.tied.empty()) winner["tied"] = warptune::to_json(w.tied);
    if (!w.times.empty()) winner["times"] = warptune::to_json(w.times);
    if (w.made_on != provenance_) winner["made_on"] = warptune::to_json(w.made_on);
  }
  return json.dump(1) + '\n';
}

void Wisdom::save(const fs::path& path) const { replace_file(path, to_json()); }

namespace {

constexpr std::string_view kWorkDims[] = {"tokens", "batch", "context", "q_len", "kv_len"};

/// The problem without how much work there is.
Problem shape_of(Problem problem) {
  for (const std::string_view dim : kWorkDims)
    if (problem.dims.has(dim)) problem.dims.set(dim, 0);
  return problem;
}

}  // namespace

std::size_t Wisdom::Hash::operator()(const Problem& problem) const {
  const std::hash<std::string_view> text;
  std::size_t hash = text(problem.op) + static_cast<std::size_t>(problem.dtype);
  for (const auto& dim : problem.dims.said())  // the op fixes the names of its dims
    hash = (hash ^ static_cast<std::size_t>(dim.value)) * 0x9e3779b97f4a7c15u + (hash >> 29);
  return hash;
}

void Wisdom::put(Winner winner) {
  if (winner.made_on == Provenance{}) winner.made_on = provenance_;
  auto& same = by_problem_[winner.problem];
  for (const std::size_t i : same)
    if (winners_[i].made_on.device == winner.made_on.device) {
      winners_[i] = std::move(winner);
      return;
    }
  same.push_back(winners_.size());
  by_shape_[shape_of(winner.problem)].push_back(winners_.size());
  winners_.push_back(std::move(winner));
}

namespace {

constexpr double kMostDoublings = 3;  // a factor of 8
constexpr double kFar = std::numeric_limits<double>::infinity();

/// 0: made on this device, 1: on another of this architecture, 2: elsewhere.
int kinship_of(const Winner& winner, const Provenance& here) {
  if (winner.made_on.arch != here.arch) return 2;
  return winner.made_on.device == here.device ? 0 : 1;
}

/// Sum over dims of |log2(a / b)| for problems of one shape; infinite where one is out of bounds.
double distance(const Problem& a, const Problem& b) {
  double sum = 0;
  auto others = b.dims.said();
  auto other = others.begin();
  for (const auto& dim : a.dims.said()) {
    const std::int64_t value = (other++)->value;
    if (value == dim.value) continue;
    if (value <= 0 || dim.value <= 0) return kFar;
    const double doublings = std::abs(std::log2(static_cast<double>(dim.value) / static_cast<double>(value)));
    if (doublings > kMostDoublings) return kFar;
    sum += doublings;
  }
  return sum;
}

}  // namespace

struct Wisdom::Kin {
  const Winner* winner = nullptr;
  int kinship = 3;
};

const Winner* Wisdom::held(const Problem& problem, const std::string& device) const {
  if (const auto it = by_problem_.find(problem); it != by_problem_.end())
    for (const std::size_t i : it->second)
      if (winners_[i].made_on.device == device) return &winners_[i];
  return nullptr;
}

const Winner* Wisdom::exact(const Problem& problem) const {
  const auto it = by_problem_.find(problem);
  return it == by_problem_.end() ? nullptr : &winners_[it->second.front()];
}

Wisdom::Kin Wisdom::exact_for(const Problem& problem, const Provenance& here) const {
  Kin best;
  if (const auto it = by_problem_.find(problem); it != by_problem_.end())
    for (const std::size_t i : it->second)
      if (const int kinship = kinship_of(winners_[i], here); kinship < best.kinship)
        best = {&winners_[i], kinship};
  return best;
}

Wisdom::Kin Wisdom::nearest_for(const Problem& problem, const Provenance& here,
                                const Problem* left_out) const {
  Kin best;
  double least = kFar;
  if (const auto it = by_shape_.find(shape_of(problem)); it != by_shape_.end())
    for (const std::size_t i : it->second) {
      const double d = distance(problem, winners_[i].problem);
      if (d == kFar || (left_out && winners_[i].problem == *left_out)) continue;
      const int kinship = kinship_of(winners_[i], here);
      if (kinship < best.kinship || (kinship == best.kinship && d < least)) {
        best = {&winners_[i], kinship};
        least = d;
      }
    }
  return best;
}

Wisdom::Match Wisdom::find(const Problem& problem, const Provenance& here, const Problem* left_out) const {
  const Kin same = left_out && problem == *left_out ? Kin{} : exact_for(problem, here);
  if (same.kinship < 2) return {same.winner, true};
  const Kin near = nearest_for(problem, here, left_out);
  if (near.kinship < same.kinship) return {near.winner, false};
  return {same.winner, same.winner != nullptr};
}

}  // namespace warptune
