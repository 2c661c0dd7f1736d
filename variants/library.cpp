#include "library.h"

#if WARPTUNE_HAS_CUBLASLT
#include <cublasLt.h>
#endif

namespace warptune {

std::string vendor_library() {
#if WARPTUNE_HAS_CUBLASLT
  return "cublasLt " + std::to_string(cublasLtGetVersion());
#else
  return {};
#endif
}

}  // namespace warptune
