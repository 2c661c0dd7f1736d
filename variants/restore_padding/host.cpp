// Host variants of restore_padding.
#include <algorithm>

#include "kernels/restore_padding/args.h"
#include "variants/helpers/host_rows.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> restore_padding_host() {
  return host_rows<RestorePaddingArgs>(
      [](const Problem&, const RestorePaddingArgs& a) { return std::int64_t{a.batch} * a.max_q_len; },
      [](const Problem& p, const RestorePaddingArgs& a, std::int64_t row) {
        with_float_dtype(p.dtype, [&]<class T>() {
          const std::int64_t hidden = p["hidden"], sequence = row / a.max_q_len,
                             from = a.cu_seqlens[sequence] + row % a.max_q_len;
          T* y = static_cast<T*>(a.y) + row * hidden;
          if (from < a.cu_seqlens[sequence + 1])
            std::copy_n(static_cast<const T*>(a.x) + from * hidden, hidden, y);
          else
            std::fill_n(y, hidden, T(0.0f));
        });
      });
}

}  // namespace warptune
