// The types of numbers that kernels from files take.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "harness/core/lookup.h"
#include "harness/custom/formula.h"

namespace warptune {
namespace {

template <class T>
constexpr NumberType integer(std::string_view name) {
  using Limits = std::numeric_limits<T>;
  const auto most = static_cast<std::uint64_t>(Limits::max());
  return {.name = name,
          .bytes = sizeof(T),
          .least = std::max<std::int64_t>(Limits::min(), -kLargestInteger),
          .most = static_cast<std::int64_t>(std::min<std::uint64_t>(most, kLargestInteger))};
}
constexpr NumberType real(std::string_view name, std::size_t bytes, DType dtype) {
  return {.name = name, .bytes = bytes, .is_real = true, .dtype = dtype};
}

constexpr NumberType kTypes[] = {
    integer<int>("int"),
    integer<unsigned>("unsigned"),
    integer<long long>("long long"),
    integer<unsigned long long>("unsigned long long"),
    integer<std::size_t>("size_t"),
    integer<bool>("bool"),
    real("float", 4, DType::fp32),
    real("double", 8, DType::fp64),
    real("half", 2, DType::fp16),
};

}  // namespace

const NumberType& number_type(std::string_view name) {
  if (const NumberType* type = find_named(kTypes, name)) return *type;
  throw std::logic_error(fmt::format("'{}' is no type of a number", name));
}

std::array<std::byte, 8> NumberType::value(const Formula& formula, const Problem& problem,
                                           const Config& config) const {
  alignas(8) std::array<std::byte, 8> bytes_of_value = {};
  if (is_real) {
    store(dtype, bytes_of_value.data(), 0, formula.real(problem, config, dtype));
  } else {
    const std::int64_t whole = formula.whole(problem, config, least, most);
    std::memcpy(bytes_of_value.data(), &whole, bytes);  // little-endian
  }
  return bytes_of_value;
}

const NumberType* read_number_type(const YamlReader& yaml, const YAML::Node& node, const std::string& what) {
  yaml.expect_map(node, what);
  if (node.size() != 1) yaml.fail(node, "{} must be {{TYPE: expression}}, with one type", what);
  const std::string name = node.begin()->first.Scalar();
  if (const NumberType* type = find_named(kTypes, name)) return type;
  yaml.fail(node, "{} has the type '{}'{}", what, brief(name), did_you_mean(name, names_of(kTypes)));
}

}  // namespace warptune
