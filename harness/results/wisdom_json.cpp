// The text of wisdom: JSON with one line per winner and per step.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/core/json.h"
#include "harness/core/text.h"
#include "harness/results/durable_file.h"
#include "harness/results/wisdom.h"

namespace warptune {
namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;
namespace {

constexpr int kSchema = 2;

/// {"tokens": 1, "style": [1, "interleaved"]}
OrderedJson to_json(const Assignment& values) {
  OrderedJson json = OrderedJson::object();
  for (const auto& entry : values.written())
    json[entry.name] = entry.label.empty() ? OrderedJson(entry.value) : OrderedJson{entry.value, entry.label};
  return json;
}

/// Six digits: more than a measurement has.
double rounded(double us) { return std::stod(fmt::format("{:.6g}", us)); }

/// A field of an object. Throws InputError that names it if it is missing or has another type.
const OrderedJson& field(const OrderedJson& json, const char* name) {
  if (!json.is_object() || !json.contains(name)) throw InputError("'{}' is missing", name);
  return json[name];
}
[[noreturn]] void refuse(const char* name, const OrderedJson& value, const char* wanted) {
  throw InputError("'{}' is {}; it must be {}", brief(name), brief(value.dump()), wanted);
}
std::string text(const OrderedJson& json, const char* name) {
  const OrderedJson& value = field(json, name);
  if (!value.is_string()) refuse(name, value, "a text");
  return value;
}
double time_of(const OrderedJson& json, const char* name = "time_us") {
  const OrderedJson& value = field(json, name);
  if (!value.is_number() || !(value.get<double>() > 0)) refuse(name, value, "a time, more than 0");
  return value;
}
const OrderedJson& list(const OrderedJson& json, const char* name) {
  const OrderedJson& value = field(json, name);
  if (!value.is_array()) refuse(name, value, "a list");
  return value;
}

/// Dims or the values of parameters. Op::problem() checks dims: only it knows their bounds.
Assignment assignment(const OrderedJson& json, const char* name) {
  const OrderedJson& object = field(json, name);
  if (!object.is_object()) refuse(name, object, "an object of names and integers");
  Assignment values;
  values.reserve(object.size());
  for (const auto& [key, value] : object.items()) {
    const bool labeled = value.is_array() && value.size() == 2 && value[1].is_string();
    const OrderedJson& number = labeled ? value[0] : value;
    if (!number.is_number_integer()) refuse(key.c_str(), value, "an integer");
    values.set(key, number.get<std::int64_t>(), labeled ? value[1].get<std::string>() : "");
  }
  return values;
}

OrderedJson to_json(const std::vector<TiedConfig>& tied) {
  OrderedJson list = OrderedJson::array();
  for (const TiedConfig& t : tied)
    list.push_back({{"variant", t.variant}, {"config", to_json(t.config)}, {"time_us", rounded(t.time_us)}});
  return list;
}

/// The field is absent where nothing ties.
std::vector<TiedConfig> tied_of(const OrderedJson& winner) {
  std::vector<TiedConfig> tied;
  if (winner.contains("tied"))
    for (const OrderedJson& t : list(winner, "tied"))
      tied.push_back({text(t, "variant"), assignment(t, "config"), time_of(t)});
  return tied;
}

/// {"pipelined": {"source_hash": "..", "parameters": "splits warps", "rows": ["8 4 6.25", ..]}, ..}
OrderedJson to_json(const std::vector<VariantTimes>& times) {
  OrderedJson json = OrderedJson::object();
  for (const VariantTimes& t : times) {
    OrderedJson rows = OrderedJson::array();
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

/// Removes the first word of a line and returns it; empty where there is none.
std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

/// Removes the first word of a line, and returns whether it is a number.
template <class T>
bool take_number(std::string_view& line, T& value) {
  const auto number = parse_number<T>(take_word(line));
  if (number) value = *number;
  return number.has_value();
}

VariantTimes::Row row_of(std::string_view line, std::size_t parameters) {
  VariantTimes::Row row{.values = std::vector<std::int64_t>(parameters)};
  std::string_view rest = line;
  if (!std::ranges::all_of(row.values, [&](std::int64_t& value) { return take_number(rest, value); }) ||
      !take_number(rest, row.time_us) || !(row.time_us > 0) || !take_word(rest).empty())
    throw InputError("'{}' in 'rows' must be a value of each parameter and a time, more than 0", brief(line));
  return row;
}

/// The field is absent where no times were kept.
std::vector<VariantTimes> times_of(const OrderedJson& winner) {
  std::vector<VariantTimes> times;
  if (!winner.contains("times")) return times;
  if (!winner["times"].is_object()) refuse("times", winner["times"], "an object of variants");
  times.reserve(winner["times"].size());
  for (const auto& [variant, json] : winner["times"].items()) {
    VariantTimes& t =
        times.emplace_back(VariantTimes{.variant = variant, .source_hash = text(json, "source_hash")});
    for (const std::string& name : split(text(json, "parameters"), ' '))
      if (!name.empty()) t.parameters.push_back(name);
    const OrderedJson& rows = list(json, "rows");
    t.rows.reserve(rows.size());
    for (const OrderedJson& line : rows) {
      if (!line.is_string()) refuse("rows", line, "a list of texts");
      t.rows.push_back(row_of(line.get_ref<const std::string&>(), t.parameters.size()));
    }
  }
  return times;
}

OrderedJson to_json(const Provenance& p) {
  return {{"device", p.device},
          {"arch", p.arch},
          {"driver", p.driver},
          {"toolkit", p.toolkit},
          {"git_commit", p.git_commit}};
}

Provenance provenance_of(const OrderedJson& json) {
  return {.device = text(json, "device"),
          .arch = text(json, "arch"),
          .driver = text(json, "driver"),
          .toolkit = text(json, "toolkit"),
          .git_commit = text(json, "git_commit")};
}

/// Without the field a winner is cold.
CacheMode cache_of(const OrderedJson& winner) {
  if (!winner.contains("cache")) return CacheMode::cold;
  const auto cache = cache_mode_of(text(winner, "cache"));
  if (!cache) refuse("cache", winner["cache"], "cold or hot");
  return *cache;
}

Provenance made_on(const OrderedJson& winner) {
  return winner.contains("made_on") ? provenance_of(winner["made_on"]) : Provenance{};
}

Problem problem_of(const OrderedJson& json, std::string op) {
  return {.op = std::move(op), .dims = assignment(json, "dims"), .dtype = parse_dtype(text(json, "dtype"))};
}

Winner winner_of(const OrderedJson& json) {
  return {.problem = problem_of(json, text(json, "op")),
          .variant = text(json, "variant"),
          .config = assignment(json, "config"),
          .time_us = time_of(json),
          .source_hash = text(json, "source_hash"),
          .run_id = text(json, "run_id"),
          .csv = text(json, "csv"),
          .made_on = made_on(json),
          .cache = cache_of(json),
          .throttled = json.contains("throttled") ? text(json, "throttled") : "",
          .tied = tied_of(json),
          .times = times_of(json),
          .code_hash = json.contains("code_hash") ? text(json, "code_hash") : ""};
}

StepWinner step_of(const OrderedJson& json) {
  StepWinner winner{.step = problem_of(json, kStepOp),
                    .plans = {.options = assignment(json, "options")},
                    .time_us = time_of(json),
                    .alone_us = time_of(json, "alone_us"),
                    .run_id = text(json, "run_id"),
                    .csv = text(json, "csv"),
                    .made_on = made_on(json)};
  for (const OrderedJson& plan : list(json, "plans"))
    winner.plans.plans.push_back({.problem = problem_of(plan, text(plan, "op")),
                                  .variant = text(plan, "variant"),
                                  .config = assignment(plan, "config"),
                                  .source_hash = text(plan, "source_hash"),
                                  .code_hash = text(plan, "code_hash")});
  return winner;
}

}  // namespace

Wisdom parse_wisdom(std::string_view text, const std::string& origin) {
  std::deque<Winner> winners;
  std::deque<StepWinner> steps;
  std::string fault;  // the first one
  const OrderedJson json =
      need_json_object<OrderedJson>(text, origin, [&](const std::string& member, const OrderedJson& item) {
        const bool is_winner = member == "winners";
        if (!is_winner && member != "steps") return false;
        if (fault.empty()) try {
            if (is_winner)
              winners.push_back(winner_of(item));
            else
              steps.push_back(step_of(item));
          } catch (const InputError& e) {
            fault = is_winner ? fmt::format("winner {}: {}", winners.size() + 1, e.what())
                              : fmt::format("step {}: {}", steps.size() + 1, e.what());
          }
        return true;
      });
  if (!json.contains("schema") || json["schema"] != kSchema)
    throw InputError("{} has schema {}; this program reads schema {}", origin,
                     json.contains("schema") ? brief(json["schema"].dump()) : "none", kSchema);
  try {
    Wisdom wisdom(provenance_of(json));
    list(json, "winners");
    if (json.contains("steps")) list(json, "steps");
    if (!fault.empty()) throw InputError(fault);
    wisdom.reserve(winners.size());
    for (; !winners.empty(); winners.pop_front()) wisdom.put(std::move(winners.front()));
    for (; !steps.empty(); steps.pop_front()) wisdom.put(std::move(steps.front()));
    return wisdom;
  } catch (const InputError& e) {
    throw InputError("{} is wrong: {}", origin, e.what());
  }
}

Wisdom Wisdom::load(const fs::path& path) {
  const std::string origin = fmt::format("the wisdom file '{}'", path.string());
  return parse_wisdom(read_input(path, origin, kMaxWisdomBytes), origin);
}

namespace {

OrderedJson to_json(const Winner& w, const Provenance& common) {
  OrderedJson json{{"op", w.problem.op},
                   {"dims", to_json(w.problem.dims)},
                   {"dtype", name_of(w.problem.dtype)},
                   {"variant", w.variant},
                   {"config", to_json(w.config)},
                   {"time_us", rounded(w.time_us)},
                   {"source_hash", w.source_hash},
                   {"code_hash", w.code_hash},
                   {"run_id", w.run_id},
                   {"csv", w.csv},
                   {"cache", name_of(w.cache)}};
  if (!w.throttled.empty()) json["throttled"] = w.throttled;
  if (!w.tied.empty()) json["tied"] = to_json(w.tied);
  if (!w.times.empty()) json["times"] = to_json(w.times);
  if (w.made_on != common) json["made_on"] = to_json(w.made_on);
  return json;
}

OrderedJson to_json(const StepWinner& w, const Provenance& common) {
  OrderedJson plans = OrderedJson::array();
  for (const StepPlan& plan : w.plans.plans)
    plans.push_back({{"op", plan.problem.op},
                     {"dims", to_json(plan.problem.dims)},
                     {"dtype", name_of(plan.problem.dtype)},
                     {"variant", plan.variant},
                     {"config", to_json(plan.config)},
                     {"source_hash", plan.source_hash},
                     {"code_hash", plan.code_hash}});
  OrderedJson json{{"dims", to_json(w.step.dims)},
                   {"dtype", name_of(w.step.dtype)},
                   {"time_us", rounded(w.time_us)},
                   {"alone_us", rounded(w.alone_us)},
                   {"options", to_json(w.plans.options)},
                   {"plans", plans},
                   {"run_id", w.run_id},
                   {"csv", w.csv}};
  if (w.made_on != common) json["made_on"] = to_json(w.made_on);
  return json;
}

/// A list of the file, an item per line.
template <class T>
std::string lines_of(const std::vector<T>& items, const Provenance& common) {
  std::string text = "[";
  for (const T& item : items)
    text += fmt::format("{}\n{}", &item == items.data() ? "" : ",", to_json(item, common).dump());
  return text + "\n]";
}

}  // namespace

std::string Wisdom::to_json() const {
  OrderedJson head = {{"schema", kSchema}};
  head.update(warptune::to_json(provenance_));
  std::string text = head.dump();
  text.back() = ',';  // in place of the closing brace
  text += "\n\"winners\": " + lines_of(winners_, provenance_);
  if (!steps_.empty()) text += ",\n\"steps\": " + lines_of(steps_, provenance_);
  return text + "}\n";
}

std::string record_of(const Winner& winner) { return to_json(winner, Provenance{}).dump(); }
std::string record_of(const StepWinner& winner) { return to_json(winner, Provenance{}).dump(); }

void Wisdom::save(const fs::path& path) const { replace_file(path, to_json()); }

}  // namespace warptune
