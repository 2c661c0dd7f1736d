// Host variants of swiglu.
#include <cmath>

#include "kernels/swiglu/args.h"
#include "variants/helpers/host_rows.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> swiglu_host() {
  return host_rows<SwigluArgs>([](const Problem&, const SwigluArgs& a) { return std::int64_t{a.tokens}; },
                               [](const Problem& p, const SwigluArgs& a, std::int64_t token) {
                                 with_float_dtype(p.dtype, [&]<class T>() {
                                   const std::int64_t n = p["intermediate"];
                                   const T* gate = static_cast<const T*>(a.gate_up) + 2 * token * n;
                                   const T* up = gate + n;
                                   T* y = static_cast<T*>(a.y) + token * n;
                                   for (std::int64_t i = 0; i < n; ++i) {
                                     const float g = gate[i];
                                     y[i] = g / (1 + std::exp(-g)) * up[i];
                                   }
                                 });
                               });
}

}  // namespace warptune
