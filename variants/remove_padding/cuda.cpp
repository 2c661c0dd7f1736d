// How remove_padding runs on the GPU: an index of ideas in rising difficulty.
#include "variants/helpers/padding.h"
#include "variants/remove_padding/remove_padding.h"

namespace warptune {

std::vector<Variant> remove_padding_cuda() {
  return padding_variants("remove_padding", "block per packed token, one element at a time",
                          "rows as one run of wide pieces, several loads in flight per thread");
}

}  // namespace warptune
