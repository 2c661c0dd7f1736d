// CUDA variants of remove_padding, in rising difficulty.
#include "variants/helpers/padding.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> remove_padding_cuda() {
  return padding_variants("remove_padding", "One block per packed token copies elements one by one.",
                          "Gather of rows as one run of vectors, several loads in flight per thread.");
}

}  // namespace warptune
