// How restore_padding runs on the GPU: an index of ideas in rising difficulty.
#include "variants/helpers/padding.h"
#include "variants/restore_padding/restore_padding.h"

namespace warptune {

std::vector<Variant> restore_padding_cuda() {
  return padding_variants("restore_padding", "block per padded row, one element at a time",
                          "rows as one run of wide pieces, zeros without a load");
}

}  // namespace warptune
