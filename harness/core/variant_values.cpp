#include "harness/core/variant_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/lookup.h"

namespace warptune {

NamedValues known_values(const Problem& problem, const DeviceFacts& facts) {
  NamedValues known;
  const auto add = [&](std::string name, double value) {
    known.names.push_back(std::move(name));
    known.values.push_back(value);
  };
  for (const auto& dim : problem.dims) add(dim.name, static_cast<double>(dim.value));
  add("dtype_bytes", static_cast<double>(size_of(problem.dtype)));
  const double epsilon = epsilon_of(problem.dtype);
  add("mantissa_bits", epsilon == 0 ? 0 : -std::log2(epsilon));
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

namespace {

/// Known values that depend on the dtype, after the dims.
constexpr std::ptrdiff_t kDTypeValues = 2;

bool is_fact(const std::string& name) {
  const std::vector<std::string> names = known_values(Problem{}, DeviceFacts{}).names;
  return std::find(names.begin() + kDTypeValues, names.end(), name) != names.end();
}

}  // namespace

std::vector<Variable> variables_of(const Variant& variant, std::span<const Dim> dims) {
  std::vector<Variable> variables;
  for (const Parameter& p : variant.parameters) variables.push_back({p.name, p.labels});
  for (const Dim& d : dims) variables.push_back({d.name, d.labels});
  for (const std::string& name : known_values(Problem{}, DeviceFacts{}).names) variables.push_back({name});
  for (const DerivedValue& d : variant.derived) variables.push_back({d.name});
  return variables;
}

VariantValues::VariantValues(const Variant& variant, const Problem& problem, const Config& config,
                             const DeviceFacts* facts)
    : variant_(variant), problem_(problem), config_(config), has_facts_(facts) {
  for (const auto& parameter : config)
    values_.emplace_back(parameter.name, static_cast<double>(parameter.value));
  for (const Parameter& p : variant.parameters)
    if (p.in_step_only && !config.has(p.name))
      values_.emplace_back(p.name, static_cast<double>(value_of(p, config)));
  NamedValues known = known_values(problem, facts ? *facts : DeviceFacts{});
  const std::size_t count = facts ? known.names.size() : problem.dims.size() + kDTypeValues;  // then facts
  for (std::size_t i = 0; i < count; ++i) values_.emplace_back(std::move(known.names[i]), known.values[i]);
}

std::optional<double> VariantValues::known(const std::string& name) const {
  const auto it = std::ranges::find(values_, name, &std::pair<std::string, double>::first);
  return it == values_.end() ? std::nullopt : std::optional(it->second);
}

const Expression& VariantValues::derived(const std::string& name) const {
  if (const DerivedValue* found = find_named(variant_.derived, name)) return found->value;
  if (is_fact(name))
    throw InputError(
        "'{}' is a fact of the device, which workspaces, conditions and kernel names do not know", name);
  throw std::logic_error(fmt::format("variant '{}' has no value '{}'", variant_.name, name));
}

bool VariantValues::knows(const Expression& expression) const {
  return has_facts_ || std::ranges::all_of(expression.names(), [this](const std::string& name) {
           return known(name) || (!is_fact(name) && knows(derived(name)));
         });
}

double VariantValues::operator()(const Expression& expression) const {
  return expression.evaluate([this](const std::string& name) {
    const auto value = known(name);
    return value ? *value : (*this)(derived(name));
  });
}

std::int64_t VariantValues::integer(const Expression& expression, std::int64_t least,
                                    std::int64_t most) const {
  return checked_integer(expression, (*this)(expression), problem_, config_, least, most);
}

Expression VariantValues::partial(const Expression& expression,
                                  const std::function<bool(const std::string&)>& is_kept) const {
  return expression.substitute([&](const std::string& name) -> std::optional<Expression> {
    if (is_kept(name)) return std::nullopt;
    const auto value = known(name);
    return value ? Expression(*value) : partial(derived(name), is_kept);
  });
}

void fail_value(const Expression& expression, double value, const Problem& problem, const Config& config,
                const std::string& right) {
  throw CompileError("{}{}'{}' is {:.12g} for {}{}; it must be {}", expression.origin(),
                     expression.origin().empty() ? "" : " ", expression.text(), value, problem.key(),
                     config.empty() ? "" : " with " + config.str(), right);
}

std::int64_t checked_integer(const Expression& expression, double value, const Problem& problem,
                             const Config& config, std::int64_t least, std::int64_t most) {
  const bool is_whole = value == std::floor(value);
  if (is_whole && value >= static_cast<double>(least) && value <= static_cast<double>(most))
    return static_cast<std::int64_t>(value);
  fail_value(expression, value, problem, config,
             !is_whole                            ? "an integer; ceil_div(a, b) rounds a / b up"
             : least == -kLargestInteger          ? fmt::format("at most {}", most)
             : value < static_cast<double>(least) ? fmt::format("at least {}", least)
                                                  : fmt::format("at most {}", most));
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

Launch launch_of(const Variant& variant, const Stage& stage, const Problem& problem, const Config& config,
                 const DeviceFacts& facts) {
  constexpr std::int64_t kInt = 2147483647;
  constexpr std::int64_t kLeast[] = {1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0, 0},
                         kMost[] = {kInt, kInt, kInt, kInt, kInt, kInt, kInt, 1, 16, 1, kLargestInteger, 1};
  const VariantValues values(variant, problem, config, &facts);
  const auto parts = parts_of(stage.geometry);
  std::array<double, parts.size()> numbers;
  for (std::size_t i = 0; i < parts.size(); ++i)
    numbers[i] = static_cast<double>(values.integer(*parts[i], kLeast[i], kMost[i]));
  return launch_of_parts(numbers);
}

std::vector<const Stage*> active_stages(const Variant& variant, const Problem& problem,
                                        const Config& config) {
  const VariantValues values(variant, problem, config);
  std::vector<const Stage*> active;
  for (const Stage& stage : variant.stages)
    if (values(stage.condition) != 0) active.push_back(&stage);
  return active;
}

std::vector<const Stage*> active_kernels(const Variant& variant, const Problem& problem,
                                         const Config& config) {
  auto active = active_stages(variant, problem, config);
  std::erase_if(active, [](const Stage* stage) { return bool(stage->library); });
  return active;
}

std::int64_t bytes_of(const Expression& workspace, const Variant& variant, const Problem& problem,
                      const Config& config) {
  return VariantValues(variant, problem, config).integer(workspace, 0);
}

namespace {

/// The value of a member of an args struct.
template <class T>
T read(const ArgsField& field, const void* args) {
  T value{};
  std::memcpy(&value, static_cast<const std::byte*>(args) + field.offset, sizeof(T));
  return value;
}

double number_in(const ArgsField& field, const void* args) {
  if (field.type == "int") return read<int>(field, args);
  if (field.type == "unsigned") return read<unsigned>(field, args);
  return static_cast<double>(read<std::int64_t>(field, args));
}

}  // namespace

bool is_integer(const ArgsField& field) { return !field.is_pointer() && !field.is_real(); }

TensorMaps::TensorMaps(const Variant& variant, const Stage& stage, const Problem& problem,
                       const Config& config)
    : dtype_(problem.dtype), maps_(stage.maps) {
  if (maps_.empty()) return;
  fields_ = variant.fields;
  const VariantValues values(variant, problem, config);
  const auto is_member = [&](const std::string& name) {
    const ArgsField* field = find_named(fields_, name);
    return field && is_integer(*field);
  };
  for (TensorMapExpressions& map : maps_)
    for (auto* list : {&map.dims, &map.strides, &map.box})
      for (Expression& e : *list) e = values.partial(e, is_member);
}

std::vector<TensorMapSpec> TensorMaps::operator()(const void* args) const {
  const auto field = [&](const std::string& name) -> const ArgsField& { return *find_named(fields_, name); };
  const auto integers = [&](const std::vector<Expression>& expressions) {
    std::vector<std::int64_t> numbers;
    for (const Expression& e : expressions) {
      const double value = e.evaluate([&](const std::string& name) { return number_in(field(name), args); });
      if (!is_exact_integer(value))
        throw CompileError("a tensor map has '{}', which is {:.12g}", e.text(), value);
      numbers.push_back(static_cast<std::int64_t>(value));
    }
    return numbers;
  };
  std::vector<TensorMapSpec> specs;
  for (const TensorMapExpressions& map : maps_)
    specs.push_back({.base = read<const void*>(field(map.base), args),
                     .dtype = dtype_,
                     .dims = integers(map.dims),
                     .strides = integers(map.strides),
                     .box = integers(map.box),
                     .swizzle = map.swizzle});
  return specs;
}

namespace {

void resolve_labels(Variant& variant, const Op& op) {
  const std::vector<Variable> variables = variables_of(variant, op.dims);
  std::vector<Variable> with_members;
  for (const ArgsField& field : op.fields)
    if (is_integer(field)) with_members.push_back({field.name});
  with_members.insert(with_members.end(), variables.begin(), variables.end());
  const auto resolve = [&](Expression& e) { e = e.resolve(variables); };
  for (DerivedValue& d : variant.derived) resolve(d.value);
  for (Expression& e : variant.constraints) resolve(e);
  ResourceExpressions& limits = variant.limits;
  for (Expression* e : {&variant.workspace, &variant.own_workspace, &variant.peer_workspace,
                        &limits.shared_bytes, &limits.registers, &limits.threads_per_sm})
    resolve(*e);
  for (Stage& stage : variant.stages) {
    resolve(stage.condition);
    for (Expression* e : parts_of(stage.geometry)) resolve(*e);
    for (TensorMapExpressions& map : stage.maps) {
      if (!find_named(op.fields, map.base)) throw InputError("op '{}' has no member '{}'", op.name, map.base);
      for (auto* list : {&map.dims, &map.strides, &map.box})
        for (Expression& e : *list) e = e.resolve(with_members);
    }
  }
}

}  // namespace

void declare(OpEntry& entry) {
  if (Op& op = entry.op; !op.bind)
    op.bind = [op](const Problem& p, std::span<void* const> tensors, void* workspace) {
      return bind_fields(op, p, tensors, workspace);
    };
  for (Variant& variant : entry.variants) {
    variant.fields = entry.op.fields;
    try {
      resolve_labels(variant, entry.op);
    } catch (const InputError& e) {
      throw InputError("variant '{}/{}': {}", entry.op.name, variant.name, e.what());
    }
  }
  const std::vector<Variable> variables = variables_of({}, entry.op.dims);
  for (Preference& p : entry.preferences) p.when = p.when.resolve(variables, "preference");
}

std::optional<std::string> exceeded_launch_limit(const Launch& launch) {
  constexpr std::uint64_t kMaxThreads = 1024;
  const Dim3 &grid = launch.grid, &block = launch.block;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMaxThreads)
    return fmt::format("needs {} threads per block; 1 to {} are possible", threads, kMaxThreads);
  const struct {
    const char* what;
    char axis;
    unsigned extent, limit;
  } rows[] = {{"block", 'z', block.z, 64},
              {"grid", 'x', grid.x, 2147483647},
              {"grid", 'y', grid.y, 65535},
              {"grid", 'z', grid.z, 65535}};
  for (const auto& [what, axis, extent, limit] : rows)
    if (extent == 0 || extent > limit)
      return fmt::format("has a {} of {} along {}; 1 to {} are possible", what, extent, axis, limit);
  return std::nullopt;
}

}  // namespace warptune
