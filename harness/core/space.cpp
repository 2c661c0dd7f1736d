#include "harness/core/space.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/expression.h"
#include "harness/core/launch_limits.h"
#include "harness/core/limits.h"

namespace warptune {

struct Space::Rules {
  std::vector<std::string> variables;   // the parameters, the known values, then the words
  std::vector<Expression> expressions;  // in the order of a walk: by depth_of(), else as declared
};

namespace {

constexpr std::int64_t kMaxSteps = 100'000'000;  // a walk of half a minute
constexpr std::size_t kMaxConfigs = 10'000'000;  // 4 GB of them
constexpr std::size_t kMaxKept = 100'000;        // more are counted before they are built

std::string names_of(const Variant& variant) {
  std::vector<std::string> names;
  for (const Parameter& p : variant.parameters) names.push_back(p.name);
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

void set_value(Config& config, const Parameter& parameter, std::int64_t value) {
  const auto index = static_cast<std::size_t>(value);
  config.set(parameter.name, value,
             index < parameter.labels.size() ? parameter.labels[index] : std::string());
}

}  // namespace

NamedValues known_values(const Problem& problem, const DeviceFacts& facts) {
  NamedValues known;
  const auto add = [&](std::string name, double value) {
    known.names.push_back(std::move(name));
    known.values.push_back(value);
  };
  for (const auto& dim : problem.dims) add(dim.name, static_cast<double>(dim.value));
  add("dtype_bytes", static_cast<double>(size_of(problem.dtype)));
  add("sms", facts.sms);
  add("arch", facts.arch_number());
  add("shared_per_block", static_cast<double>(facts.shared_per_block));
  add("has_bulk_copy", facts.has_bulk_copy());
  add("has_wgmma", facts.has_wgmma());
  add("has_clusters", facts.has_clusters());
  add("has_pdl", facts.has_pdl());
  add("has_fp8_conversion", facts.has_fp8_conversion());
  return known;
}

std::vector<std::pair<std::string, double>> words_of(std::span<const Parameter> parameters,
                                                     std::span<const std::string> taken) {
  std::map<std::string, std::set<std::size_t>> values;
  for (const Parameter& p : parameters)
    for (std::size_t i = 0; i < p.labels.size(); ++i) values[p.labels[i]].insert(i);
  const auto is_name = [](const std::string& word) {
    try {
      return Expression(word, {word}).used_variables().size() == 1;
    } catch (const InputError&) {
      return false;
    }
  };
  std::vector<std::pair<std::string, double>> words;
  for (const auto& [word, known] : values)
    if (known.size() == 1 && std::ranges::find(taken, word) == taken.end() && is_name(word))
      words.emplace_back(word, static_cast<double>(*known.begin()));
  return words;
}

Space::Space(const Variant& variant, const Problem& problem, const DeviceFacts& facts,
             std::span<const Override> overrides, std::span<const std::string> constraints)
    : parameters_(variant.parameters),
      facts_(facts),
      resources_(variant.resources),
      stages_(std::make_shared<const std::vector<Stage>>(variant.stages)) {
  for (Parameter& p : parameters_)
    if (p.in_step_only) p.values.resize(1);
  for (const Override& o : overrides) {
    const auto it = std::ranges::find(parameters_, o.parameter, &Parameter::name);
    if (it == parameters_.end())
      throw InputError(fmt::format("variant '{}/{}' has no parameter '{}'; it has {}", problem.op,
                                   variant.name, o.parameter, names_of(variant)));
    it->values = o.values;
  }
  std::vector<std::string> all = variant.constraints;
  all.insert(all.end(), constraints.begin(), constraints.end());
  std::vector<std::string> taken = known_values(problem, facts).names;
  for (const Parameter& p : parameters_) taken.push_back(p.name);
  words_ = words_of(parameters_, taken);
  set_problem(problem, all);
}

Space Space::of(const Problem& problem) const {
  Space space = *this;
  std::vector<std::string> constraints;
  for (const Expression& e : rules_->expressions) constraints.push_back(e.text());
  space.set_problem(problem, constraints);
  return space;
}

void Space::set_problem(const Problem& problem, std::span<const std::string> constraints) {
  problem_ = problem;
  fixed_.clear();
  std::vector<std::string> variables;
  for (const Parameter& p : parameters_) variables.push_back(p.name);
  NamedValues known = known_values(problem, facts_);
  for (std::size_t i = 0; i < known.names.size(); ++i) {
    if (std::ranges::find(variables, known.names[i]) != variables.end()) continue;  // hidden by a parameter
    variables.push_back(std::move(known.names[i]));
    fixed_.push_back(known.values[i]);
  }
  for (const auto& [word, value] : words_) {
    variables.push_back(word);
    fixed_.push_back(value);
  }
  if (rules_ && rules_->variables == variables) return;
  std::vector<std::pair<std::size_t, Expression>> compiled;
  for (const std::string& text : constraints) {
    Expression e(text, variables);
    const std::size_t depth = depth_of(e);
    compiled.emplace_back(depth, std::move(e));
  }
  auto rules = std::make_shared<Rules>();
  for (std::size_t depth = 0; depth <= parameters_.size(); ++depth)
    for (auto& [needs, e] : compiled)
      if (needs == depth) rules->expressions.push_back(std::move(e));
  rules->variables = std::move(variables);
  rules_ = std::move(rules);
}

std::int64_t Space::size() const {
  std::int64_t n = 1;
  for (const Parameter& p : parameters_)
    if (__builtin_mul_overflow(n, static_cast<std::int64_t>(p.values.size()), &n))
      return std::numeric_limits<std::int64_t>::max();
  return n;
}

Config Space::at(std::int64_t index) const {
  std::vector<std::int64_t> digits(parameters_.size());
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    const auto n = static_cast<std::int64_t>(parameters_[i].values.size());
    digits[i] = index % n;
    index /= n;
  }
  Config config;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    set_value(config, parameters_[i], parameters_[i].values[static_cast<std::size_t>(digits[i])]);
  return config;
}

std::vector<double> Space::values_of(const Config& config) const {
  std::vector<double> values;
  for (const Parameter& p : parameters_) values.push_back(static_cast<double>(config[p.name]));
  values.insert(values.end(), fixed_.begin(), fixed_.end());
  return values;
}

bool Space::holds(const Expression& rule, const std::vector<double>& values) const {
  const double value = rule.evaluate(values);
  if (!std::isnan(value)) return value != 0;
  // Only the parameters that it uses: others may not have a value yet.
  std::string where;
  for (const std::size_t i : rule.used_variables())
    if (i < parameters_.size())
      where += fmt::format("{}{}={}", where.empty() ? " for " : ",", parameters_[i].name, values[i]);
  throw NotANumber(
      fmt::format("constraint '{}' is not a number{}: {}", brief(rule.text()), where, kNotFinite),
      rule.text());
}

std::size_t Space::depth_of(const Expression& rule) const {
  std::size_t depth = 0;
  for (const std::size_t variable : rule.used_variables())
    if (variable < parameters_.size()) depth = std::max(depth, variable + 1);
  return depth;
}

const Expression* Space::broken(const std::vector<double>& values) const {
  const auto& all = rules_->expressions;
  const auto it = std::ranges::find_if(all, [&](const Expression& e) { return !holds(e, values); });
  return it == all.end() ? nullptr : &*it;
}

std::optional<std::string> Space::broken_resource(const Config& config) const {
  for (const Stage& stage : *stages_) {
    if (!stage.launch || stage.custom || (stage.when && !stage.when(problem_, config))) continue;
    if (auto limit = exceeded_launch_limit(stage.launch(problem_, config))) return limit;
  }
  if (!resources_) return std::nullopt;
  const LaunchResources needs = resources_(problem_, config);
  if (needs.shared_bytes > facts_.shared_per_block)
    return fmt::format("needs {} bytes of shared memory, the device has {}", needs.shared_bytes,
                       facts_.shared_per_block);
  if (facts_.registers_per_sm > 0 && needs.registers * needs.threads_per_sm > facts_.registers_per_sm)
    return fmt::format("needs {} registers for each of {} threads, an SM has {}", needs.registers,
                       needs.threads_per_sm, facts_.registers_per_sm);
  return std::nullopt;
}

std::optional<std::string> Space::broken_constraint(const Config& config) const {
  if (const Expression* rule = broken(values_of(config))) return rule->text();
  return broken_resource(config);
}

std::string Space::why_excluded(const Config& config) const {
  const Expression* rule = broken(values_of(config));
  if (!rule) {
    const auto resource = broken_resource(config);
    return resource ? fmt::format("{} {}", config.empty() ? "it" : config.str(), *resource) : "";
  }
  return fmt::format("constraint '{}' excludes {}", rule->text(), config.empty() ? "it" : config.str());
}

/// Sets one parameter after the other, depth first.
class Space::Walk {
 public:
  explicit Walk(const Space& space)
      : space_(space),
        parameters_(space.parameters_),
        values_(parameters_.size()),
        due_(parameters_.size() + 1) {
    values_.insert(values_.end(), space.fixed_.begin(), space.fixed_.end());
    for (const Expression& rule : space.rules_->expressions) due_[space.depth_of(rule)].push_back(&rule);
  }

