#if WARPTUNE_HAS_CUDA
#include "harness/device/tensor_map.h"

#include <cuda.h>  // types only: driver_entry() finds the functions
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/core/error.h"
#include "harness/device/cuda_check.h"

namespace warptune {
namespace {

decltype(&cuTensorMapEncodeTiled) find_encoder() {
  void* const function = driver_entry("cuTensorMapEncodeTiled");
  if (!function) throw ResourceError("the CUDA driver is too old for tensor maps; 525 or newer is needed");
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
}

CUtensorMapDataType type_of(DType dtype) {
  switch (dtype) {
    case DType::fp16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::bf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::int32:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
    case DType::int8:
    case DType::fp8:
    case DType::ue4m3:
    case DType::ue8m0:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    default:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  }
}

CUtensorMapSwizzle swizzle_of(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::bytes_64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case Swizzle::bytes_128:
      return CU_TENSOR_MAP_SWIZZLE_128B;
    default:
      return CU_TENSOR_MAP_SWIZZLE_NONE;
  }
}

}  // namespace

EncodedTensorMap encode_tensor_map(const TensorMapSpec& spec) {
  static const auto encode = find_encoder();
  const std::vector<cuuint64_t> dims(spec.dims.begin(), spec.dims.end()),
      strides(spec.strides.begin(), spec.strides.end());
  const std::vector<cuuint32_t> box(spec.box.begin(), spec.box.end()), steps(dims.size(), 1);
  EncodedTensorMap map{};
  static_assert(sizeof map == sizeof(CUtensorMap) && kL2PromotionBytes == 128);
  const CUresult result =
      encode(reinterpret_cast<CUtensorMap*>(&map), type_of(spec.dtype), static_cast<cuuint32_t>(dims.size()),
             const_cast<void*>(spec.base), dims.data(), strides.data(), box.data(), steps.data(),
             CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(spec.swizzle), CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw InputError("the driver rejects a tensor map of dims {}, strides {} and box {} (error {})",
                     fmt::join(dims, " x "), fmt::join(strides, ", "), fmt::join(box, " x "),
                     static_cast<int>(result));
  return map;
}

}  // namespace warptune
#endif
