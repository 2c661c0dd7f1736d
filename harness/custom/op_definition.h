#pragma once
// An op of the user: what an item of a section `ops_defined` consists of (docs/custom-ops.md).
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/op.h"
#include "harness/core/tensor.h"
#include "harness/core/variant.h"
#include "harness/core/yaml_reader.h"
#include "harness/custom/formula.h"

namespace warptune {

/// The index of a word in a list. Throws InputError with file and line, and the words.
std::size_t read_word(const YamlReader& yaml, const YAML::Node& node, const std::string& what,
                      std::span<const std::string> words);

/// A tensor whose shape depends on the problem.
struct TensorFormula {
  std::string name, where;   // "FILE:LINE"
  std::vector<DType> dtype;  // one, or none: that of the problem
  std::vector<Formula> shape;
  Role role = Role::input;
  CacheState cache = CacheState::cold;
  float scale = 1;
  std::vector<Formula> below;  // one for integers: values from 0 up to it

  /// Throws CompileError, with file and line, where the shape or `below` has an impossible value.
  void check(const Problem& problem) const;
  TensorSpec spec(const Problem& problem, std::uint64_t seed) const;
};

/// {name: ..., shape: [...], dtype: ..., role: ..., cache: ..., uniform: ..., below: ...}. Throws InputError
/// with file and line.
TensorFormula read_tensor(const YamlReader& yaml, const YAML::Node& node, std::span<const Variable> names);

/// A number that kernels get besides tensors and dims.
struct Scalar {
  std::string name;
  const NumberType* type;
  Formula value;
};

struct OpDefinition {
  std::string name;
  std::vector<std::string> dims;
  std::vector<TensorFormula> tensors;
  std::vector<Scalar> scalars;
  std::optional<Formula> bytes, flops, rel_l2, max_rel, roundings;

  std::vector<TensorSpec> specs(const Problem& problem, std::uint64_t seed) const;
  /// Throws InputError, with file and line, for a problem in which an expression has an impossible value.
  void check(const Problem& problem) const;
};

/// The members of the struct that kernels take: pointers of the tensors, of the workspace, then the scalars.
/// `real`, if any, is the type of the real scalars.
std::vector<ArgsField> fields_of(const OpDefinition& definition, std::string_view real = {});
/// Fills a struct of these fields.
Args bind_fields(const OpDefinition& definition, const std::vector<ArgsField>& fields, const Problem& problem,
                 std::span<void* const> tensors, void* workspace);

/// Reads an item: the op with one variant, `host_naive`, which is its reference on the host. `folder` is that
/// of the file, `reference_seconds` the time that a run of the reference may take. Throws InputError with
/// file and line.
OpEntry read_defined_op(const YamlReader& yaml, const YAML::Node& node, const std::filesystem::path& folder,
                        double reference_seconds);

}  // namespace warptune
