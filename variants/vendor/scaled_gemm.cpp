// cuBLASLt is column-major: the row-major GEMM c = a . b^T is its c^T = b . a^T, and a row-major matrix is
// its transpose.
#include "variants/vendor/scaled_gemm.h"

#include <cublasLt.h>
#include <fmt/format.h>

#include <array>

#include "harness/core/error.h"

namespace warptune {
namespace {

constexpr std::size_t kFirstVersion = 120900;

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(fmt::format("{}: {}", call, cublasLtGetStatusString(status)));
}

template <class Handle, cublasStatus_t (*kDestroy)(Handle)>
struct Destroy {
  using pointer = Handle;
  void operator()(Handle handle) const { kDestroy(handle); }
};
template <class Handle, cublasStatus_t (*kDestroy)(Handle)>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<Handle, kDestroy>>;

using Library = Owned<cublasLtHandle_t, cublasLtDestroy>;
using Matmul = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <class Value>
void set(cublasLtMatmulDesc_t matmul, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  check(cublasLtMatmulDescSetAttribute(matmul, attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
}
template <class Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
}

/// The layout of a row-major matrix, as its transpose.
Layout layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t raw = nullptr;
  check(cublasLtMatrixLayoutCreate(&raw, type, static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), columns),
        "cublasLtMatrixLayoutCreate");
  return Layout(raw);
}

/// A scale of fp32 for each row of both operands.
void scale_rows([[maybe_unused]] cublasLtMatmulDesc_t matmul) {
#if CUBLAS_VERSION >= 120900
  if (cublasLtGetVersion() >= kFirstVersion) {
    const auto mode = static_cast<std::int32_t>(CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
    set(matmul, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode);
    set(matmul, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode);
    return;
  }
#endif
  throw ResourceError(
      fmt::format("cuBLASLt scales rows of fp8 from version {} on; this one is {}, built with {}",
                  kFirstVersion, cublasLtGetVersion(), CUBLAS_VERSION));
}

}  // namespace

struct ScaledGemm::Descriptors {
  Library library;
  Matmul matmul;
  Layout a, b, c;
  cublasLtMatmulAlgo_t algorithm{};
  bool bias;
};

ScaledGemm::ScaledGemm(const ScaledGemmShape& s, std::int64_t wanted)
    : descriptors_(std::make_unique<Descriptors>()) {
  Descriptors& d = *descriptors_;
  d.bias = s.bias;
  cublasLtHandle_t library = nullptr;
  check(cublasLtCreate(&library), "cublasLtCreate");
  d.library.reset(library);
  cublasLtMatmulDesc_t matmul = nullptr;
  check(cublasLtMatmulDescCreate(&matmul, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
  d.matmul.reset(matmul);
  set(matmul, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  scale_rows(matmul);
  // Only alignments matter until run() gives the true addresses.
  for (const auto scales : {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER})
    set(matmul, scales, std::uintptr_t{256});
  const cudaDataType_t output = s.output == DType::fp16 ? CUDA_R_16F : CUDA_R_16BF;
  if (s.bias) {
    set(matmul, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(matmul, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(output));
    set(matmul, CUBLASLT_MATMUL_DESC_BIAS_POINTER, std::uintptr_t{256});
  }
  d.a = layout(CUDA_R_8F_E4M3, s.rows, s.inner);
  d.b = layout(CUDA_R_8F_E4M3, s.columns, s.inner);
  d.c = layout(output, s.rows, s.columns);

  cublasLtMatmulPreference_t raw = nullptr;
  check(cublasLtMatmulPreferenceCreate(&raw), "cublasLtMatmulPreferenceCreate");
  const Preference preference(raw);
  set(raw, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspaceBytes});
  // Split-K partial sums are added in fp32, never in 16 bits.
  set(raw, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  std::array<cublasLtMatmulHeuristicResult_t, 8> found{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(library, matmul, d.b.get(), d.a.get(), d.c.get(), d.c.get(), raw,
                                     static_cast<int>(found.size()), found.data(), &count);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, "cublasLtMatmulAlgoGetHeuristic");
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || wanted >= count)
    throw ResourceError(
        fmt::format("cuBLASLt offers {} algorithms for an fp8 GEMM {}x{}x{}; number {} is not among them",
                    count, s.rows, s.columns, s.inner, wanted));
  d.algorithm = found[static_cast<std::size_t>(wanted)].algo;
}

ScaledGemm::ScaledGemm(ScaledGemm&&) noexcept = default;
ScaledGemm::~ScaledGemm() = default;

void ScaledGemm::run(const ScaledGemmOperands& o, void* stream) {
  Descriptors& d = *descriptors_;
  set(d.matmul.get(), CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, o.b_scales);
  set(d.matmul.get(), CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, o.a_scales);
  if (d.bias) set(d.matmul.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, o.bias);
  const float one = 1, zero = 0;
  check(cublasLtMatmul(d.library.get(), d.matmul.get(), &one, o.b, d.b.get(), o.a, d.a.get(), &zero, o.c,
                       d.c.get(), o.c, d.c.get(), &d.algorithm, o.workspace, kWorkspaceBytes,
                       static_cast<cudaStream_t>(stream)),
        "cublasLtMatmul");
}

}  // namespace warptune
