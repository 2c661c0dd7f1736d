#include "variants/library.h"

#if WARPTUNE_HAS_CUBLASLT
#include <cublasLt.h>
#endif
#if WARPTUNE_HAS_CUDNN
#include <cudnn.h>
#endif
#if WARPTUNE_HAS_NCCL
#include <nccl.h>

#include "harness/core/lazy_library.h"
#endif

namespace warptune {

std::string vendor_library([[maybe_unused]] std::string_view variant) {
#if WARPTUNE_HAS_CUDNN
  if (variant == "cudnn") return "cudnn " + std::to_string(cudnnGetVersion());
#endif
#if WARPTUNE_HAS_NCCL
  if (variant == "nccl") {
    int version = 0;
    reinterpret_cast<decltype(&ncclGetVersion)>(library_function("libnccl.so.2", "ncclGetVersion"))(&version);
    return "nccl " + std::to_string(version);
  }
#endif
#if WARPTUNE_HAS_CUBLASLT
  return "cublasLt " + std::to_string(cublasLtGetVersion());
#else
  return {};
#endif
}

}  // namespace warptune
