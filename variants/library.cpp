#include "variants/library.h"

#if WARPTUNE_HAS_CUBLASLT
#include <cublasLt.h>
#endif
#if WARPTUNE_HAS_CUDNN
#include <cudnn.h>
#endif

namespace warptune {

std::string vendor_library([[maybe_unused]] std::string_view variant) {
#if WARPTUNE_HAS_CUDNN
  if (variant == "cudnn") return "cudnn " + std::to_string(cudnnGetVersion());
#endif
#if WARPTUNE_HAS_CUBLASLT
  return "cublasLt " + std::to_string(cublasLtGetVersion());
#else
  return {};
#endif
}

}  // namespace warptune
