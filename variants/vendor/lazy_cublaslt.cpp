// The functions of cuBLASLt that variants call, which load the library with the first call
// (harness/core/lazy_library.h). The program is linked with these in place of the library, so
// that code that calls the library, and its hash, stay as they are.
#include <cublasLt.h>

#include <string>

#include "harness/core/lazy_library.h"

namespace {

/// Calls the function of the library that has the name of `kFunction`.
template <auto* kFunction, class... Arguments>
auto call(const char* name, Arguments... arguments) {
  static auto* const function = reinterpret_cast<decltype(kFunction)>(
      warptune::library_function("libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR), name));
  return function(arguments...);
}

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return call<cublasLtGetVersion>("cublasLtGetVersion"); }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return call<cublasLtGetStatusString>("cublasLtGetStatusString", status);
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return call<cublasLtCreate>("cublasLtCreate", handle);
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return call<cublasLtDestroy>("cublasLtDestroy", handle);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* matmul, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return call<cublasLtMatmulDescCreate>("cublasLtMatmulDescCreate", matmul, compute, scale);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmul) {
  return call<cublasLtMatmulDescDestroy>("cublasLtMatmulDescDestroy", matmul);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmul,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              size_t bytes) {
  return call<cublasLtMatmulDescSetAttribute>("cublasLtMatmulDescSetAttribute", matmul, attribute, value,
                                              bytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t stride) {
  return call<cublasLtMatrixLayoutCreate>("cublasLtMatrixLayoutCreate", layout, type, rows, columns, stride);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return call<cublasLtMatrixLayoutDestroy>("cublasLtMatrixLayoutDestroy", layout);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                size_t bytes) {
  return call<cublasLtMatrixLayoutSetAttribute>("cublasLtMatrixLayoutSetAttribute", layout, attribute, value,
                                                bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return call<cublasLtMatmulPreferenceCreate>("cublasLtMatmulPreferenceCreate", preference);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return call<cublasLtMatmulPreferenceDestroy>("cublasLtMatmulPreferenceDestroy", preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  return call<cublasLtMatmulPreferenceSetAttribute>("cublasLtMatmulPreferenceSetAttribute", preference,
                                                    attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  return call<cublasLtMatmulAlgoGetHeuristic>("cublasLtMatmulAlgoGetHeuristic", handle, matmul, a, b, c, d,
                                              preference, wanted, results, found);
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
  return call<cublasLtMatmul>("cublasLtMatmul", handle, matmul, alpha, a, a_layout, b, b_layout, beta, c,
                              c_layout, d, d_layout, algorithm, workspace, workspace_bytes, stream);
}

}  // extern "C"