  std::vector<Config> run() {
    const bool counted = space_.rules_->expressions.empty() && !space_.resources_;
    if (counted && space_.size() > static_cast<std::int64_t>(kMaxConfigs)) too_many();
    go(0);
    if (count_ <= kMaxKept) return std::move(kept_);
    // There are many: they were counted first and are built now that they are known to be possible.
    max_kept_ = std::exchange(count_, 0);
    steps_ = 0;
    kept_.clear();
    go(0);
    return std::move(kept_);
  }

 private:
  /// Continues with the first `given` parameters set.
  void go(std::size_t given) {
    if (!std::ranges::all_of(due_[given], [&](const Expression* e) { return space_.holds(*e, values_); }))
      return;
    if (given == parameters_.size()) {
      if (space_.broken_resource(config_)) return;
      if (++count_ > kMaxConfigs) too_many();
      if (count_ <= max_kept_) kept_.push_back(config_);
      return;
    }
    const Parameter& parameter = parameters_[given];
    for (const std::int64_t value : parameter.values) {
      if (++steps_ > kMaxSteps) too_many();
      values_[given] = static_cast<double>(value);
      set_value(config_, parameter, value);
      go(given + 1);
    }
  }

  [[noreturn]] static void too_many() {
    throw InputError(fmt::format("at most {} configurations are possible, and {} steps to find them",
                                 kMaxConfigs, kMaxSteps));
  }

