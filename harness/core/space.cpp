#include "harness/core/space.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "harness/core/brief.h"
#include "harness/core/expression.h"
#include "harness/core/lookup.h"

namespace warptune {

/// An expression is evaluated as soon as the parameters that it needs have values.
struct Space::Rules {
  struct Derived {
    Evaluator value;
    std::size_t place;  // in the list of values
  };
  struct Level {  // [i]: what is known once i parameters have values
    std::vector<Derived> derived;
    std::vector<Evaluator> constraints;  // as declared
  };
  struct Kernel {
    std::optional<Evaluator> condition;
    std::vector<Evaluator> geometry;  // in the order of parts_of()
  };
  std::vector<std::string> names;  // the parameters, the known values, then the derived values
  std::vector<Level> levels;
  std::vector<Expression> constraints;
  std::vector<Kernel> kernels;
  std::vector<Evaluator> limits, workspace;
};

namespace {

constexpr std::int64_t kMaxSteps = 100'000'000;  // a walk of half a minute
constexpr std::size_t kMaxConfigs = 10'000'000;

/// Evaluates expressions that must be integers. A sentence about the first that is not.
std::optional<std::string> evaluate(std::span<const Evaluator> expressions, const std::vector<double>& values,
                                    std::vector<double>& numbers) {
  numbers.clear();
  for (const Evaluator& e : expressions) {
    numbers.push_back(e(values));
    if (!is_exact_integer(numbers.back()))
      return fmt::format("has a launch where '{}' is {:.6g}, which is not an integer", e.expression().text(),
                         numbers.back());
  }
  return std::nullopt;
}

}  // namespace

Space::Space(const Variant& variant, const Problem& problem, const DeviceFacts& facts,
             std::span<const Override> overrides, std::span<const Expression> constraints)
    : parameters_(variant.parameters),
      facts_(facts),
      limits_(variant.limits),
      workspace_(variant.workspace),
      stages_(std::make_shared<const std::vector<Stage>>(variant.stages)) {
  for (Parameter& p : parameters_)
    if (p.in_step_only) p.values.resize(1);
  for (const Override& o : overrides) {
    Parameter* parameter = find_named(parameters_, o.parameter);
    if (!parameter)
      throw InputError("variant '{}/{}' has no parameter '{}'; it has {}", problem.op, variant.name,
                       o.parameter, listed(names_of(variant.parameters)));
    parameter->values = o.values;
  }
  std::vector<Expression> all = variant.constraints;
  all.insert(all.end(), constraints.begin(), constraints.end());
  std::vector<Variable> variables = variables_of(variant, {});
  for (const auto& dim : problem.dims) variables.push_back({dim.name});
  for (Expression& e : all) e = e.resolve(variables);
  auto derived = variant.derived;
  for (DerivedValue& d : derived) d.value = d.value.resolve(variables);
  derived_ = std::make_shared<const std::vector<DerivedValue>>(std::move(derived));
  set_problem(problem, all);
}

Space Space::of(const Problem& problem) const {
  Space space = *this;
  space.set_problem(problem, rules_->constraints);
  return space;
}

void Space::set_problem(const Problem& problem, std::span<const Expression> constraints) {
  problem_ = problem;
  fixed_.clear();
  auto rules = std::make_shared<Rules>();
  std::vector<std::string>& names = rules->names;
  for (const Parameter& p : parameters_) names.push_back(p.name);
  NamedValues known = known_values(problem, facts_);
  for (std::size_t i = 0; i < known.names.size(); ++i) {
    if (contains(names, known.names[i])) continue;  // hidden by a parameter
    names.push_back(std::move(known.names[i]));
    fixed_.push_back(known.values[i]);
  }
  const std::size_t first_derived = names.size();
  for (const DerivedValue& d : *derived_) names.push_back(d.name);
  if (rules_ && rules_->names == names) return;
  std::vector<std::size_t> levels(names.size());  // where each value is known
  for (std::size_t i = 0; i < parameters_.size(); ++i) levels[i] = i + 1;
  const auto level_of = [&](const Evaluator& e) {
    std::size_t level = 0;
    for (const std::size_t place : e.used()) level = std::max(level, levels[place]);
    return level;
  };
  rules->levels.resize(parameters_.size() + 1);
  for (std::size_t i = 0; i < derived_->size(); ++i) {
    const std::size_t place = first_derived + i;
    Evaluator value((*derived_)[i].value, std::span(names).first(place));
    levels[place] = level_of(value);
    rules->levels[levels[place]].derived.push_back({std::move(value), place});
  }
  for (const Expression& e : constraints) {
    Evaluator rule(e, names);
    rules->levels[level_of(rule)].constraints.push_back(std::move(rule));
  }
  rules->constraints.assign(constraints.begin(), constraints.end());
  for (const Stage& stage : *stages_) {
    if (stage.library || stage.custom) continue;
    Rules::Kernel& kernel = rules->kernels.emplace_back();
    if (!stage.condition.number()) kernel.condition.emplace(stage.condition, names);
    for (const Expression* e : parts_of(stage.geometry)) kernel.geometry.emplace_back(*e, names);
  }
  const bool from_file = std::ranges::any_of(*stages_, [](const Stage& s) { return bool(s.custom); });
  if (!workspace_.number() && !from_file) rules->workspace.emplace_back(workspace_, names);
  for (const Expression* e : {&limits_.shared_bytes, &limits_.registers, &limits_.threads_per_sm})
    rules->limits.emplace_back(*e, names);
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
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& p = parameters_[i];
    const std::int64_t value = p.values[digits[i]];
    config.set(p.name, value, label_at(p.labels, value));
  }
  return config;
}

