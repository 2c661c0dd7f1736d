#include "harness/custom/op_definition.h"

#include <cstring>

namespace warptune {
namespace {

void put_scalar(const Formula& formula, std::string_view type, const Problem& problem, std::byte* to) {
  const auto put = [&](auto value) { std::memcpy(to, &value, sizeof value); };
  if (type == "int") return put(static_cast<int>(formula.whole(problem, {}, -(1LL << 31), (1LL << 31) - 1)));
  if (type == "long long") return put(static_cast<long long>(formula.whole(problem, {})));
  if (type == "double") return put(formula(problem, {}));
  put(static_cast<float>(formula(problem, {})));
}

}  // namespace

std::vector<TensorSpec> OpDefinition::specs(const Problem& problem, std::uint64_t seed) const {
  std::vector<TensorSpec> list;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    list.push_back(tensors[i].spec(problem, tensor_seed(seed, i)));
  return list;
}

std::vector<ArgsField> fields_of(const OpDefinition& definition, std::string_view real) {
  std::vector<ArgsField> fields;
  std::size_t end = 0;  // offsets are those that a C++ compiler gives
  const auto add = [&](const std::string& name, std::string_view type) {
    const std::size_t bytes = type == "int" || type == "float" ? 4 : 8;
    end = (end + bytes - 1) / bytes * bytes;
    fields.push_back({name, end, bytes, type});
    end += bytes;
  };
  for (const TensorFormula& tensor : definition.tensors) add(tensor.name, "pointer");
  add("workspace", "pointer");
  for (const Scalar& scalar : definition.scalars)
    add(scalar.name, real.empty() || scalar.is_whole() ? scalar.type : real);
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
    put_scalar(definition.scalars[i].value, field.type, problem, bytes.data() + field.offset);
  }
  return Args(std::move(bytes));
}

}  // namespace warptune
