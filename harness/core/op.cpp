#include "harness/core/op.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/lookup.h"

namespace warptune {

Tolerance default_tolerance(DType dtype, int roundings) {
  if (dtype == DType::int32) return {};
  if (dtype == DType::fp32) return {.rel_l2 = 2e-6 * roundings, .max_rel = 1e-5 * roundings};
  const double eps = epsilon_of(dtype);
  return {.rel_l2 = 0.6 * eps * roundings, .max_rel = 1.2 * eps * roundings};
}

Tolerance with_long_sum(Tolerance tolerance, std::int64_t terms) {
  const double grown = std::sqrt(static_cast<double>(terms)) * 0x1p-24;
  return {.rel_l2 = std::max(tolerance.rel_l2, grown), .max_rel = std::max(tolerance.max_rel, 4 * grown)};
}

const Dim* Op::find_dim(std::string_view wanted) const { return find_named(dims, wanted); }

void check_dim(const Op& op, const Dim& dim, std::int64_t value) {
  if (value < dim.min)
    throw InputError("dim '{}' of op '{}' is {}; it must be at least {}", dim.name, op.name, value, dim.min);
  if (value > dim.max)
    throw InputError("dim '{}' of op '{}' is {}; it must be at most {}", dim.name, op.name, value, dim.max);
}

Problem Op::problem(const Assignment& given, DType dtype) const {
  for (const auto& entry : given)
    if (!find_dim(entry.name))
      throw InputError("op '{}' has no dim '{}'{}", name, brief(entry.name),
                       did_you_mean(entry.name, names_of(dims), "its dims are"));
  if (!contains(dtypes, dtype)) throw InputError("op '{}' does not take dtype {}", name, name_of(dtype));
  Problem p{.op = name, .dtype = dtype};
  for (const Dim& dim : dims) {
    const Assignment::Entry* entry = given.find(dim.name);
    if (!entry && !dim.fallback) throw InputError("op '{}' needs dim '{}' ({})", name, dim.name, dim.doc);
    const std::int64_t value = entry ? entry->value : *dim.fallback;
    const bool omitted = dim.optional && value == dim.fallback;
    if (dim.labels.empty()) {
      check_dim(*this, dim, value);
      p.dims.set(dim.name, value, {}, omitted);
    } else {
      if (value < 0 || value >= static_cast<std::int64_t>(dim.labels.size()))
        throw InputError("dim '{}' of op '{}' must be one of {}", dim.name, name,
                         fmt::join(dim.labels, ", "));
      p.dims.set(dim.name, value, dim.labels[value], omitted);
    }
  }
  if (check) check(p);
  return p;
}

Problem Op::problem(std::span<const std::pair<std::string, std::string>> given, DType dtype) const {
  Assignment values;
  for (const auto& [key, text] : given) {
    const Dim* dim = find_dim(key);
    if (dim && !dim->labels.empty()) {
      const auto it = std::ranges::find(dim->labels, text);
      if (it == dim->labels.end())
        throw InputError("dim '{}' of op '{}' is '{}'; it must be one of {}", key, name, text,
                         fmt::join(dim->labels, ", "));
      values.set(key, it - dim->labels.begin());
      continue;
    }
    values.set(key, whole_number(text, fmt::format("dim '{}' of op '{}'", key, name)));
  }
  return problem(values, dtype);
}

void* ArgsSource::tensor(std::string_view name) const {
  const auto it = std::ranges::find(specs, name, &TensorSpec::name);
  return it == specs.end() ? nullptr : addresses[it - specs.begin()];
}

Args bind_fields(const Op& op, const Problem& problem, std::span<void* const> tensors, void* workspace) {
  const std::vector<TensorSpec> specs = op.tensors(problem, 0);
  const ArgsSource source{problem, specs, tensors, workspace};
  std::size_t size = 0;
  for (const ArgsField& field : op.fields) size = std::max(size, field.struct_bytes);
  if (op.args_bytes) size = op.args_bytes(problem);
  std::vector<std::byte> bytes(size);
  for (const ArgsField& field : op.fields)
    if (field.offset + field.bytes <= size) field.fill(source, bytes.data());
  return Args(std::move(bytes));
}

}  // namespace warptune
