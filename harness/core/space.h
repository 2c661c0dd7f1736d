#pragma once
// The configurations of a variant for a problem on a device.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/variant_values.h"

namespace warptune {

/// The values that a sweep gives a parameter, instead of the variant's own.
struct Override {
  std::string parameter;
  std::vector<std::int64_t> values;
  bool operator==(const Override&) const = default;
};

/// A constraint that is neither true nor false for a configuration: it divides by zero, or a result in it
/// is not finite.
struct NotANumber : InputError {
  NotANumber(const std::string& sentence, std::string text)
      : InputError(sentence), constraint(std::move(text)) {}
  std::string constraint;
};

/// The cross product of a variant's parameters, in canonical order (the last parameter varies fastest),
/// with the constraints of the variant and of the sweep, the shared memory of the device and the limits of a
/// launch. A kernel from a file is checked when it is compiled: its formulas may fail for a configuration.
class Space {
 public:
  /// Throws InputError for an override of an unknown parameter or a wrong constraint.
  Space(const Variant& variant, const Problem& problem, const DeviceFacts& facts,
        std::span<const Override> overrides = {}, std::span<const Expression> constraints = {});

  /// The same for another problem. It shares the compiled constraints where the dims have the same names.
  Space of(const Problem& problem) const;

  std::int64_t size() const;  // before constraints; saturates at the largest int64
  Config at(std::int64_t index) const;
  /// The index of a configuration; nullopt where a parameter does not have its value here.
  std::optional<std::int64_t> index_of(const Config& config) const;
  /// The constraint that the configuration breaks, of several the one that needs the fewest parameters.
  /// Throws NotANumber, as do the next three.
  std::optional<std::string> broken_constraint(const Config& config) const;
  /// The same as a predicate: "breaks rows <= 2", "needs 1024 bytes of shared memory, the device has 1000".
  std::optional<std::string> why_illegal(const Config& config) const;
  /// The same as a sentence; empty if it breaks none.
  std::string why_excluded(const Config& config) const;
  /// All configurations that satisfy every constraint. A constraint is evaluated as soon as all its
  /// parameters have values, so that the walk skips everything below a violation. Throws InputError where the
  /// walk is too long.
  std::vector<Config> configs() const;
  /// Their indices, ascending.
  std::vector<std::int64_t> legal() const;

 private:
  struct Rules;
  class Walk;
  void set_problem(const Problem& problem, std::span<const Expression> constraints);
  const Evaluator* broken(const std::vector<double>& values) const;
  bool holds(const Evaluator& rule, const std::vector<double>& values) const;
  std::vector<double> values_of(const Config& config) const;
  std::optional<std::string> broken_resource(const std::vector<double>& values) const;

  std::vector<Parameter> parameters_;
  DeviceFacts facts_;
  ResourceExpressions limits_;
  Expression workspace_;
  std::shared_ptr<const std::vector<Stage>> stages_;
  std::shared_ptr<const std::vector<DerivedValue>> derived_;
  Problem problem_;
  std::vector<double> fixed_;  // the known values
  std::shared_ptr<const Rules> rules_;
};

/// At most `max_configs` of the configurations, evenly spread, with the first and the last; 0: all.
template <class T>
std::vector<T> spread(std::vector<T> configs, int max_configs) {
  const std::size_t count = configs.size(), want = static_cast<std::size_t>(max_configs);
  if (max_configs <= 0 || count <= want) return configs;
  std::vector<T> chosen;
  for (std::size_t i = 0; i < want; ++i)
    chosen.push_back(configs[want == 1 ? 0 : i * (count - 1) / (want - 1)]);
  return chosen;
}

/// The value of a label, where the parameter offers that value.
std::optional<std::int64_t> value_of_label(const Parameter& parameter, std::string_view label);
/// The labels of the values that a parameter offers.
std::vector<std::string> offered_labels(const Parameter& parameter);

/// A configuration from text ("block=256,vec=8"); every parameter must be there. Throws InputError.
Config parse_config(const Variant& variant, std::string_view text);

}  // namespace warptune
