// CUDA variants of restore_padding, in rising difficulty.
#include "variants/helpers/padding.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> restore_padding_cuda() {
  return padding_variants("restore_padding", "One block per padded row copies elements one by one.",
                          "Gather of rows as one run of vectors; padding is zeros without a load.",
                          ", {many_rows} == 1");
}

}  // namespace warptune
