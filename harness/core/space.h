#pragma once
// The configurations of a variant for a problem on a device.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/variant.h"

namespace warptune {

class Expression;

/// Variables of expressions besides a variant's parameters.
struct NamedValues {
  std::vector<std::string> names;
  std::vector<double> values;
};
/// The dims of a problem, `dtype_bytes`, and of the device `sms`, `arch`, `shared_per_block` and, as 0 or 1,
/// `has_bulk_copy`, `has_wgmma`, `has_clusters`, `has_pdl` and `has_fp8_conversion`.
NamedValues known_values(const Problem& problem, const DeviceFacts& facts);

/// The labels that expressions may use, with their values. Left out are a label that is no name or one of
/// `taken`, and one that has different values in two parameters.
std::vector<std::pair<std::string, double>> words_of(std::span<const Parameter> parameters,
                                                     std::span<const std::string> taken);

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
        std::span<const Override> overrides = {}, std::span<const std::string> constraints = {});

  /// The same for another problem. It shares the compiled constraints where the dims have the same names: one
  /// thread uses both.
  Space of(const Problem& problem) const;

  std::int64_t size() const;  // before constraints; saturates at the largest int64
  Config at(std::int64_t index) const;
  /// The constraint that the configuration breaks, of several the one that needs the fewest parameters.
  /// Throws NotANumber, as do the next two.
  std::optional<std::string> broken_constraint(const Config& config) const;
  /// The same as a sentence; empty if it breaks none.
  std::string why_excluded(const Config& config) const;
  /// All configurations that satisfy every constraint. A constraint is evaluated as soon as all its
  /// parameters have values, so that the walk skips everything below a violation. Throws InputError where the
  /// walk is too long.
  std::vector<Config> configs() const;

 private:
  struct Rules;
  class Walk;
  void set_problem(const Problem& problem, std::span<const std::string> constraints);
  /// How many of the first parameters a constraint needs.
  std::size_t depth_of(const Expression& rule) const;
  const Expression* broken(const std::vector<double>& values) const;
  bool holds(const Expression& rule, const std::vector<double>& values) const;
  std::vector<double> values_of(const Config& config) const;
  std::optional<std::string> broken_resource(const Config& config) const;

  std::vector<Parameter> parameters_;
  DeviceFacts facts_;
  std::function<LaunchResources(const Problem&, const Config&)>
      resources_;  // empty: the variant declares none
  std::shared_ptr<const std::vector<Stage>> stages_;
  std::vector<std::pair<std::string, double>> words_;
  Problem problem_;
  // The known values and words: variables of the expressions after the parameters.
  std::vector<double> fixed_;
  std::shared_ptr<const Rules> rules_;
};

/// The value of a label, where the parameter offers that value.
std::optional<std::int64_t> value_of_label(const Parameter& parameter, std::string_view label);
/// The labels of the values that a parameter offers.
std::vector<std::string> offered_labels(const Parameter& parameter);

/// A configuration from text ("block=256,vec=8"); every parameter must be there. Throws InputError.
Config parse_config(const Variant& variant, std::string_view text);

}  // namespace warptune