std::optional<std::int64_t> Space::index_of(const Config& config) const {
  std::int64_t index = 0;
  for (const Parameter& p : parameters_) {
    const auto value = std::ranges::find(p.values, config[p.name]);
    if (value == p.values.end()) return std::nullopt;
    index = index * static_cast<std::int64_t>(p.values.size()) + (value - p.values.begin());
  }
  return index;
}

std::vector<double> Space::values_of(const Config& config) const {
  std::vector<double> values;
  for (const Parameter& p : parameters_) values.push_back(static_cast<double>(value_of(p, config)));
  values.insert(values.end(), fixed_.begin(), fixed_.end());
  values.resize(rules_->names.size());
  for (const Rules::Level& level : rules_->levels)
    for (const Rules::Derived& d : level.derived) values[d.place] = d.value(values);
  return values;
}

bool Space::holds(const Evaluator& rule, const std::vector<double>& values) const {
  const double value = rule(values);
  if (!std::isnan(value)) return value != 0;
  // Only the parameters that it uses: others may not have a value yet.
  std::string where;
  for (const std::size_t i : rule.used())
    if (i < parameters_.size())
      where += fmt::format("{}{}={}", where.empty() ? " for " : ",", parameters_[i].name, values[i]);
  const std::string text = rule.expression().text();
  throw NotANumber(fmt::format("constraint '{}' is not a number{}: {}", brief(text), where, kNotFinite),
                   text);
}

const Evaluator* Space::broken(const std::vector<double>& values) const {
  for (const Rules::Level& level : rules_->levels)
    for (const Evaluator& rule : level.constraints)
      if (!holds(rule, values)) return &rule;
  return nullptr;
}

std::optional<std::string> Space::broken_resource(const std::vector<double>& values) const {
  std::vector<double> numbers;
  for (const Rules::Kernel& kernel : rules_->kernels) {
    if (kernel.condition && (*kernel.condition)(values) == 0) continue;
    if (auto fraction = evaluate(kernel.geometry, values, numbers)) return fraction;
    if (auto limit = exceeded_launch_limit(launch_of_parts(numbers))) return limit;
  }
  if (auto fraction = evaluate(rules_->workspace, values, numbers)) return fraction;
  if (auto fraction = evaluate(rules_->limits, values, numbers)) return fraction;
  const auto [shared_bytes, registers, threads] = std::array{numbers[0], numbers[1], numbers[2]};
  if (shared_bytes > static_cast<double>(facts_.shared_per_block))
    return fmt::format("needs {} bytes of shared memory, the device has {}", shared_bytes,
                       facts_.shared_per_block);
  if (facts_.registers_per_sm > 0 && registers * threads > static_cast<double>(facts_.registers_per_sm))
    return fmt::format("needs {} registers for each of {} threads, an SM has {}", registers, threads,
                       facts_.registers_per_sm);
  return std::nullopt;
}

std::optional<std::string> Space::broken_constraint(const Config& config) const {
  const std::vector<double> values = values_of(config);
  if (const Evaluator* rule = broken(values)) return rule->expression().text();
  return broken_resource(values);
}

std::optional<std::string> Space::why_illegal(const Config& config) const {
  const std::vector<double> values = values_of(config);
  if (const Evaluator* rule = broken(values)) return "breaks " + rule->expression().text();
  return broken_resource(values);
}

