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
    const auto limit = static_cast<std::uint64_t>(below.front().whole(problem, {}, 1, 1LL << 31));
    spec.values.resize(static_cast<std::size_t>(spec.count()));
    for (std::size_t i = 0; i < spec.values.size(); ++i)
      spec.values[i] = static_cast<std::int32_t>(random_bits(seed, i) % limit);
  }
  return spec;
}

TensorFormula read_tensor(const YamlReader& yaml, const YAML::Node& node, const FormulaNames& names) {
  static const std::array<std::string, 3> roles = {"input", "output", "inout"};
  static const std::array<std::string, 2> caches = {"cold", "hot"};
  yaml.expect_keys(node, "a tensor", {"name", "shape", "dtype", "role", "cache", "uniform", "below"});
  for (const char* key : {"name", "shape"})
    if (!node[key]) yaml.fail(node, fmt::format("a tensor needs '{}'", key));
  TensorFormula tensor{.name = yaml.text(node["name"], "'name'"), .dtype = {}, .shape = {}, .below = {}};
  const auto formula = [&](const YAML::Node& at, const std::string& what) {
    const std::string text = yaml.text(at, what);
    return yaml.at(at, [&] { return Formula(text, names, what, yaml.where(at)); });
  };
  for (const YAML::Node& extent : yaml.items(node["shape"], "'shape'"))
    tensor.shape.push_back(formula(extent, "'shape'"));
  if (node["dtype"] && node["dtype"].Scalar() != "dtype")
    tensor.dtype = {yaml.at(node["dtype"], [&] { return parse_dtype(yaml.text(node["dtype"], "'dtype'")); })};
  if (node["role"]) tensor.role = static_cast<Role>(word_in(yaml, node["role"], "'role'", roles));
  if (node["cache"]) tensor.cache = static_cast<CacheState>(word_in(yaml, node["cache"], "'cache'", caches));
  if (node["uniform"]) tensor.scale = static_cast<float>(yaml.positive(node["uniform"], "'uniform'"));
  if (node["below"]) tensor.below = {formula(node["below"], "'below'")};
  const bool whole = !tensor.dtype.empty() && tensor.dtype.front() == DType::int32;
  if (whole && tensor.role != Role::output && tensor.below.empty())
    yaml.fail(node, fmt::format("the int32 tensor '{}' needs 'below': its values are from 0 up to it",
                                tensor.name));
  if (!whole && !tensor.below.empty())
    yaml.fail(node["below"],
              fmt::format("'below' is for int32 tensors; '{}' is filled by 'uniform'", tensor.name));
  return tensor;
}

}  // namespace warptune
