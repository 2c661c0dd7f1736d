#pragma once
// A reference that is a kernel as well as a function of the host, and the arrays that the kernel takes.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/dtype.h"
#include "harness/core/error.h"
#include "harness/core/variant.h"

namespace warptune {

/// What Op::reference holds where the reference also runs on GPUs: op.reference.target<KernelReference>().
/// Called, it runs on the host. The kernel computes all units at once. It takes an array of fp64 or fp32 in
/// place of each tensor of floating point, and int32 as they are.
struct KernelReference {
  std::function<void(const Problem&, const Inputs&, std::int64_t unit, Expected&)> on_host;
  std::shared_ptr<const Variant> variant;  // one stage, no parameters
  bool in_fp64 = true;
  std::function<Args(const Problem&, std::span<void* const> arrays)> bind;

  void operator()(const Problem& problem, const Inputs& inputs, std::int64_t unit, Expected& out) const {
    on_host(problem, inputs, unit, out);
  }
};

/// Calls f(T{}), T being the type of an element where a tensor has this dtype.
template <class F>
decltype(auto) with_reference_type(DType dtype, bool in_fp64, F&& f) {
  switch (dtype) {
    case DType::int32:
      return std::forward<F>(f)(int{});
    case DType::int64:
      return std::forward<F>(f)(std::int64_t{});
    case DType::int8:
      return std::forward<F>(f)(std::int8_t{});
    default:
      break;
  }
  if (in_fp64 || dtype == DType::fp64) return std::forward<F>(f)(double{});
  return std::forward<F>(f)(float{});
}

/// The bytes of an element where a tensor has this dtype.
inline std::size_t reference_element_bytes(DType dtype, bool in_fp64) {
  return with_reference_type(dtype, in_fp64, [](auto value) { return sizeof value; });
}

inline std::vector<std::byte> to_reference_array(DType dtype, bool in_fp64, std::span<const double> values) {
  return with_reference_type(dtype, in_fp64, [&]<class T>(T) {
    std::vector<std::byte> array(values.size() * sizeof(T));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const T value = static_cast<T>(values[i]);
      std::memcpy(array.data() + i * sizeof(T), &value, sizeof(T));
    }
    return array;
  });
}

inline std::vector<double> from_reference_array(DType dtype, bool in_fp64, std::span<const std::byte> array) {
  return with_reference_type(dtype, in_fp64, [&]<class T>(T value) {
    std::vector<double> values(array.size() / sizeof(T));
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::memcpy(&value, array.data() + i * sizeof(T), sizeof(T));
      values[i] = static_cast<double>(value);
    }
    return values;
  });
}

/// Throws InputError where no value of an output is finite: a kernel that writes infinity everywhere would
/// agree.
inline void expect_some_finite(const std::string& op, const std::string& tensor,
                               std::span<const double> values) {
  if (values.empty() || std::ranges::any_of(values, [](double value) { return std::isfinite(value); }))
    return;
  throw InputError(
      "the reference of op '{}' gives no finite value of '{}': its {} elements are infinite "
      "or NaN, so that nothing could be verified",
      op, tensor, values.size());
}

}  // namespace warptune
