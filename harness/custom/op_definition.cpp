#include "harness/custom/op_definition.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "harness/core/error.h"

namespace warptune {
namespace {

/// Throws CompileError unless the value is a number that is not negative.
void expect_amount(const std::optional<Formula>& formula, const Problem& problem) {
  if (formula) formula->at_least_zero(problem);
}

}  // namespace

std::vector<TensorSpec> OpDefinition::specs(const Problem& problem, std::uint64_t seed) const {
  std::vector<TensorSpec> list;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    list.push_back(tensors[i].spec(problem, tensor_seed(seed, i)));
  return list;
}

void OpDefinition::check(const Problem& problem) const {
  try {
    for (const TensorFormula& tensor : tensors) tensor.check(problem);
    for (const Scalar& scalar : scalars) scalar.type->value(scalar.value, problem, {});
    for (const auto* amount : {&bytes, &flops, &rel_l2, &max_rel}) expect_amount(*amount, problem);
    if (roundings) roundings->whole(problem, {}, 1, 100);
  } catch (const CompileError& e) {
    throw InputError(e.what());
  }
}

std::vector<ArgsField> fields_of(const OpDefinition& definition, std::string_view real) {
  std::vector<ArgsField> fields;
  std::size_t end = 0;  // offsets are those that a C++ compiler gives
  const auto add = [&](const std::string& name, std::string_view type, std::size_t bytes) {
    end = (end + bytes - 1) / bytes * bytes;
    fields.push_back({name, end, bytes, type});
    end += bytes;
  };
  for (const TensorFormula& tensor : definition.tensors) add(tensor.name, "pointer", sizeof(void*));
  add("workspace", "pointer", sizeof(void*));
  for (const Scalar& scalar : definition.scalars) {
    const NumberType& type = scalar.type->is_real && !real.empty() ? number_type(real) : *scalar.type;
    add(scalar.name, type.name, type.bytes);
  }
  return fields;
}

Args bind_fields(const OpDefinition& definition, const std::vector<ArgsField>& fields, const Problem& problem,
                 std::span<void* const> tensors, void* workspace) {
  const std::size_t end = fields.back().offset + fields.back().bytes, pointers = definition.tensors.size();
  std::vector<std::byte> bytes((end + 7) / 8 * 8);
  for (std::size_t i = 0; i < pointers; ++i)
    std::memcpy(bytes.data() + fields[i].offset, &tensors[i], sizeof(void*));
  std::memcpy(bytes.data() + fields[pointers].offset, &workspace, sizeof(void*));
  for (std::size_t i = 0; i < definition.scalars.size(); ++i) {
    const ArgsField& field = fields[pointers + 1 + i];
    const auto value = number_type(field.type).value(definition.scalars[i].value, problem, {});
    std::memcpy(bytes.data() + field.offset, value.data(), field.bytes);
  }
  return Args(std::move(bytes));
}

}  // namespace warptune
