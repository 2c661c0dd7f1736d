// Host variants of softmax.
#include <algorithm>
#include <cmath>

#include "kernels/softmax/args.h"
#include "variants/helpers/host_rows.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> softmax_host() {
  return host_rows<SoftmaxArgs>(
      [](const Problem& p, const SoftmaxArgs& a) { return a.batch * p["q_heads"] * p["q_len"]; },
      [](const Problem& p, const SoftmaxArgs& a, std::int64_t row) {
        with_float_dtype(p.dtype, [&]<class T>() {
          const std::int64_t keys = p["kv_len"], queries = p["q_len"],
                             mask_row = row / (p["q_heads"] * queries) * queries + row % queries;
          const T* x = static_cast<const T*>(a.x) + row * keys;
          const T* mask = p["mask"] ? static_cast<const T*>(a.mask) + mask_row * keys : nullptr;
          T* y = static_cast<T*>(a.y) + row * keys;
          const auto visible = [&](std::int64_t k) { return !mask || static_cast<float>(mask[k]) != 0; };
          float most = -INFINITY, sum = 0;
          for (std::int64_t k = 0; k < keys; ++k)
            if (visible(k)) most = std::max(most, x[k] * a.scale);
          for (std::int64_t k = 0; k < keys; ++k)
            if (visible(k)) sum += std::exp(x[k] * a.scale - most);
          for (std::int64_t k = 0; k < keys; ++k)
            y[k] = visible(k) ? std::exp(x[k] * a.scale - most) / sum : 0;
        });
      });
}

}  // namespace warptune
