#pragma once
// The arrays of a reference that is a kernel: fp64 or fp32 in place of the dtypes of floating point, and
// int32.
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "harness/core/dtype.h"

namespace warptune {

/// The bytes of an element where a tensor has this dtype.
constexpr std::size_t reference_element_bytes(DType dtype, bool in_fp64) {
  return dtype != DType::int32 && in_fp64 ? sizeof(double) : 4;
}

inline std::vector<std::byte> to_reference_array(DType dtype, bool in_fp64, std::span<const double> values) {
  std::vector<std::byte> array(values.size() * reference_element_bytes(dtype, in_fp64));
  const auto put = [&]<class T>(T) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const T value = static_cast<T>(values[i]);
      std::memcpy(array.data() + i * sizeof(T), &value, sizeof(T));
    }
  };
  if (dtype == DType::int32)
    put(int{});
  else if (in_fp64)
    put(double{});
  else
    put(float{});
  return array;
}

inline std::vector<double> from_reference_array(DType dtype, bool in_fp64, std::span<const std::byte> array) {
  std::vector<double> values(array.size() / reference_element_bytes(dtype, in_fp64));
  const auto get = [&]<class T>(T value) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::memcpy(&value, array.data() + i * sizeof(T), sizeof(T));
      values[i] = static_cast<double>(value);
    }
  };
  if (dtype == DType::int32)
    get(int{});
  else if (in_fp64)
    get(double{});
  else
    get(float{});
  return values;
}

}  // namespace warptune
