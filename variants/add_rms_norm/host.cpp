// Host variants of add_rms_norm.
#include "kernels/add_rms_norm/args.h"
#include "variants/helpers/host_rows.h"
#include "variants/helpers/normalize.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> add_rms_norm_host() {
  return host_rows<AddRmsNormArgs>(
      [](const Problem&, const AddRmsNormArgs& a) { return std::int64_t{a.tokens}; },
      [](const Problem& p, const AddRmsNormArgs& a, std::int64_t token) {
        with_float_dtype(p.dtype, [&]<class T>() {
          const std::int64_t hidden = p["hidden"], first = token * hidden;
          const T* x = static_cast<const T*>(a.x) + first;
          const T* residual = static_cast<const T*>(a.residual) + first;
          T* sum = static_cast<T*>(a.residual_out) + first;
          for (std::int64_t i = 0; i < hidden; ++i)
            sum[i] = static_cast<T>(static_cast<float>(x[i]) + static_cast<float>(residual[i]));
          normalize_row(sum, a.weight, static_cast<T*>(a.y) + first, hidden, a.eps);
        });
      });
}

}  // namespace warptune
