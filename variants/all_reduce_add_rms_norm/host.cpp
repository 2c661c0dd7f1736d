// The host variant of all_reduce_add_rms_norm.
#include <cmath>

#include "kernels/all_reduce_add_rms_norm/args.h"
#include "variants/helpers/host_exchange.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> all_reduce_add_rms_norm_host() {
  return host_ranks_variant("tokens * hidden * dtype_bytes", [](const Problem& p) {
    return [p](const void* raw, const Peers& peers) {
      const auto& args = *static_cast<const AllReduceAddRmsNormArgs*>(raw);
      with_float_dtype(p.dtype, [&]<class T>() {
        const auto hidden = static_cast<std::size_t>(p["hidden"]);
        const std::size_t elements = static_cast<std::size_t>(args.tokens) * hidden;
        const auto all = host_exchange(peers, args.x, elements * sizeof(T));
        const auto* residual = static_cast<const T*>(args.residual);
        const auto* weight = static_cast<const T*>(args.weight);
        auto* const sum = static_cast<T*>(args.residual_out);
        auto* const y = static_cast<T*>(args.y);
        for (std::size_t row = 0; row < elements; row += hidden) {
          double squares = 0;  // one long fp32 sum would drop small squares
          for (std::size_t i = row; i < row + hidden; ++i) {
            float reduced = 0;
            for (const std::byte* x : all) reduced += static_cast<float>(reinterpret_cast<const T*>(x)[i]);
            sum[i] =
                static_cast<T>(static_cast<float>(static_cast<T>(reduced)) + static_cast<float>(residual[i]));
            squares += static_cast<float>(sum[i]) * static_cast<float>(sum[i]);
          }
          const auto scale =
              static_cast<float>(1 / std::sqrt(squares / static_cast<double>(hidden) + args.eps));
          for (std::size_t i = row; i < row + hidden; ++i)
            y[i] = static_cast<T>(static_cast<float>(sum[i]) * scale * static_cast<float>(weight[i - row]));
        }
      });
    };
  });
}

}  // namespace warptune
