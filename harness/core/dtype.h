#pragma once
// Element types, and their host-side values.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace warptune {

enum class DType { fp32, fp16, bf16, int32 };

/// Host values of the 16-bit floats: stored as bits, computed as float, rounded to nearest even.
using fp16 = _Float16;
struct bf16 {
  std::uint16_t bits = 0;
  bf16() = default;
  bf16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<std::uint16_t>(nan ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

std::size_t size_of(DType dtype);
std::string_view name_of(DType dtype);      // "fp32", "fp16", "bf16", "int32"
std::string_view kernel_type(DType dtype);  // the type's name in kernels/common/numeric.cuh
bool is_float(DType dtype);
/// Throws InputError naming the known dtypes.
DType parse_dtype(std::string_view name);

/// Calls f.template operator()<T>() with the host type of a dtype.
template <class F>
decltype(auto) with_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::fp16:
      return std::forward<F>(f).template operator()<fp16>();
    case DType::bf16:
      return std::forward<F>(f).template operator()<bf16>();
    case DType::int32:
      return std::forward<F>(f).template operator()<std::int32_t>();
    case DType::fp32:
      break;
  }
  return std::forward<F>(f).template operator()<float>();
}

/// The same for the floating types only, so that int32 need not compile.
template <class F>
decltype(auto) with_float_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::fp16:
      return std::forward<F>(f).template operator()<fp16>();
    case DType::bf16:
      return std::forward<F>(f).template operator()<bf16>();
    default:
      return std::forward<F>(f).template operator()<float>();
  }
}

/// Element i of an array of that dtype, as double; and the rounding of a value to that dtype.
double load(DType dtype, const void* data, std::int64_t i);
void store(DType dtype, void* data, std::int64_t i, double value);
double round_to(DType dtype, double value);
/// The distance from 1 to the next value: 2^-23, 2^-10, 2^-7.
double epsilon_of(DType dtype);

}  // namespace warptune
