#include "harness/core/variant_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "harness/core/error.h"

namespace warptune {

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

std::vector<Variable> variables_of(const Variant& variant, std::span<const Dim> dims) {
  std::vector<Variable> variables;
  for (const Parameter& p : variant.parameters) variables.push_back({p.name, p.labels});
  for (const Dim& d : dims) variables.push_back({d.name, d.labels});
  for (const std::string& name : known_values(Problem{}, DeviceFacts{}).names) variables.push_back({name});
  for (const DerivedValue& d : variant.derived) variables.push_back({d.name});
  return variables;
}

namespace {

bool is_integer(const ArgsField& field) { return !field.is_pointer() && !field.is_real(); }

/// An integer member of an args struct.
double number_in(const ArgsField& field, const void* args) {
  const auto read = [&]<class T>(T value) {
    std::memcpy(&value, static_cast<const std::byte*>(args) + field.offset, sizeof(T));
    return static_cast<double>(value);
  };
  if (field.type == "int") return read(int{});
  if (field.type == "unsigned") return read(0u);
  return read(std::int64_t{});
}

}  // namespace

VariantValues::VariantValues(const Variant& variant, const Problem& problem, const Config& config,
                             const DeviceFacts& facts)
    : variant_(variant) {
  for (const auto& parameter : config)
    values_.emplace_back(parameter.name, static_cast<double>(parameter.value));
  NamedValues known = known_values(problem, facts);
  for (std::size_t i = 0; i < known.names.size(); ++i)
    values_.emplace_back(std::move(known.names[i]), known.values[i]);
}

double VariantValues::value_of(const std::string& name) const {
  if (op_) {
    const auto field = std::ranges::find(op_->fields, name, &ArgsField::name);
    if (field != op_->fields.end() && is_integer(*field)) return number_in(*field, args_);
  }
  const auto it = std::ranges::find(values_, name, &std::pair<std::string, double>::first);
  if (it != values_.end()) return it->second;
  const auto derived = std::ranges::find(variant_.derived, name, &DerivedValue::name);
  if (derived != variant_.derived.end()) return (*this)(derived->value);
  throw std::logic_error(fmt::format("variant '{}' has no value '{}'", variant_.name, name));
}

double VariantValues::operator()(const Expression& expression) const {
  return expression.evaluate([this](const std::string& name) { return value_of(name); });
}

std::int64_t VariantValues::integer(const Expression& expression) const {
  const double value = (*this)(expression);
  if (is_exact_integer(value)) return static_cast<std::int64_t>(value);
  throw CompileError(fmt::format("variant '{}': '{}' is {:.12g}; it must be an integer", variant_.name,
                                 expression.text(), value));
}

Launch VariantValues::launch(const LaunchExpressions& geometry) const {
  std::vector<double> values;
  for (const Expression* e : parts_of(geometry)) values.push_back(static_cast<double>(integer(*e)));
  return launch_of_parts(values);
}

Launch launch_of_parts(std::span<const double> v) {
  const auto whole = [&](std::size_t i) { return static_cast<std::int64_t>(v[i]); };
  const auto extent = [&](std::size_t i) { return as_unsigned(whole(i)); };
  return {.grid = {extent(0), extent(1), extent(2)},
          .block = {extent(3), extent(4), extent(5)},
          .shared_bytes = whole(6),
          .pdl = v[7] != 0,
          .cluster = extent(8),
          .per_sm = v[9] != 0,
          .max_blocks = whole(10),
          .cooperative = v[11] != 0};
}

bool is_exact_integer(double value) {
  constexpr double kLargest = 9e15;
  return value == std::floor(value) && std::abs(value) <= kLargest;
}

namespace {

const void* pointer_in(const ArgsField& field, const void* args) {
  const void* pointer = nullptr;
  std::memcpy(&pointer, static_cast<const std::byte*>(args) + field.offset, sizeof(pointer));
  return pointer;
}

TensorMapSpec spec_of(const TensorMapExpressions& map, const VariantValues& values, const Op& op, DType dtype,
                      const void* args) {
  const auto field = std::ranges::find(op.fields, map.base, &ArgsField::name);
  TensorMapSpec spec{.base = pointer_in(*field, args), .dtype = dtype, .dims = {}, .strides = {}, .box = {}};
  for (const Expression& e : map.dims) spec.dims.push_back(values.integer(e));
  for (const Expression& e : map.strides) spec.strides.push_back(values.integer(e));
  for (const Expression& e : map.box) spec.box.push_back(values.integer(e));
  return spec;
}

/// The parts of a variant whose functions evaluate its expressions.
using Shared = std::shared_ptr<const Variant>;

void declare_stage(Stage& stage, const Shared& variant, std::size_t index, const Op& op) {
  const Stage* declared = &variant->stages[index];
  if (declared->geometry && !declared->custom) {  // a kernel from a file checks its values
    stage.launch = [variant, declared](const Problem& p, const Config& c) {
      return VariantValues(*variant, p, c).launch(*declared->geometry);
    };
    stage.launch_on = [variant, declared](const Problem& p, const Config& c, const DeviceFacts& facts) {
      return VariantValues(*variant, p, c, facts).launch(*declared->geometry);
    };
  }
  if (declared->condition && !declared->custom)
    stage.when = [variant, declared](const Problem& p, const Config& c) {
      return VariantValues(*variant, p, c)(*declared->condition) != 0;
    };
  if (declared->maps.empty()) return;
  stage.tensor_maps = [variant, declared, op](const Problem& p, const Config& c, const void* args) {
    VariantValues values(*variant, p, c);
    values.add_members(op, args);
    std::vector<TensorMapSpec> specs;
    for (const TensorMapExpressions& map : declared->maps)
      specs.push_back(spec_of(map, values, op, p.dtype, args));
    return specs;
  };
}

void resolve_labels(Variant& variant, const Op& op) {
  const std::vector<Variable> variables = variables_of(variant, op.dims);
  std::vector<Variable> with_members;
  for (const ArgsField& field : op.fields)
    if (is_integer(field)) with_members.push_back({field.name});
  with_members.insert(with_members.end(), variables.begin(), variables.end());
  const auto resolve = [&](Expression& e) { e = e.resolve(variables); };
  for (DerivedValue& d : variant.derived) resolve(d.value);
  for (Expression& e : variant.constraints) resolve(e);
  if (variant.workspace) resolve(*variant.workspace);
  if (variant.limits)
    for (Expression* e :
         {&variant.limits->shared_bytes, &variant.limits->registers, &variant.limits->threads_per_sm})
      resolve(*e);
  for (Stage& stage : variant.stages) {
    if (stage.condition) resolve(*stage.condition);
    if (stage.geometry)
      for (Expression* e : parts_of(*stage.geometry)) resolve(*e);
    for (TensorMapExpressions& map : stage.maps) {
      if (std::ranges::find(op.fields, map.base, &ArgsField::name) == op.fields.end())
        throw InputError(
            fmt::format("variant '{}': op '{}' has no member '{}'", variant.name, op.name, map.base));
      for (auto* list : {&map.dims, &map.strides, &map.box})
        for (Expression& e : *list) e = e.resolve(with_members);
    }
  }
}

void declare(Variant& variant, const Op& op) {
  resolve_labels(variant, op);
  const auto declared = std::make_shared<const Variant>(Variant{.name = variant.name,
                                                                .derived = variant.derived,
                                                                .limits = variant.limits,
                                                                .stages = variant.stages,
                                                                .workspace = variant.workspace});
  for (std::size_t i = 0; i < variant.stages.size(); ++i) declare_stage(variant.stages[i], declared, i, op);
  if (variant.workspace && !variant.workspace_bytes)
    variant.workspace_bytes = [declared](const Problem& p, const Config& c) {
      return VariantValues(*declared, p, c).integer(*declared->workspace);
    };
  if (variant.limits)
    variant.resources = [declared](const Problem& p, const Config& c) {
      const VariantValues values(*declared, p, c);
      return LaunchResources{.shared_bytes = values.integer(declared->limits->shared_bytes),
                             .registers = static_cast<int>(values.integer(declared->limits->registers)),
                             .threads_per_sm = values.integer(declared->limits->threads_per_sm)};
    };
}

}  // namespace

void declare(OpEntry& entry) {
  for (Variant& variant : entry.variants) declare(variant, entry.op);
  const std::vector<Variable> variables = variables_of({}, entry.op.dims);
  for (Preference& p : entry.preferences) p.when = p.when.resolve(variables, "preference");
}

}  // namespace warptune
