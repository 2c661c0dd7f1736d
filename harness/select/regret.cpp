#include "harness/select/regret.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "harness/core/error.h"
#include "harness/results/sweep_file.h"
#include "harness/results/sweep_row.h"
#include "harness/select/plan_chooser.h"
#include "harness/select/predict.h"

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

/// The variants that a search tried, by op.
using TriedVariants = std::map<std::string, std::set<std::string>>;

/// Makes the fastest recorded configuration of the problem its winner. Without one the variant stays.
void take_fastest_recorded(Winner& winner, const OpEntry& op) {
  winner.time_us = std::numeric_limits<double>::infinity();
  winner.code_hash.clear();
  for (const VariantTimes& times : winner.times) {
    const Variant* variant = op.find_variant(times.variant);
    for (const VariantTimes::Row& row : times.rows) {
      const auto config = variant ? config_of(*variant, times, row) : std::nullopt;
      if (!config || row.time_us >= winner.time_us) continue;
      winner.time_us = row.time_us;
      winner.variant = times.variant;
      winner.config = *config;
      winner.source_hash = times.source_hash;
    }
  }
}

/// The wisdom without variants that the search did not try, since a search that is older than a variant
/// cannot judge it: a winner of one becomes the fastest recorded configuration of the others. Its problem is
/// left out where only one of several others was timed, since that tells nothing about their order.
Wisdom without_untried(const OpTable& ops, const Wisdom& wisdom, const TriedVariants& tried) {
  Wisdom kept(wisdom.provenance());
  for (Winner winner : wisdom.winners()) {
    const auto of_op = tried.find(winner.problem.op);
    if (of_op == tried.end()) continue;
    const auto is_untried = [&](const auto& it) { return !of_op->second.contains(it.variant); };
    std::erase_if(winner.times, is_untried);
    std::erase_if(winner.tied, is_untried);
    if (is_untried(winner)) {
      if (winner.times.size() < std::min<std::size_t>(2, of_op->second.size())) continue;
      take_fastest_recorded(winner, ops.find(winner.problem.op));
      if (is_untried(winner)) continue;
    }
    kept.put(std::move(winner));
  }
  return kept;
}

/// The first choice whose variant the search tried. The first of all if there is none.
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
  TriedVariants variants;
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
    variants[row.at("op")].insert(row.at("variant"));
    values.add(row.at("variant"), row.at("config"));
  }
  if (order.empty()) throw InputError(fmt::format("'{}' has no time of a cold configuration", csv.string()));
  const Wisdom known = without_untried(ops, wisdom, variants);
  std::map<std::string, PlanChooser> choosers;  // by device
  const auto chooser_of = [&](const DeviceFacts& facts) -> PlanChooser& {
    const std::string device = fmt::format("{}, {}, {}", facts.name, facts.driver, facts.toolkit);
    if (const auto it = choosers.find(device); it != choosers.end()) return it->second;
    const PlanOptions options{.wisdom = known, .has_wisdom = true, .stale = stale, .untuned = true};
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
