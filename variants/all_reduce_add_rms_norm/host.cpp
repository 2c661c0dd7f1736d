// The host variant of all_reduce_add_rms_norm.
#include "kernels/all_reduce_add_rms_norm/args.h"
#include "variants/helpers/host_exchange.h"
#include "variants/helpers/normalize.h"
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
        auto* const sum = static_cast<T*>(args.residual_out);
        for (std::size_t i = 0; i < elements; ++i) {
          float reduced = 0;
          for (const std::byte* x : all) reduced += static_cast<float>(reinterpret_cast<const T*>(x)[i]);
          sum[i] =
              static_cast<T>(static_cast<float>(static_cast<T>(reduced)) + static_cast<float>(residual[i]));
        }
        for (std::size_t row = 0; row < elements; row += hidden)
          normalize_row(sum + row, args.weight, static_cast<T*>(args.y) + row, p["hidden"], args.eps);
      });
    };
  });
}

}  // namespace warptune
