// Reads one item of a section `ops_defined`: an op of the user.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "harness/core/brief.h"
#include "harness/core/hash.h"
#include "harness/core/input_file.h"
#include "harness/core/kernel_reference.h"
#include "harness/core/lookup.h"
#include "harness/core/space.h"
#include "harness/custom/op_definition.h"
#include "harness/custom/reference.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

/// An op; its functions share it.
struct Definition : OpDefinition {
  std::vector<ArgsField> fields;
  Reference reference;
  std::optional<KernelReference> on_gpu;  // where the reference is a kernel
};
using Shared = std::shared_ptr<const Definition>;

std::string read_identifier(const YamlReader& yaml, const YAML::Node& node, const std::string& what) {
  const std::string name = yaml.text(node, what);
  if (!is_identifier(name))
    yaml.fail(node, "{} is '{}'; it must be a name of letters, digits and '_'", what, brief(name));
  return name;
}

/// `name: text`, or `name: {doc: ..., role: ..., default: ..., min: ...}`.
Dim read_dim(const YamlReader& yaml, const YAML::Node& key, const YAML::Node& node) {
  static const std::vector<std::string> roles = {"shape", "work", "parallel", "data"};
  Dim dim{.name = read_identifier(yaml, key, "a dim"), .max = kLargestInteger};
  const std::vector<std::string> taken = known_values(Problem{}, DeviceFacts{}).names;
  if (contains(taken, dim.name) || dim.name == "dtype")
    yaml.fail(key, "a dim cannot have the name '{}', which expressions use already", dim.name);
  if (node.IsScalar()) {
    dim.doc = node.Scalar();
    return dim;
  }
  yaml.expect_keys(node, fmt::format("dim '{}'", dim.name), {"doc", "role", "default", "min"});
  if (node["doc"]) dim.doc = yaml.text(node["doc"], "'doc'");
  if (node["default"]) dim.fallback = yaml.whole(node["default"], "'default'");
  if (node["min"]) dim.min = yaml.whole(node["min"], "'min'");
  if (node["role"]) dim.role = static_cast<DimRole>(read_word(yaml, node["role"], "'role' of a dim", roles));
  return dim;
}

/// `name: expression`, a float, or `name: {TYPE: expression}`.
Scalar read_scalar(const YamlReader& yaml, const YAML::Node& key, const YAML::Node& node,
                   std::span<const Variable> names) {
  const std::string name = read_identifier(yaml, key, "a scalar");
  const NumberType* type = node.IsMap() ? read_number_type(yaml, node, "a scalar") : &number_type("float");
  const YAML::Node at = node.IsMap() ? node.begin()->second : node;
  yaml.text(at, "a scalar");
  return {name, type, read_formula(yaml, at, names, "scalar")};
}

/// The job of a reference. `value(tensor, i)` is element i of an input.
template <class Value>
ReferenceJob job_of(const Definition& d, const Problem& problem, const std::vector<TensorSpec>& specs,
                    Value&& value) {
  ReferenceJob job{.problem = problem};
  for (std::size_t t = 0; t < specs.size(); ++t) {
    ReferenceTensor tensor{specs[t].name, specs[t].shape,
                           std::vector<double>(static_cast<std::size_t>(specs[t].count()))};
    if (specs[t].role != Role::input) job.outputs.push_back(tensor);
    if (specs[t].role == Role::output) continue;
    for (std::size_t i = 0; i < tensor.values.size(); ++i)
      tensor.values[i] = value(t, static_cast<std::int64_t>(i));
    job.inputs.push_back(std::move(tensor));
  }
  for (const std::string& dim : d.dims) job.dims.push_back({dim, static_cast<double>(problem[dim]), true});
  for (const Scalar& scalar : d.scalars)
    job.scalars.push_back({scalar.name, scalar.value(problem, {}), !scalar.type->is_real});
  return job;
}

/// Stores a value of the reference. Integers of 8 bits reach -128 here.
void store_rounded(DType dtype, void* data, std::int64_t i, double value) {
  if (dtype == DType::int8 && value < -127)
    static_cast<std::int8_t*>(data)[i] = static_cast<std::int8_t>(std::max(-128.0, std::nearbyint(value)));
  else
    store(dtype, data, i, value);
}

