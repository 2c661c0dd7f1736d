// linear by cuBLASLt. Row-major y[tokens, out] is column-major C[out, tokens] = weight^T * x, with weight
// seen as [in, out] and x as [in, tokens], both column-major.
#include <cublasLt.h>
#include <fmt/format.h>

#include <array>
#include <memory>

#include "harness/core/error.h"
#include "kernels/linear/args.h"
#include "variants/linear/linear.h"

namespace warptune {
namespace {

constexpr std::int64_t kWorkspaceBytes = 32 << 20;

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

Layout layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t raw = nullptr;
  check(cublasLtMatrixLayoutCreate(&raw, type, static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), rows),
        "cublasLtMatrixLayoutCreate");
  return Layout(raw);
}

class Gemm {
 public:
  Gemm(const Problem& p, std::int64_t wanted) : bias_(p["bias"] != 0) {
    cublasLtHandle_t library = nullptr;
    check(cublasLtCreate(&library), "cublasLtCreate");
    library_.reset(library);
    // CUBLAS_COMPUTE_32F: for fp32 inputs it is true fp32, not TF32.
    cublasLtMatmulDesc_t matmul = nullptr;
    check(cublasLtMatmulDescCreate(&matmul, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    matmul_.reset(matmul);
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    if (bias_) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      // Only its alignment matters until run() gives the true address.
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, std::uintptr_t{256});
    }
    const cudaDataType_t type = cuda_type(p.dtype);
    weight_ = layout(type, p["in"], p["out"]);
    x_ = layout(type, p["in"], p["tokens"]);
    y_ = layout(type, p["out"], p["tokens"]);

    cublasLtMatmulPreference_t raw = nullptr;
    check(cublasLtMatmulPreferenceCreate(&raw), "cublasLtMatmulPreferenceCreate");
    const Preference preference(raw);
    const std::uint64_t most = kWorkspaceBytes;
    check(cublasLtMatmulPreferenceSetAttribute(raw, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                                               sizeof(most)),
          "cublasLtMatmulPreferenceSetAttribute");
    // Split sums are added in fp32, never in the output's 16 bits.
    const std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    check(cublasLtMatmulPreferenceSetAttribute(raw, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                                               sizeof(schemes)),
          "cublasLtMatmulPreferenceSetAttribute");
    std::array<cublasLtMatmulHeuristicResult_t, 8> found{};
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(library_.get(), matmul_.get(), weight_.get(), x_.get(), y_.get(),
                                       y_.get(), raw, static_cast<int>(found.size()), found.data(), &count);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, "cublasLtMatmulAlgoGetHeuristic");
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || wanted >= count)
      throw ResourceError(fmt::format("cuBLASLt offers {} algorithms for {}; number {} is not among them",
                                      count, p.key(), wanted));
    algorithm_ = found[static_cast<std::size_t>(wanted)].algo;
  }

  void run(const LinearArgs& a, cudaStream_t stream) {
    if (bias_) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, a.bias);
    const float one = 1, zero = 0;
    check(cublasLtMatmul(library_.get(), matmul_.get(), &one, a.weight, weight_.get(), a.x, x_.get(), &zero,
                         a.y, y_.get(), a.y, y_.get(), &algorithm_, a.workspace, kWorkspaceBytes, stream),
          "cublasLtMatmul");
  }

 private:
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    check(cublasLtMatmulDescSetAttribute(matmul_.get(), attribute, &value, sizeof(value)),
          "cublasLtMatmulDescSetAttribute");
  }

  bool bias_;
  Library library_;
  Matmul matmul_;
  Layout weight_, x_, y_;
  cublasLtMatmulAlgo_t algorithm_{};
};

}  // namespace

std::vector<Variant> linear_vendor() {
  return {{
      .name = "cublaslt",
      .idea = "cuBLASLt with fp32 compute; algorithms of its heuristic in their order.",
      .parameters = {{"algo", {0, 1, 2, 3, 4, 5, 6, 7}, "index among the heuristic's results"}},
      .vendor = [](const Problem& p, const Config& c) -> VendorFunction {
        return [gemm = std::make_shared<Gemm>(p, c["algo"])](const void* args, void* stream) {
          gemm->run(*static_cast<const LinearArgs*>(args), static_cast<cudaStream_t>(stream));
        };
      },
      .workspace = kWorkspaceBytes,
  }};
}

}  // namespace warptune
