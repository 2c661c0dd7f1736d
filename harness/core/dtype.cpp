#include "core/dtype.h"

#include <cmath>

#include "core/brief.h"
#include "core/error.h"

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
};
const Row& row(DType dtype) { return kTable[static_cast<int>(dtype)]; }
}  // namespace

std::size_t size_of(DType dtype) { return row(dtype).bytes; }
std::string_view name_of(DType dtype) { return row(dtype).name; }
std::string_view kernel_type(DType dtype) { return row(dtype).kernel; }
bool is_float(DType dtype) { return dtype != DType::int32; }
double epsilon_of(DType dtype) { return row(dtype).epsilon; }

DType parse_dtype(std::string_view name) {
  for (const Row& r : kTable)
    if (r.name == name) return r.dtype;
  throw InputError("unknown dtype '" + brief(name) + "'; known are fp32, fp16, bf16, int32");
}

double load(DType dtype, const void* data, std::int64_t i) {
  return with_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>)
      return static_cast<double>(static_cast<const T*>(data)[i]);
    else
      return static_cast<double>(static_cast<float>(static_cast<const T*>(data)[i]));
  });
}

void store(DType dtype, void* data, std::int64_t i, double value) {
  with_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>)
      static_cast<T*>(data)[i] = static_cast<T>(std::llround(value));
    else
      static_cast<T*>(data)[i] = static_cast<T>(static_cast<float>(value));
  });
}

double round_to(DType dtype, double value) {
  unsigned char bits[8];
  store(dtype, bits, 0, value);
  return load(dtype, bits, 0);
}

}  // namespace warptune
