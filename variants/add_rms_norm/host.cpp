// Host variants of add_rms_norm.
#include <cmath>

#include "kernels/add_rms_norm/args.h"
#include "variants/helpers/host_rows.h"
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
          const T* weight = static_cast<const T*>(a.weight);
          T* sum = static_cast<T*>(a.residual_out) + first;
          T* y = static_cast<T*>(a.y) + first;
          double squares = 0;  // one long fp32 sum would drop small squares
          for (std::int64_t i = 0; i < hidden; ++i) {
            sum[i] = static_cast<T>(static_cast<float>(x[i]) + static_cast<float>(residual[i]));
            squares += static_cast<float>(sum[i]) * static_cast<float>(sum[i]);
          }
          const auto scale = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(hidden) + a.eps));
          for (std::int64_t i = 0; i < hidden; ++i)
            y[i] = static_cast<T>(static_cast<float>(sum[i]) * scale * static_cast<float>(weight[i]));
        });
      });
}

}  // namespace warptune
