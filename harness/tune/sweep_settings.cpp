#include "harness/tune/sweep_settings.h"

#include <fmt/format.h>

#include <cctype>
#include <cstdlib>

#include "harness/core/brief.h"
#include "harness/core/lookup.h"
#include "harness/core/pattern.h"
#include "harness/measure/statistics.h"
#include "harness/search/strategy.h"
#include "harness/tune/prune_rules.h"

namespace warptune {

std::string device_of(const YamlReader& yaml, const YAML::Node& node) {
  const std::string device = yaml.text(node, "'device'");
  static const Pattern good("all|(auto|host|cuda:[0-9]+)(,(auto|host|cuda:[0-9]+))*", "'device'");
  constexpr std::size_t kMaxBytes = 1000;
  if (device.size() > kMaxBytes || !good.matches(device))
    yaml.fail(node, "'device' is '{}'; it must be auto, host, cuda:N, all, or a list with commas",
              brief(device));
  return device;
}

std::uint64_t seed_of(const YamlReader& yaml, const YAML::Node& node) {
  const std::int64_t seed = yaml.whole(node, "'seed'");
  if (seed < 0) yaml.fail(node, "'seed' is {}; it must be 0 or more", seed);
  return static_cast<std::uint64_t>(seed);
}

void read_sampling(const YamlReader& yaml, const YAML::Node& node, BenchOptions& options) {
  yaml.expect_keys(node, "'sampling'", {"max_rel_ci", "min_samples", "max_time", "duty_cycle"});
  if (node["max_rel_ci"]) options.max_rel_ci = yaml.positive(node["max_rel_ci"], "'max_rel_ci'");
  if (node["max_time"]) options.max_time = yaml.positive(node["max_time"], "'max_time'");
  if (const YAML::Node cycle = node["duty_cycle"]) {
    options.duty_cycle = yaml.positive(cycle, "'duty_cycle'");
    if (options.duty_cycle < kLeastDutyCycle || options.duty_cycle > 1)
      yaml.fail(cycle,
                "'duty_cycle' is {}; it must be {} to 1, the part of the time in which the device works",
                options.duty_cycle, kLeastDutyCycle);
  }
  if (node["min_samples"]) {
    const std::int64_t n = yaml.whole(node["min_samples"], "'min_samples'");
    if (n < kMinSamplesForInterval || n > 100000)
      yaml.fail(node["min_samples"],
                "'min_samples' is {}; it must be {} to 100000 (fewer give no 95 % interval)", n,
                kMinSamplesForInterval);
    options.min_samples = static_cast<int>(n);
  }
}

SearchChoice search_of(const YamlReader& yaml, const YAML::Node& node) {
  SearchChoice search;
  if (node.IsMap()) yaml.expect_keys(node, "'strategy'", {"name", "budget", "seed", "resources", "run"});
  const YAML::Node name = node.IsMap() ? node["name"] : node;
  if (!name) yaml.fail(node, "'strategy' needs 'name'");
  search.strategy = yaml.text(name, "'strategy'");
  const auto& known = strategy_names();
  if (!contains(known, search.strategy))
    yaml.fail(name, "unknown strategy '{}'{}", brief(search.strategy), did_you_mean(search.strategy, known));
  if (search.strategy != "exhaustive") search.budget = parse_budget("15%");
  const bool is_command = search.strategy == "command";
  if (is_command != (node.IsMap() && node["run"]))
    yaml.fail(name, is_command ? "strategy 'command' needs 'run', the command line of a program that proposes"
                               : fmt::format("'run' is for strategy 'command', not '{}'", search.strategy));
  if (!node.IsMap()) return search;
  if (is_command) search.run = yaml.text(node["run"], "'run'");
  if (const YAML::Node budget = node["budget"])
    search.budget = yaml.at(budget, [&] { return parse_budget(yaml.text(budget, "'budget'")); });
  if (node["resources"]) search.resources = yaml.yes(node["resources"], "'resources'");
  if (node["seed"]) search.seed = seed_of(yaml, node["seed"]);
  return search;
}

std::vector<std::string> prune_of(const YamlReader& yaml, const YAML::Node& node) {
  std::vector<std::string> conditions;
  for (const YAML::Node& item : yaml.items(node, "'prune'")) {
    conditions.push_back(yaml.text(item, "a condition of 'prune'"));
    yaml.at(item, [&] { PruneRules({conditions.back()}); });
  }
  return conditions;
}

Objective objective_of(const YamlReader& yaml, const YAML::Node& node) {
  return static_cast<Objective>(yaml.word(node, "'objective'", {"time", "energy", "edp"}));
}

CacheMode cache_of(const YamlReader& yaml, const YAML::Node& node) {
  return yaml.word(node, "'cache'", {"cold", "hot"}) == 0 ? CacheMode::cold : CacheMode::hot;
}

namespace {

/// A number, also infinite or NaN, as YAML or C write it.
double any_number(const YamlReader& yaml, const YAML::Node& node, const std::string& what) {
  const std::string given = yaml.text(node, what);
  std::string text = given;
  if (const auto dot = text.find('.'); dot != std::string::npos && text.size() == dot + 4 && dot <= 1 &&
                                       std::isalpha(static_cast<unsigned char>(text[dot + 1])))
    text.erase(dot, 1);  // .inf, -.inf, .nan
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0')
    yaml.fail(node, "{} is '{}'; it must be a number, inf, -inf or nan", what, brief(given));
  return value;
}

}  // namespace

InputChanges inputs_of(const YamlReader& yaml, const YAML::Node& node, InputChanges inputs) {
  yaml.expect_map(node, "'inputs'");
  for (const auto& pair : node) {
    const std::string tensor = yaml.text(pair.first, "a tensor of 'inputs'");
    const YAML::Node change = pair.second;
    yaml.expect_keys(change, fmt::format("'{}' of 'inputs'", brief(tensor)), {"scale", "value", "every"});
    InputChange wanted{.tensor = tensor};
    if (!change["scale"] && !change["value"])
      yaml.fail(change, "'{}' of 'inputs' needs 'scale' or 'value'", brief(tensor));
    if (change["scale"]) wanted.scale = yaml.positive(change["scale"], "'scale'");
    if (change["value"]) wanted.value = any_number(yaml, change["value"], "'value'");
    if (change["every"]) {
      if (!wanted.value) yaml.fail(change["every"], "'every' needs 'value'");
      wanted.every = yaml.whole(change["every"], "'every'");
      if (wanted.every < 1) yaml.fail(change["every"], "'every' is {}; it must be 1 or more", wanted.every);
    }
    std::erase_if(inputs, [&](const InputChange& other) { return other.tensor == tensor; });
    inputs.push_back(std::move(wanted));
  }
  return inputs;
}

int max_configs_of(const YamlReader& yaml, const YAML::Node& node) {
  return static_cast<int>(yaml.whole(node, "'max_configs'", 1, 1000000));
}

int count_of(const YamlReader& yaml, const YAML::Node& node, const char* key) {
  return static_cast<int>(yaml.whole(node, fmt::format("'{}'", key), 1, 64));
}

std::vector<DType> dtypes_of(const YamlReader& yaml, const YAML::Node& node) {
  std::vector<DType> dtypes;
  for (const YAML::Node& item : yaml.items(node, "'dtypes'")) {
    const std::string name = yaml.text(item, "a dtype");
    dtypes.push_back(yaml.at(item, [&] { return parse_dtype(name); }));
  }
  return dtypes;
}

}  // namespace warptune
