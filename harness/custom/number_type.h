#pragma once
// The types of numbers that kernels from files take.
#include <array>
#include <cstddef>
#include <string_view>

#include "harness/core/yaml_reader.h"
#include "harness/custom/formula.h"

namespace warptune {

/// A type by its name in CUDA, which is also its name in a file.
struct NumberType {
  std::string_view name;
  std::size_t bytes = 0;
  bool is_real = false;
  std::int64_t least = 0, most = 0;  // the range of an integer
  DType dtype = DType::fp32;         // the type of a real

  /// The value of a formula in the first `bytes`. Throws CompileError where the type does not hold it.
  std::array<std::byte, 8> value(const Formula& formula, const Problem& problem, const Config& config) const;
};

/// The type of this name, which must be one of them.
const NumberType& number_type(std::string_view name);
/// {TYPE: ...} with one type, never null. Throws InputError with file and line.
const NumberType* read_number_type(const YamlReader& yaml, const YAML::Node& node, const std::string& what);

}  // namespace warptune
