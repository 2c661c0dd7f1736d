#pragma once
// What an op of the user consists of, besides its reference.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/op.h"
#include "harness/custom/formula.h"
#include "harness/custom/number_type.h"
#include "harness/custom/tensor_reader.h"

namespace warptune {

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

}  // namespace warptune
