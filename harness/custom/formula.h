#pragma once
// An expression in the definition of a kernel, over the dims of the problem, the parameters of the
// configuration, and `dtype_bytes`; and the types of its value.
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/problem.h"
#include "harness/core/variant_values.h"
#include "harness/core/yaml_reader.h"

namespace warptune {

/// Whether a text is a name: letters, digits and '_', no digit first.
bool is_identifier(std::string_view text);

/// The names that a formula may use: the parameters and dims given, and `dtype_bytes`.
std::vector<Variable> formula_names(std::span<const Dim> dims, std::span<const Parameter> parameters = {});

class Formula {
 public:
  /// `what` names the text in messages, `where` is "FILE:LINE". Throws InputError, without `where`, for a
  /// wrong expression.
  Formula(const std::string& text, std::span<const Variable> names, const std::string& what,
          const std::string& where);

  double operator()(const Problem& problem, const Config& config) const;
  const Expression& expression() const { return expression_; }
  /// Throws CompileError, with `where`, if the value is not a number from 0 up.
  double at_least_zero(const Problem& problem) const;
  /// Throws CompileError, with `where`, if the value is not a number that the dtype holds.
  double real(const Problem& problem, const Config& config, DType dtype) const;
  /// Throws CompileError, with `where`, if the value is not an integer from `least` to `most`.
  std::int64_t whole(const Problem& problem, const Config& config, std::int64_t least = -kLargestInteger,
                     std::int64_t most = kLargestInteger) const;

 private:
  Expression expression_;
};

/// The formula in a node; `what` names it in messages. Throws InputError with file and line.
Formula read_formula(const YamlReader& yaml, const YAML::Node& node, std::span<const Variable> names,
                     const std::string& what);

/// A text with {formulas}, each written as an integer, {parameters} of `words`, written as their labels, and
/// {dtype} and {warptune_dtype}, the name of the problem's type in CUDA (`__nv_bfloat16`) and in
/// kernels/common
/// (`warptune::bf16`). Other words in braces are constants of a built-in variant, where there are any.
class FormulaText {
 public:
  using Constants = std::function<Assignment(const Problem&, const Config&)>;
  /// Throws InputError as Formula does, and for a brace without its other one.
  FormulaText(const std::string& text, std::span<const Variable> names, const std::string& what,
              const std::string& where, std::span<const Parameter> words, Constants constants = {});
  std::string operator()(const Problem& problem, const Config& config) const;

 private:
  struct Part {
    std::string text;            // before the value
    std::vector<Formula> value;  // one or none
    std::string word;            // instead of a value: "dtype", "warptune_dtype", a constant
  };
  std::vector<Part> parts_;
  std::string what_, where_;
  std::vector<Parameter> choices_;
  Constants constants_;
};

/// "float", "__half", "__nv_bfloat16", "int", "signed char", "__nv_fp8_e4m3"
std::string_view cuda_type(DType dtype);

/// A type by its name in CUDA, which is also its name in a file.
struct NumberType {
  std::string_view name;
  std::size_t bytes = 0;
  bool is_real = false;
  std::int64_t least = 0, most = 0;  // the range of an integer
  DType dtype = DType::fp32;         // the type of a real

  /// The value of a formula in the first `bytes`. Throws CompileError where the type does not hold it.
  std::array<std::byte, 8> value(const Formula& formula, const Problem& problem, const Config& config) const;
};

/// The type of this name, which must be one of them.
const NumberType& number_type(std::string_view name);
/// {TYPE: ...} with one type, never null. Throws InputError with file and line.
const NumberType* read_number_type(const YamlReader& yaml, const YAML::Node& node, const std::string& what);

}  // namespace warptune
