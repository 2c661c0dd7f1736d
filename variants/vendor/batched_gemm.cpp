// cuBLASLt is column-major: the row-major GEMM c = a . b is its c^T = b^T . a^T, and a row-major matrix is
// its transpose.
#include "variants/vendor/batched_gemm.h"

#include <cublasLt.h>
#include <fmt/format.h>

#include <array>

#include "harness/core/error.h"

namespace warptune {
namespace {

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

cudaDataType_t cuda_type(DType dtype) {
  switch (dtype) {
    case DType::fp16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

template <class Value>
void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, Value value) {
  check(cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof(value)),
        "cublasLtMatrixLayoutSetAttribute");
}
template <class Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
}

/// The layout of a batch of row-major matrices [rows, columns], as their transposes.
Layout layout(DType dtype, std::int64_t rows, std::int64_t columns, MatrixStrides strides,
              std::int64_t batch) {
  cublasLtMatrixLayout_t raw = nullptr;
  check(cublasLtMatrixLayoutCreate(&raw, cuda_type(dtype), static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), strides.row),
        "cublasLtMatrixLayoutCreate");
  Layout owned(raw);
  set(raw, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
  set(raw, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, strides.matrix);
  return owned;
}

}  // namespace

struct BatchedGemm::Descriptors {
  Library library;
  Matmul matmul;
  Layout a, b, c;
  cublasLtMatmulAlgo_t algorithm{};
};

BatchedGemm::BatchedGemm(const BatchedGemmShape& s, std::int64_t wanted)
    : descriptors_(std::make_unique<Descriptors>()) {
  Descriptors& d = *descriptors_;
  cublasLtHandle_t library = nullptr;
  check(cublasLtCreate(&library), "cublasLtCreate");
  d.library.reset(library);
  // CUBLAS_COMPUTE_32F: for fp32 inputs it is true fp32, not TF32.
  cublasLtMatmulDesc_t matmul = nullptr;
  check(cublasLtMatmulDescCreate(&matmul, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
  d.matmul.reset(matmul);
  const cublasOperation_t b_operation = s.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  check(
      cublasLtMatmulDescSetAttribute(matmul, CUBLASLT_MATMUL_DESC_TRANSA, &b_operation, sizeof(b_operation)),
      "cublasLtMatmulDescSetAttribute");
  d.a = layout(s.inputs, s.rows, s.inner, s.a, s.batch);
  d.b = layout(s.inputs, s.b_transposed ? s.columns : s.inner, s.b_transposed ? s.inner : s.columns, s.b,
               s.batch);
  d.c = layout(s.output, s.rows, s.columns, s.c, s.batch);

  cublasLtMatmulPreference_t raw = nullptr;
  check(cublasLtMatmulPreferenceCreate(&raw), "cublasLtMatmulPreferenceCreate");
  const Preference preference(raw);
  set(raw, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspaceBytes});
  // Split-K partial sums are added in fp32, never in 16 bits.
  set(raw, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (const auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(raw, operand, static_cast<std::uint32_t>(s.alignment));
  std::array<cublasLtMatmulHeuristicResult_t, 8> found{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(library, matmul, d.b.get(), d.a.get(), d.c.get(), d.c.get(), raw,
                                     static_cast<int>(found.size()), found.data(), &count);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, "cublasLtMatmulAlgoGetHeuristic");
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || wanted >= count)
    throw ResourceError(
        fmt::format("cuBLASLt offers {} algorithms for {} GEMMs {}x{}x{}; number {} is not among them", count,
                    s.batch, s.rows, s.columns, s.inner, wanted));
  d.algorithm = found[static_cast<std::size_t>(wanted)].algo;
}

BatchedGemm::BatchedGemm(BatchedGemm&&) noexcept = default;
BatchedGemm::~BatchedGemm() = default;

void BatchedGemm::run(const void* a, const void* b, std::int64_t b_matrix_stride, void* c, void* workspace,
                      void* stream) {
  Descriptors& d = *descriptors_;
  set(d.b.get(), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, b_matrix_stride);
  const float one = 1, zero = 0;
  check(cublasLtMatmul(d.library.get(), d.matmul.get(), &one, b, d.b.get(), a, d.a.get(), &zero, c, d.c.get(),
                       c, d.c.get(), &d.algorithm, workspace, kWorkspaceBytes,
                       static_cast<cudaStream_t>(stream)),
        "cublasLtMatmul");
}

}  // namespace warptune
