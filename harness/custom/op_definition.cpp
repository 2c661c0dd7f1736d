#include "harness/custom/op_definition.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "harness/core/error.h"
#include "harness/core/random.h"

namespace warptune {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

/// How many values the random contents of an integer tensor can have.
std::int64_t most_below(DType dtype) { return dtype == DType::int8 ? 128 : std::int64_t{1} << 31; }

}  // namespace

std::size_t read_word(const YamlReader& yaml, const YAML::Node& node, const std::string& what,
                      std::span<const std::string> words) {
  const std::string word = yaml.text(node, what);
  const auto it = std::ranges::find(words, word);
  if (it == words.end())
    yaml.fail(node, "{} is '{}'; it must be one of {}", what, brief(word), listed(words));
  return static_cast<std::size_t>(it - words.begin());
}

void TensorFormula::check(const Problem& problem) const {
  const DType type = dtype.empty() ? problem.dtype : dtype.front();
  std::int64_t bytes = static_cast<std::int64_t>(size_of(type));
  for (const Formula& extent : shape) {
    const std::int64_t value = extent.whole(problem, {}, 1);
    if (value > kMostBytes / bytes)
      throw CompileError("{}: tensor '{}' has more than 2^50 bytes for {}", where, name, problem.key());
    bytes *= value;
  }
  if (!below.empty()) below.front().whole(problem, {}, 1, most_below(type));
}

TensorSpec TensorFormula::spec(const Problem& problem, std::uint64_t seed) const {
  TensorSpec spec{.name = name,
                  .dtype = dtype.empty() ? problem.dtype : dtype.front(),
                  .role = role,
                  .cache = cache,
                  .scale = scale};
  for (const Formula& extent : shape) spec.shape.push_back(extent.whole(problem, {}, 1));
  if (!below.empty() && role != Role::output) {
    const auto limit =
        static_cast<std::uint64_t>(below.front().whole(problem, {}, 1, most_below(spec.dtype)));
    spec.values.resize(static_cast<std::size_t>(spec.count()));
    for (std::size_t i = 0; i < spec.values.size(); ++i)
      spec.values[i] = static_cast<std::int32_t>(random_bits(seed, i) % limit);
  }
  return spec;
}

TensorFormula read_tensor(const YamlReader& yaml, const YAML::Node& node, std::span<const Variable> names) {
  static const std::array<std::string, 3> roles = {"input", "output", "inout"};
  static const std::array<std::string, 2> caches = {"cold", "hot"};
  yaml.expect_keys(node, "a tensor", {"name", "shape", "dtype", "role", "cache", "uniform", "below"});
  for (const char* key : {"name", "shape"})
    if (!node[key]) yaml.fail(node, "a tensor needs '{}'", key);
  TensorFormula tensor{.name = yaml.text(node["name"], "'name'"), .where = yaml.where(node)};
  for (const YAML::Node& extent : yaml.items(node["shape"], "'shape'"))
    tensor.shape.push_back(read_formula(yaml, extent, names, "'shape'"));
  if (node["dtype"] && node["dtype"].Scalar() != "dtype")
    tensor.dtype = {
        yaml.at(node["dtype"], [&] { return parse_tensor_dtype(yaml.text(node["dtype"], "'dtype'")); })};
  if (node["role"]) tensor.role = static_cast<Role>(read_word(yaml, node["role"], "'role'", roles));
  if (node["cache"])
    tensor.cache = static_cast<CacheState>(read_word(yaml, node["cache"], "'cache'", caches));
  if (node["uniform"]) tensor.scale = static_cast<float>(yaml.positive(node["uniform"], "'uniform'"));
  if (node["below"]) tensor.below = {read_formula(yaml, node["below"], names, "'below'")};
  const DType dtype = tensor.dtype.empty() ? DType::fp32 : tensor.dtype.front();
  if (dtype == DType::int8 && !node["uniform"]) tensor.scale = 127;
  if (is_exact(dtype) && tensor.role != Role::output && tensor.below.empty())
    yaml.fail(node, "the {} tensor '{}' needs 'below': its values are from 0 up to it", name_of(dtype),
              tensor.name);
  if (is_exact(dtype) && node["uniform"])
    yaml.fail(node["uniform"], "'uniform' is for int8 and floating point; the values of '{}' are 'below'",
              tensor.name);
  if (is_float(dtype) && !tensor.below.empty())
    yaml.fail(node["below"], "'below' is for integer tensors; '{}' is filled by 'uniform'", tensor.name);
  return tensor;
}

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
    for (const auto* amount : {&bytes, &flops, &rel_l2, &max_rel})
      if (*amount) (*amount)->at_least_zero(problem);
    if (roundings) roundings->whole(problem, {}, 1, 100);
  } catch (const CompileError& e) {
    throw InputError(e.what());
  }
}

std::vector<ArgsField> fields_of(const OpDefinition& definition, std::string_view real) {
  std::vector<ArgsField> fields;
  std::size_t end = 0;  // offsets as a C++ compiler gives them
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
