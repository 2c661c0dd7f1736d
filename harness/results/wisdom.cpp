#include "results/wisdom.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace warptune {
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
namespace {

constexpr int kSchema = 1;

/// {"tokens": 1, "style": {"value": 1, "label": "interleaved"}}
Json to_json(const Assignment& values) {
  Json json = Json::object();
  for (const auto& entry : values) {
    if (entry.label.empty())
      json[entry.name] = entry.value;
    else
      json[entry.name] = {{"value", entry.value}, {"label", entry.label}};
  }
  return json;
}

Assignment assignment(const Json& json) {
  Assignment values;
  for (const auto& [name, value] : json.items()) {
    if (value.is_object())
      values.set(name, value.at("value").get<std::int64_t>(), value.at("label").get<std::string>());
    else
      values.set(name, value.get<std::int64_t>());
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
    for (const Json& t : winner["tied"])
      tied.push_back({t.at("variant"), assignment(t.at("config")), t.at("time_us")});
  return tied;
}

Winner winner_of(const Json& json) {
  return {.problem = {.op = json.at("op"),
                      .dims = assignment(json.at("dims")),
                      .dtype = parse_dtype(json.at("dtype").get<std::string>())},
          .variant = json.at("variant"),
          .config = assignment(json.at("config")),
          .time_us = json.at("time_us"),
          .source_hash = json.at("source_hash"),
          .run_id = json.at("run_id"),
          .csv = json.at("csv"),
          .throttled = json.value("throttled", ""),
          .tied = tied_of(json)};
}

}  // namespace

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
  try {
    Wisdom wisdom(Provenance{.device = json.at("device"),
                             .arch = json.at("arch"),
                             .driver = json.at("driver"),
                             .toolkit = json.at("toolkit"),
                             .git_commit = json.at("git_commit")});
    for (const Json& winner : json.at("winners")) wisdom.put(winner_of(winner));
    return wisdom;
  } catch (const InputError& e) {
    throw InputError(fmt::format("the wisdom file '{}' is wrong: {}", path.string(), e.what()));
  } catch (const Json::exception& e) {
    throw InputError(fmt::format("the wisdom file '{}' is wrong: {}", path.string(), e.what()));
  }
}

void Wisdom::save(const fs::path& path) const {
  Json json = {{"schema", kSchema},
               {"device", provenance_.device},
               {"arch", provenance_.arch},
               {"driver", provenance_.driver},
               {"toolkit", provenance_.toolkit},
               {"git_commit", provenance_.git_commit},
               {"winners", Json::array()}};
  for (const Winner& w : winners_)
    json["winners"].push_back({{"op", w.problem.op},
                               {"dims", to_json(w.problem.dims)},
                               {"dtype", name_of(w.problem.dtype)},
                               {"variant", w.variant},
                               {"config", to_json(w.config)},
                               {"time_us", w.time_us},
                               {"source_hash", w.source_hash},
                               {"run_id", w.run_id},
                               {"csv", w.csv},
                               {"throttled", w.throttled},
                               {"tied", to_json(w.tied)}});
  if (path.has_parent_path()) fs::create_directories(path.parent_path());
  const fs::path partial = path.string() + fmt::format(".{}", getpid());
  std::ofstream out(partial);
  out << json.dump(1) << '\n';
  out.close();
  std::error_code error;
  if (!out) {
    fs::remove(partial, error);
    throw std::runtime_error(fmt::format("the wisdom file '{}' cannot be written", path.string()));
  }
  fs::rename(partial, path, error);
  if (error)
    throw std::runtime_error(
        fmt::format("the wisdom file '{}' cannot be written: {}", path.string(), error.message()));
}

void Wisdom::put(Winner winner) {
  const auto it = std::ranges::find(winners_, winner.problem, &Winner::problem);
  if (it == winners_.end())
    winners_.push_back(std::move(winner));
  else
    *it = std::move(winner);
}

const Winner* Wisdom::exact(const Problem& problem) const {
  const auto it = std::ranges::find(winners_, problem, &Winner::problem);
  return it == winners_.end() ? nullptr : &*it;
}

namespace {

constexpr double kMostDoublings = 3;  // a factor of 8
constexpr double kFar = std::numeric_limits<double>::infinity();

/// Sum over dims of |log2(a / b)|; infinite where the problems cannot stand for each other.
double distance(const Problem& a, const Problem& b, const std::vector<std::string>& free_dims) {
  if (a.op != b.op || a.dtype != b.dtype || a.dims.size() != b.dims.size()) return kFar;
  double sum = 0;
  for (const auto& entry : a.dims) {
    const auto* other = b.dims.find(entry.name);
    if (!other || other->label != entry.label) return kFar;
    if (other->value == entry.value) continue;
    const bool is_free = std::ranges::find(free_dims, entry.name) != free_dims.end();
    if (!is_free || entry.value <= 0 || other->value <= 0) return kFar;
    const double doublings =
        std::abs(std::log2(static_cast<double>(entry.value) / static_cast<double>(other->value)));
    if (doublings > kMostDoublings) return kFar;
    sum += doublings;
  }
  return sum;
}

}  // namespace

const Winner* Wisdom::nearest(const Problem& problem, const std::vector<std::string>& free_dims) const {
  const Winner* best = nullptr;
  double least = kFar;
  for (const Winner& winner : winners_)
    if (const double d = distance(problem, winner.problem, free_dims); d < least) {
      least = d;
      best = &winner;
    }
  return best;
}

}  // namespace warptune
