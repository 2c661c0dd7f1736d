#pragma once
// Element types, and their host-side values.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

namespace warptune {

/// int8 and fp8 (e4m3: 4 bits of exponent, 3 of mantissa, no infinities) are storage types, and so are ue4m3
/// and ue8m0, unsigned scales of 4-bit floats: no problem computes in them. int64 and fp64 are the dtypes of
/// tensors of a user's op.
enum class DType { fp32, fp16, bf16, int32, int8, fp8, int64, fp64, ue4m3, ue8m0 };
inline constexpr std::size_t kDTypes = 10;

/// Host values of the narrow floats: stored as bits, computed as float, rounded to nearest even.
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
/// Too large values saturate at 448. Source: Micikevicius et al., "FP8 Formats for Deep Learning", 2022.
struct fp8 {
  std::uint8_t bits = 0;
  fp8() = default;
  fp8(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value), magnitude = u & 0x7fffffffu;
    std::uint32_t e = (magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20;  // keeps 3 bits of mantissa,
    e = (e < (120u << 3) + 0x7eu ? e : (120u << 3) + 0x7eu) - (120u << 3);      // changes the bias
    if (magnitude < 0x3c800000u)  // below 2^-6: steps of 2^-9, moved to the last bits of a float
      e = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0x1p14f) & 0xfu;
    if (magnitude > 0x7f800000u) e = 0x7fu;  // NaN
    bits = static_cast<std::uint8_t>(u >> 31 << 7 | e);
  }
  operator float() const {
    const std::uint32_t magnitude = bits & 0x7fu, sign = static_cast<std::uint32_t>(bits >> 7) << 31;
    const float value = std::bit_cast<float>(magnitude << 20) * 0x1p120f;
    return std::bit_cast<float>(magnitude == 0x7f ? 0x7fc00000u | sign
                                                  : std::bit_cast<std::uint32_t>(value) | sign);
  }
};

/// The magnitude of a value as e4m3, the sign clear.
struct ue4m3 : fp8 {
  ue4m3() = default;
  ue4m3(float value) : fp8(value) { bits &= 0x7fu; }
};
/// The magnitude of a value rounded down to a power of two: the 8 bits of exponent of a float. 0 stands for
/// zero, not for 2^-127. Source: OCP Microscaling Formats (MX) Specification 1.0, 2023.
struct ue8m0 {
  std::uint8_t bits = 0;
  ue8m0() = default;
  ue8m0(float value) : bits(static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(value) >> 23)) {}
  operator float() const {
    return std::bit_cast<float>(bits == 0xff ? 0x7fc00000u : std::uint32_t{bits} << 23);
  }
};

std::size_t size_of(DType dtype);
std::string_view name_of(DType dtype);      // "fp32", "fp16", "bf16", "int32", "int8", ..
std::string_view kernel_type(DType dtype);  // the type's name in kernels/common/numeric.cuh
bool is_float(DType dtype);
bool is_exact(DType dtype);  // int32, int64: outputs are compared exactly
/// The dtype of a problem; throws InputError naming the known ones.
DType parse_dtype(std::string_view name);
/// The dtype of a tensor: those of problems, int8, int64 and fp64.
DType parse_tensor_dtype(std::string_view name);

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
    case DType::int8:
      return std::forward<F>(f).template operator()<std::int8_t>();
    case DType::fp8:
      return std::forward<F>(f).template operator()<fp8>();
    case DType::int64:
      return std::forward<F>(f).template operator()<std::int64_t>();
    case DType::fp64:
      return std::forward<F>(f).template operator()<double>();
    case DType::ue4m3:
      return std::forward<F>(f).template operator()<ue4m3>();
    case DType::ue8m0:
      return std::forward<F>(f).template operator()<ue8m0>();
    case DType::fp32:
      break;
  }
  return std::forward<F>(f).template operator()<float>();
}

/// The same for fp32, fp16 and bf16 only: `f` need not compile for the other types.
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

/// Reads or writes element i of an array of that dtype as double.
double load(DType dtype, const void* data, std::int64_t i);
void store(DType dtype, void* data, std::int64_t i, double value);

/// The T that is nearest to a value; int8 saturates at -127 and 127.
template <class T>
T nearest_value(double value) {
  if constexpr (std::is_same_v<T, std::int8_t>)
    return static_cast<T>(std::clamp(std::nearbyint(value), -127.0, 127.0));
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(std::llround(value));
  else if constexpr (std::is_same_v<T, double>)
    return value;
  else
    return static_cast<T>(static_cast<float>(value));
}
/// What store() and load() make of a value. A reference rounds every input that it reads.
inline double round_to(DType dtype, double value) {
  return with_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_arithmetic_v<T>)
      return static_cast<double>(nearest_value<T>(value));
    else
      return static_cast<double>(static_cast<float>(nearest_value<T>(value)));
  });
}
/// The distance from 1 to the next value: 2^-23, 2^-10, 2^-7; 2^-3 of fp8.
double epsilon_of(DType dtype);
/// The largest rounding error of a value in an 8-bit dtype; 0 for the others, whose tolerances include it.
double rounding_error(DType dtype, double value);
/// The byte that fills outputs before a launch: it reads as NaN in every float, as poison_value() in
/// integers.
int poison_byte(DType dtype);
double poison_value(DType dtype);  // -128 in int8, -1 in int32 and int64, NaN in floats

}  // namespace warptune
