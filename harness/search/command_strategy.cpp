// Strategy `command`: another program chooses, by JSON lines on its stdin and stdout (docs/search.md).
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/json.h"
#include "harness/core/line_process.h"
#include "harness/search/strategy.h"

namespace warptune {
using Json = nlohmann::json;
namespace {

constexpr double kAnswerSeconds = 60;

/// The values of a configuration: numbers, or labels where the parameter is a choice.
Json json_of(const Assignment& config) {
  Json values = Json::object();
  for (const auto& entry : config)
    values[entry.name] = entry.label.empty() ? Json(entry.value) : Json(entry.label);
  return values;
}

Json json_of(const SearchSpace& space, const SearchChoice& choice) {
  Json configurations = Json::array();
  for (const SearchCandidate& c : space.candidates) {
    Json one = {{"id", configurations.size()}, {"variant", c.variant}, {"parameters", json_of(c.config)}};
    if (c.registers) one["registers"] = *c.registers;
    if (c.occupancy_pct) one["occupancy_pct"] = *c.occupancy_pct;
    configurations.push_back(std::move(one));
  }
  return {{"type", "space"},
          {"problem", space.problem},
          {"seed", choice.seed},
          {"evaluations", choice.budget.evaluations(space.candidates.size())},
          {"floor_us", space.floor_us},
          {"likely", space.likely},
          {"constraints", space.constraints},
          {"configurations", std::move(configurations)}};
}

class Command final : public Strategy {
 public:
  Command(const SearchSpace& space, const SearchChoice& choice)
      : run_(choice.run), process_({"sh", "-c", run_}), proposed_(space.candidates.size()) {
    process_.send(json_of(space, choice).dump());
  }

  std::optional<std::size_t> next() override {
    if (has_ended_) return std::nullopt;
    process_.send(R"({"type":"ask"})");
    const LineProcess::Answer answer = process_.next_line(kAnswerSeconds);
    if (answer.kind != LineProcess::Answer::Kind::line) fail(answer.text + last_error());
    const std::optional<Json> id = id_of(answer.text);
    if (!id) fail(fmt::format("answered '{}' instead of {{\"id\": N}}", brief(answer.text)));
    has_ended_ = id->is_null();
    if (has_ended_) return std::nullopt;
    if (!id->is_number_unsigned() || id->get<std::uint64_t>() >= proposed_.size())
      fail(fmt::format("proposed {}, which is not in the space of {} configurations", brief(id->dump()),
                       proposed_.size()));
    const auto candidate = id->get<std::size_t>();
    if (proposed_[candidate]) fail(fmt::format("proposed {} twice", candidate));
    proposed_[candidate] = true;
    return candidate;
  }

  void tell(std::size_t candidate, std::optional<double> time_us) override {
    process_.send(
        Json{{"type", "tell"}, {"id", candidate}, {"time_us", time_us ? Json(*time_us) : Json()}}.dump());
  }

 private:
  /// The id of an answer, which may be null; nothing where it is no answer.
  static std::optional<Json> id_of(const std::string& line) try {
    const Json json = parse_json(line, "an answer");
    if (!json.is_object() || !json.contains("id")) return std::nullopt;
    return json["id"];
  } catch (const InputError&) {
    return std::nullopt;
  }

  /// ": the last line of its stderr"
  std::string last_error() const {
    std::string_view text = process_.errors();
    while (text.ends_with('\n')) text.remove_suffix(1);
    if (text.empty()) return {};
    return ": " + brief(text.substr(text.find_last_of('\n') + 1));
  }

  [[noreturn]] void fail(const std::string& predicate) const {
    throw InputError("strategy '{}' {}; its rows are kept, and the same command goes on", brief(run_),
                     predicate);
  }

  const std::string run_;
  LineProcess process_;
  std::vector<bool> proposed_;
  bool has_ended_ = false;  // it proposes nothing more
};

}  // namespace

std::unique_ptr<Strategy> make_command(const SearchSpace& space, const SearchChoice& choice) {
  return std::make_unique<Command>(space, choice);
}

}  // namespace warptune
