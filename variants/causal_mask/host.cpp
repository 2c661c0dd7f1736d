// Host variants of causal_mask.
#include "kernels/causal_mask/args.h"
#include "variants/helpers/host_rows.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> causal_mask_host() {
  return host_rows<CausalMaskArgs>(
      [](const Problem& p, const CausalMaskArgs& a) { return a.batch * p["max_q_len"]; },
      [](const Problem& p, const CausalMaskArgs& a, std::int64_t row) {
        with_float_dtype(p.dtype, [&]<class T>() {
          const std::int64_t b = row / p["max_q_len"], q = row % p["max_q_len"], keys = p["max_k_len"];
          T* mask = static_cast<T*>(a.mask) + row * keys;
          for (std::int64_t k = 0; k < keys; ++k) {
            const bool visible = q < a.q_lens[b] && k < a.k_lens[b] && k <= q + a.k_lens[b] - a.q_lens[b];
            mask[k] = T(visible ? 1.0f : 0.0f);
          }
        });
      });
}

}  // namespace warptune