/// The reference as a variant of the host, on the tensors of a launch.
HostFunction host_function(Shared d, const Problem& problem) {
  return [d, problem, specs = d->specs(problem, 0)](const void* args) {
    const auto address = [&](std::size_t t) {
      void* data = nullptr;
      std::memcpy(&data, static_cast<const std::byte*>(args) + d->fields[t].offset, sizeof data);
      return data;
    };
    ReferenceJob job = job_of(*d, problem, specs, [&](std::size_t t, std::int64_t i) {
      return load(specs[t].dtype, address(t), i);
    });
    d->reference.run(job);
    std::size_t next = 0;
    for (std::size_t t = 0; t < specs.size(); ++t) {
      if (specs[t].role == Role::input) continue;
      const std::vector<double>& values = job.outputs[next++].values;
      for (std::size_t i = 0; i < values.size(); ++i)
        store_rounded(specs[t].dtype, address(t), static_cast<std::int64_t>(i), values[i]);
    }
  };
}

Cost cost_of(const Definition& d, const Problem& problem) {
  double bytes = 0, elements = 0;
  for (const TensorSpec& spec : d.specs(problem, 0)) {
    bytes += static_cast<double>(spec.bytes()) * (spec.role == Role::inout ? 2 : 1);
    elements += static_cast<double>(spec.count());
  }
  return {.bytes = d.bytes ? (*d.bytes)(problem, {}) : bytes,
          .flops = d.flops ? (*d.flops)(problem, {}) : elements};
}

Tolerance tolerance_of(const Definition& d, const Problem& problem) {
  Tolerance tolerance = default_tolerance(
      problem.dtype, d.roundings ? static_cast<int>(d.roundings->whole(problem, {}, 1, 100)) : 1);
  if (d.rel_l2) tolerance.rel_l2 = (*d.rel_l2)(problem, {});
  if (d.max_rel) tolerance.max_rel = (*d.max_rel)(problem, {});
  return tolerance;
}

/// {cpp: FILE, function: NAME}, {python: FILE, function: NAME} or {cuda: FILE, kernel: NAME, ...}. Adds the
/// texts of its files to `sources`.
void read_reference(const YamlReader& yaml, const YAML::Node& node, const fs::path& folder, Definition& d,
                    double seconds, std::string& sources) {
  yaml.expect_map(node, "'reference'");
  if (node["cuda"]) {
    CudaReference reference = read_cuda_reference(yaml, node, folder, d, seconds);
    d.reference = std::move(reference.on_host);
    d.on_gpu = std::move(reference.on_gpu);
    for (const auto& [name, text] : d.on_gpu->variant->stages.front().custom->files) sources += text;
    return;
  }
  yaml.expect_keys(node, "'reference'", {"cpp", "python", "function"});
  if (!node["function"] || bool(node["cpp"]) == bool(node["python"]))
    yaml.fail(
        node,
        "'reference' must be {cuda: FILE, kernel: NAME, ...}, {cpp: FILE, function: NAME} or {python: FILE, "
        "function: NAME}");
  const YAML::Node at = node["cpp"] ? node["cpp"] : node["python"];
  const fs::path file = fs::absolute(folder / yaml.text(at, "a file")).lexically_normal();
  sources +=
      yaml.at(at, [&] { return read_input(file, fmt::format("'{}'", file.string()), kMaxReferenceBytes); });
  const std::string function = read_identifier(yaml, node["function"], "'function'");
  d.reference =
      node["cpp"] ? cpp_reference(file, function, seconds) : python_reference(file, function, seconds);
}

void put_reference(const Definition& d, const Problem& problem, const Inputs& inputs, Expected& out) {
  // The seed only matters for given contents, which `inputs` has.
  const std::vector<TensorSpec> specs = d.specs(problem, 0);
  std::vector<Values> values;
  for (const TensorSpec& spec : specs) values.push_back(inputs[spec.name]);
  ReferenceJob job = job_of(d, problem, specs, [&](std::size_t t, std::int64_t i) { return values[t][i]; });
  run_apart(d.reference, job);
  for (ReferenceTensor& tensor : job.outputs) {
    expect_some_finite(problem.op, tensor.name, tensor.values);
    out.put(tensor.name, 0, std::move(tensor.values));
  }
}

