#include "harness/core/dtype.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "harness/core/brief.h"
#include "harness/core/error.h"

namespace warptune {
namespace {
struct Row {
  DType dtype;
  std::size_t bytes;
  std::string_view name, kernel;
  double epsilon;
};
constexpr Row kTable[] = {
    {DType::fp32, 4, "fp32", "float", 0x1p-23},
    {DType::fp16, 2, "fp16", "warptune::fp16", 0x1p-10},
    {DType::bf16, 2, "bf16", "warptune::bf16", 0x1p-7},
    {DType::int32, 4, "int32", "int", 0},
    {DType::int8, 1, "int8", "signed char", 0},
    {DType::fp8, 1, "fp8", "warptune::fp8", 0x1p-3},
    {DType::int64, 8, "int64", "long long", 0},
    {DType::fp64, 8, "fp64", "double", 0x1p-52},
    {DType::ue4m3, 1, "ue4m3", "warptune::ue4m3", 0x1p-3},
    {DType::ue8m0, 1, "ue8m0", "warptune::ue8m0", 1},
};
static_assert(std::size(kTable) == kDTypes);
const Row& row(DType dtype) { return kTable[static_cast<int>(dtype)]; }
}  // namespace

std::size_t size_of(DType dtype) { return row(dtype).bytes; }
std::string_view name_of(DType dtype) { return row(dtype).name; }
std::string_view kernel_type(DType dtype) { return row(dtype).kernel; }
bool is_float(DType dtype) { return !is_exact(dtype) && dtype != DType::int8; }
bool is_exact(DType dtype) { return dtype == DType::int32 || dtype == DType::int64; }
double epsilon_of(DType dtype) { return row(dtype).epsilon; }

namespace {
DType parse(std::string_view name, std::span<const DType> dtypes) {
  std::vector<std::string> known;
  for (const DType dtype : dtypes) {
    if (name_of(dtype) == name) return dtype;
    known.emplace_back(name_of(dtype));
  }
  throw InputError("unknown dtype '{}'{}", brief(name), did_you_mean(name, known));
}
constexpr DType kTensorDTypes[] = {DType::fp32,  DType::fp16, DType::bf16, DType::int32,
                                   DType::int64, DType::int8, DType::fp64};
}  // namespace

DType parse_dtype(std::string_view name) { return parse(name, std::span(kTensorDTypes).first(4)); }
DType parse_tensor_dtype(std::string_view name) { return parse(name, kTensorDTypes); }

double load(DType dtype, const void* data, std::int64_t i) {
  return with_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_arithmetic_v<T>)
      return static_cast<double>(static_cast<const T*>(data)[i]);
    else
      return static_cast<double>(static_cast<float>(static_cast<const T*>(data)[i]));
  });
}

void store(DType dtype, void* data, std::int64_t i, double value) {
  with_dtype(dtype, [&]<class T>() { static_cast<T*>(data)[i] = nearest_value<T>(value); });
}

double rounding_error(DType dtype, double value) {
  if (dtype == DType::int8) return 0.5;
  if (dtype == DType::fp8 || dtype == DType::ue4m3) return std::max(0x1p-4 * std::abs(value), 0x1p-10);
  return 0;
}

int poison_byte(DType dtype) { return dtype == DType::int8 ? 0x80 : 0xff; }

double poison_value(DType dtype) {
  if (is_float(dtype)) return NAN;
  return dtype == DType::int8 ? -128 : -1;
}

}  // namespace warptune
