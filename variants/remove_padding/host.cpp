// Host variants of remove_padding.
#include <algorithm>

#include "kernels/remove_padding/args.h"
#include "variants/helpers/host_rows.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> remove_padding_host() {
  return host_rows<RemovePaddingArgs>(
      [](const Problem&, const RemovePaddingArgs& a) { return std::int64_t{a.tokens}; },
      [](const Problem& p, const RemovePaddingArgs& a, std::int64_t token) {
        with_float_dtype(p.dtype, [&]<class T>() {
          const std::int64_t hidden = p["hidden"], from = token + a.padding_offset[token];
          std::copy_n(static_cast<const T*>(a.x) + from * hidden, hidden,
                      static_cast<T*>(a.y) + token * hidden);
        });
      });
}

}  // namespace warptune
