#include "harness/select/regret.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "harness/core/error.h"
#include "harness/results/sweep_file.h"
#include "harness/results/sweep_row.h"
#include "harness/select/plan_chooser.h"

namespace warptune {
namespace {

/// Times by "variant config".
using Times = std::map<std::string, double>;

struct Searched {
  DeviceFacts facts;
  Times first, finalists;
  std::set<std::string> variants;
};

/// The values of parameters that a search tried on any problem.
class TriedValues {
 public:
  void add(const std::string& variant, const std::string& config) {
    for (const auto& [name, value] : parse_pairs(config)) values_[variant + ' ' + name].insert(value);
  }
  /// "variant config" of a choice. A parameter that is 0 in the whole search is judged with 0: the search is
  /// older than what it turns on.
  std::string judged(const PlanChoice& choice) const {
    std::string text = choice.variant->name;
    for (char separator = ' '; const auto& [name, value] : parse_pairs(choice.config.str())) {
      const auto tried = values_.find(choice.variant->name + ' ' + name);
      const bool is_off = tried != values_.end() && tried->second == std::set<std::string>{"0"};
      text += fmt::format("{}{}={}", separator, name, is_off ? "0" : value);
      separator = ',';
    }
    return text;
  }

 private:
  std::map<std::string, std::set<std::string>> values_;  // by "variant name"
};

DeviceFacts facts_of(const CsvRow& row) {
  const auto host_facts = [] {
    const auto host = open_device("host");
    return host->facts();
  };
  DeviceFacts facts = row.at("device") == "host" ? host_facts() : known_device(row.at("arch"));
  facts.name = row.at("device");
  facts.driver = row.at("driver");
  facts.toolkit = row.at("toolkit");
  return facts;
}

/// A problem from its key.
Problem problem_of(const OpTable& ops, const std::string& key) {
  const auto bracket = key.find('['), dtype = key.rfind(",dtype=");
  if (bracket == std::string::npos || dtype == std::string::npos || dtype < bracket || key.back() != ']')
    throw InputError(fmt::format("'{}' is not the key of a problem", key));
  const auto pairs = parse_pairs(key.substr(bracket + 1, dtype - bracket - 1));
  return ops.find(key.substr(0, bracket))
      .op.problem(pairs, parse_dtype(key.substr(dtype + 7, key.size() - dtype - 8)));
}

/// The first choice whose variant the search tried; a search that is older than a variant cannot judge it.
/// The first of all if there is none.
PlanChoice first_choice(PlanChooser& chooser, const Problem& problem, const std::set<std::string>& tried) {
  std::optional<PlanChoice> first;
  const auto take = [&](const PlanChoice& choice) {
    const bool known = tried.contains(choice.variant->name);
    if (known || !first) first = choice;
    return known;
  };
  chooser.choose(problem, true, take);
  if (!first) throw InputError(fmt::format("no variant of this program runs '{}'", problem.key()));
  return *first;
}

}  // namespace

std::vector<Regret> regrets(const OpTable& ops, const std::filesystem::path& csv, const Wisdom& wisdom,
                            StaleCode stale, const MeasuredPeaks& measured) {
  std::vector<std::string> order;
  std::map<std::string, Searched> searched;
  TriedValues values;
  for (const CsvRow& row : read_sweep(csv)) {
    if (row.at("op") == "launch" || row.at("status") != "ok" || row.at("cache") != "cold") continue;
    const auto [it, is_new] = searched.try_emplace(row.at("problem"));
    if (is_new) {
      order.push_back(it->first);
      it->second.facts = facts_of(row);
      if (const auto peaks = measured(it->second.facts)) it->second.facts.set_peaks(*peaks);
    }
    Times& times = sampling_of(row) == SamplingClass::finalist ? it->second.finalists : it->second.first;
    times[row.at("variant") + " " + row.at("config")] = std::stod(row.at("time_us"));
    it->second.variants.insert(row.at("variant"));
    values.add(row.at("variant"), row.at("config"));
  }
  if (order.empty()) throw InputError(fmt::format("'{}' has no time of a cold configuration", csv.string()));
  std::map<std::string, PlanChooser> choosers;  // by device
  const auto chooser_of = [&](const DeviceFacts& facts) -> PlanChooser& {
    const std::string device = fmt::format("{}, {}, {}", facts.name, facts.driver, facts.toolkit);
    if (const auto it = choosers.find(device); it != choosers.end()) return it->second;
    const PlanOptions options{.wisdom = wisdom, .has_wisdom = true, .stale = stale, .untuned = true};
    return choosers.try_emplace(device, ops, facts, options).first->second;
  };
  std::vector<Regret> list;
  for (const std::string& key : order) {
    const Searched& s = searched.at(key);
    const Problem problem = problem_of(ops, key);
    const PlanChoice choice = first_choice(chooser_of(s.facts), problem, s.variants);
    Regret regret{.problem = key, .chosen = values.judged(choice), .source = choice.source};
    const Times& times = s.finalists.contains(regret.chosen) ? s.finalists : s.first;
    const auto best = std::ranges::min_element(times, {}, &Times::value_type::second);
    regret.best = best->first;
    regret.best_us = best->second;
    if (const auto it = times.find(regret.chosen); it != times.end()) regret.chosen_us = it->second;
    list.push_back(regret);
  }
  return list;
}

}  // namespace warptune
