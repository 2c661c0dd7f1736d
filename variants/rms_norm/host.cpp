// Host variants of rms_norm.
#include "kernels/rms_norm/args.h"
#include "variants/helpers/host_rows.h"
#include "variants/helpers/normalize.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> rms_norm_host() {
  return host_rows<RmsNormArgs>([](const Problem&, const RmsNormArgs& a) { return std::int64_t{a.tokens}; },
                                [](const Problem& p, const RmsNormArgs& a, std::int64_t token) {
                                  with_float_dtype(p.dtype, [&]<class T>() {
                                    const std::int64_t hidden = p["hidden"], first = token * hidden;
                                    normalize_row(static_cast<const T*>(a.x) + first, a.weight,
                                                  static_cast<T*>(a.y) + first, hidden, a.eps);
                                  });
                                },
                                {"threads <= sms", "threads <= tokens || threads == 1"}, {1, 2, 4, 8});
}

}  // namespace warptune