  const Space& space_;
  const std::vector<Parameter>& parameters_;
  std::vector<double> values_;
  std::vector<std::vector<const Expression*>> due_;  // [i]: constraints to check once i parameters are set
  Config config_;
  std::vector<Config> kept_;
  std::size_t count_ = 0, max_kept_ = kMaxKept;
  std::int64_t steps_ = 0;
};

std::vector<Config> Space::configs() const { return Walk(*this).run(); }

std::vector<std::string> offered_labels(const Parameter& parameter) {
  std::vector<std::string> labels;
  for (const std::int64_t value : parameter.values)
    if (const auto index = static_cast<std::size_t>(value); index < parameter.labels.size())
      labels.push_back(parameter.labels[index]);
  return labels;
}

std::optional<std::int64_t> value_of_label(const Parameter& parameter, std::string_view label) {
  for (const std::int64_t value : parameter.values)
    if (const auto index = static_cast<std::size_t>(value);
        index < parameter.labels.size() && parameter.labels[index] == label)
      return value;
  return std::nullopt;
}

namespace {

/// A label or the number of one, among those that the parameter offers.
std::optional<std::int64_t> choice(const Parameter& parameter, std::string_view text) {
  for (const std::int64_t value : parameter.values)
    if (std::to_string(value) == text) return value;
  return value_of_label(parameter, text);
}

}  // namespace

Config parse_config(const Variant& variant, std::string_view text) {
  Assignment given;
  for (const auto& [name, value] : parse_pairs(text)) {
    const auto it = std::ranges::find(variant.parameters, name, &Parameter::name);
    if (it == variant.parameters.end())
      throw InputError(fmt::format("variant '{}' has no parameter '{}'; it has {}", variant.name, brief(name),
                                   names_of(variant)));
    const std::string what = fmt::format("parameter '{}' of variant '{}'", name, variant.name);
    const auto number = it->labels.empty() ? std::optional(whole_number(value, what)) : choice(*it, value);
    if (!number)
      throw InputError(fmt::format("{} is '{}'; it must be one of {}", what, brief(value),
                                   fmt::join(offered_labels(*it), ", ")));
    set_value(given, *it, *number);
  }
  Config config;
  for (const Parameter& p : variant.parameters) {
    const auto* entry = given.find(p.name);
    if (!entry) throw InputError(fmt::format("variant '{}' needs parameter '{}'", variant.name, p.name));
    set_value(config, p, entry->value);
  }
  return config;
}

}  // namespace warptune
