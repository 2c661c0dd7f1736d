#include "harness/custom/tensor_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/core/error.h"
#include "harness/core/random.h"

namespace warptune {
namespace {

/// The index of a word in a list. Throws InputError that names them.
std::size_t word_in(const YamlReader& yaml, const YAML::Node& node, const std::string& what,
                    std::span<const std::string> words) {
  const std::string word = yaml.text(node, what);
  const auto it = std::ranges::find(words, word);
  if (it == words.end())
    yaml.fail(node, fmt::format("{} is '{}'; it must be one of {}", what, brief(word), listed(words)));
  return static_cast<std::size_t>(it - words.begin());
}

}  // namespace

namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

/// How many values the random contents of an integer tensor can have.
std::int64_t most_below(DType dtype) { return dtype == DType::int8 ? 128 : std::int64_t{1} << 31; }

}  // namespace

void TensorFormula::check(const Problem& problem) const {
  const DType type = dtype.empty() ? problem.dtype : dtype.front();
  std::int64_t bytes = static_cast<std::int64_t>(size_of(type));
  for (const Formula& extent : shape) {
    const std::int64_t value = extent.whole(problem, {}, 1);
    if (value > kMostBytes / bytes)
      throw CompileError(
          fmt::format("{}: tensor '{}' has more than 2^50 bytes for {}", where, name, problem.key()));
    bytes *= value;
  }
  if (!below.empty()) below.front().whole(problem, {}, 1, most_below(type));
}

TensorSpec TensorFormula::spec(const Problem& problem, std::uint64_t seed) const {
  TensorSpec spec{.name = name,
                  .dtype = dtype.empty() ? problem.dtype : dtype.front(),
                  .shape = {},
                  .role = role,
                  .cache = cache,
                  .scale = scale,
                  .values = {}};
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
    if (!node[key]) yaml.fail(node, fmt::format("a tensor needs '{}'", key));
  TensorFormula tensor{.name = yaml.text(node["name"], "'name'"),
                       .where = yaml.where(node),
                       .dtype = {},
                       .shape = {},
                       .below = {}};
  const auto formula = [&](const YAML::Node& at, const std::string& what) {
    const std::string text = yaml.text(at, what);
    return yaml.at(at, [&] { return Formula(text, names, what, yaml.where(at)); });
  };
  for (const YAML::Node& extent : yaml.items(node["shape"], "'shape'"))
    tensor.shape.push_back(formula(extent, "'shape'"));
  if (node["dtype"] && node["dtype"].Scalar() != "dtype")
    tensor.dtype = {
        yaml.at(node["dtype"], [&] { return parse_tensor_dtype(yaml.text(node["dtype"], "'dtype'")); })};
  if (node["role"]) tensor.role = static_cast<Role>(word_in(yaml, node["role"], "'role'", roles));
  if (node["cache"]) tensor.cache = static_cast<CacheState>(word_in(yaml, node["cache"], "'cache'", caches));
  if (node["uniform"]) tensor.scale = static_cast<float>(yaml.positive(node["uniform"], "'uniform'"));
  if (node["below"]) tensor.below = {formula(node["below"], "'below'")};
  const DType dtype = tensor.dtype.empty() ? DType::fp32 : tensor.dtype.front();
  if (dtype == DType::int8 && !node["uniform"]) tensor.scale = 127;
  if (is_exact(dtype) && tensor.role != Role::output && tensor.below.empty())
    yaml.fail(node, fmt::format("the {} tensor '{}' needs 'below': its values are from 0 up to it",
                                name_of(dtype), tensor.name));
  if (is_exact(dtype) && node["uniform"])
    yaml.fail(
        node["uniform"],
        fmt::format("'uniform' is for int8 and floating point; the values of '{}' are 'below'", tensor.name));
  if (is_float(dtype) && !tensor.below.empty())
    yaml.fail(node["below"],
              fmt::format("'below' is for integer tensors; '{}' is filled by 'uniform'", tensor.name));
  return tensor;
}

}  // namespace warptune