Op op_of(Shared d) {
  Op op = {
      .name = d->name,
      .check = [d](const Problem& p) { d->check(p); },
      .tensors = [d](const Problem& p, std::uint64_t seed) { return d->specs(p, seed); },
      .bind = [d](const Problem& p, std::span<void* const> t,
                  void* workspace) { return bind_fields(*d, d->fields, p, t, workspace); },
      .fields = d->fields,
      .cost = [d](const Problem& p) { return cost_of(*d, p); },
      .units = [](const Problem&) { return std::int64_t{1}; },
      .reference = [d](const Problem& p, const Inputs& in, std::int64_t,
                       Expected& out) { put_reference(*d, p, in, out); },
      .tolerance = [d](const Problem& p) { return tolerance_of(*d, p); },
  };
  if (d->on_gpu) {
    KernelReference reference = *d->on_gpu;
    reference.on_host = op.reference;
    op.reference = std::move(reference);
  }
  return op;
}

}  // namespace

OpEntry read_defined_op(const YamlReader& yaml, const YAML::Node& node, const fs::path& folder,
                        double reference_seconds) {
  yaml.expect_keys(node, "an item of 'ops_defined'",
                   {"name", "summary", "dims", "dtypes", "tensors", "scalars", "bytes", "flops", "tolerance",
                    "reference"});
  for (const char* key : {"name", "dims", "tensors", "reference"})
    if (!node[key]) yaml.fail(node, "an item of 'ops_defined' needs '{}'", key);
  auto d = std::make_shared<Definition>();
  d->name = read_identifier(yaml, node["name"], "'name'");
  std::vector<Dim> dims;
  yaml.expect_map(node["dims"], "'dims'");
  for (const auto& pair : node["dims"]) dims.push_back(read_dim(yaml, pair.first, pair.second));
  d->dims = names_of(dims);
  const std::vector<Variable> names = formula_names(dims);
  const auto optional = [&](const YAML::Node& at, const std::string& what) -> std::optional<Formula> {
    return at ? std::optional(read_formula(yaml, at, names, what)) : std::nullopt;
  };
  yaml.expect_list(node["tensors"], "'tensors'");
  for (const YAML::Node& tensor : node["tensors"]) {
    d->tensors.push_back(read_tensor(yaml, tensor, names));
    if (!is_identifier(d->tensors.back().name) || d->tensors.back().name == "workspace")
      yaml.fail(tensor, "'{}' cannot name a tensor", brief(d->tensors.back().name));
  }
  if (std::ranges::none_of(d->tensors, [](const auto& t) { return t.role != Role::input; }))
    yaml.fail(node["tensors"], "no tensor has the role output or inout, so that nothing could be verified");
  if (node["scalars"]) {
    yaml.expect_map(node["scalars"], "'scalars'");
    for (const auto& pair : node["scalars"])
      d->scalars.push_back(read_scalar(yaml, pair.first, pair.second, names));
  }
  d->bytes = optional(node["bytes"], "'bytes'");
  d->flops = optional(node["flops"], "'flops'");
  if (const YAML::Node tolerance = node["tolerance"]) {
    yaml.expect_keys(tolerance, "'tolerance'", {"rel_l2", "max_rel", "roundings"});
    d->rel_l2 = optional(tolerance["rel_l2"], "'rel_l2'");
    d->max_rel = optional(tolerance["max_rel"], "'max_rel'");
    d->roundings = optional(tolerance["roundings"], "'roundings'");
  }
  std::string sources = YAML::Dump(node);
  read_reference(yaml, node["reference"], folder, *d, reference_seconds, sources);
  d->fields = fields_of(*d);
  for (std::size_t i = 0; i < d->fields.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (d->fields[i].name == d->fields[j].name)
        yaml.fail(node, "op '{}' has two arguments '{}'", d->name, d->fields[i].name);

  OpEntry entry{.op = op_of(d)};
  entry.op.dims = std::move(dims);
  entry.op.summary = node["summary"] ? yaml.text(node["summary"], "'summary'") : d->name;
  if (node["dtypes"]) {
    entry.op.dtypes.clear();
    for (const YAML::Node& word : yaml.items(node["dtypes"], "'dtypes'"))
      entry.op.dtypes.push_back(yaml.at(word, [&] { return parse_dtype(yaml.text(word, "a dtype")); }));
  }
  entry.variants.push_back(
      {.name = "host_naive",
       .idea = "The reference of the op.",
       .backend = Backend::host,
       .host = [d = Shared(d)](const Problem& p, const Config&) { return host_function(d, p); }});
  entry.host_source_hash = fmt::format("{:016x}", stable_hash(sources));
  return entry;
}

}  // namespace warptune