std::string Space::why_excluded(const Config& config) const {
  const std::vector<double> values = values_of(config);
  const Evaluator* rule = broken(values);
  if (!rule) {
    const auto resource = broken_resource(values);
    return resource ? fmt::format("{} {}", config.empty() ? "it" : config.str(), *resource) : "";
  }
  return fmt::format("constraint '{}' excludes {}", rule->expression().text(),
                     config.empty() ? "it" : config.str());
}

/// Sets one parameter after the other, depth first.
class Space::Walk {
 public:
  explicit Walk(const Space& space)
      : space_(space), parameters_(space.parameters_), values_(parameters_.size()) {
    values_.insert(values_.end(), space.fixed_.begin(), space.fixed_.end());
    values_.resize(space.rules_->names.size());
  }

  std::vector<std::int64_t> run() {
    go(0, 0);
    return std::move(kept_);
  }

 private:
  /// Continues with the first `given` parameters set.
  void go(std::size_t given, std::int64_t index) {
    const Rules::Level& level = space_.rules_->levels[given];
    for (const Rules::Derived& d : level.derived) values_[d.place] = d.value(values_);
    if (!std::ranges::all_of(level.constraints, [&](const Evaluator& e) { return space_.holds(e, values_); }))
      return;
    if (given == parameters_.size()) {
      if (space_.broken_resource(values_)) return;
      if (kept_.size() == kMaxConfigs) too_many();
      kept_.push_back(index);
      return;
    }
    const std::vector<std::int64_t>& values = parameters_[given].values;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (++steps_ > kMaxSteps) too_many();
      values_[given] = static_cast<double>(values[i]);
      go(given + 1, index * static_cast<std::int64_t>(values.size()) + static_cast<std::int64_t>(i));
    }
  }

  [[noreturn]] static void too_many() {
    throw InputError("at most {} configurations are possible, and {} steps to find them", kMaxConfigs,
                     kMaxSteps);
  }

  const Space& space_;
  const std::vector<Parameter>& parameters_;
  std::vector<double> values_;
  std::vector<std::int64_t> kept_;
  std::int64_t steps_ = 0;
};

std::vector<std::int64_t> Space::legal() const { return Walk(*this).run(); }

std::vector<Config> Space::configs() const {
  std::vector<Config> configs;
  for (const std::int64_t index : legal()) configs.push_back(at(index));
  return configs;
}

std::vector<std::string> offered_labels(const Parameter& parameter) {
  std::vector<std::string> labels;
  for (const std::int64_t value : parameter.values)
    if (std::string label = label_at(parameter.labels, value); !label.empty())
      labels.push_back(std::move(label));
  return labels;
}

std::optional<std::int64_t> value_of_label(const Parameter& parameter, std::string_view label) {
  for (const std::int64_t value : parameter.values)
    if (!label.empty() && label_at(parameter.labels, value) == label) return value;
  return std::nullopt;
}

namespace {

/// A label that the parameter offers, or the number of one.
std::optional<std::int64_t> choice(const Parameter& parameter, std::string_view text) {
  for (const std::int64_t value : parameter.values)
    if (std::to_string(value) == text) return value;
  return value_of_label(parameter, text);
}

}  // namespace

Config parse_config(const Variant& variant, std::string_view text) {
  Assignment given;
  for (const auto& [name, value] : parse_pairs(text)) {
    const Parameter* p = find_named(variant.parameters, name);
    if (!p)
      throw InputError("variant '{}' has no parameter '{}'; it has {}", variant.name, brief(name),
                       listed(names_of(variant.parameters)));
    const std::string what = fmt::format("parameter '{}' of variant '{}'", name, variant.name);
    const auto number = p->labels.empty() ? std::optional(whole_number(value, what)) : choice(*p, value);
    if (!number)
      throw InputError("{} is '{}'; it must be one of {}", what, brief(value),
                       fmt::join(offered_labels(*p), ", "));
    given.set(name, *number);
  }
  Config config;
  for (const Parameter& p : variant.parameters) {
    const auto* entry = given.find(p.name);
    if (!entry && !p.in_step_only)
      throw InputError("variant '{}' needs parameter '{}'", variant.name, p.name);
    const std::int64_t value = entry ? entry->value : p.values.front();
    config.set(p.name, value, label_at(p.labels, value));
  }
  return config;
}

}  // namespace warptune
