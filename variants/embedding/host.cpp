// Host variants of embedding.
#include <algorithm>
#include <atomic>

#include "kernels/embedding/args.h"
#include "variants/helpers/host_rows.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> embedding_host() {
  return host_rows<EmbeddingArgs>(
      [](const Problem&, const EmbeddingArgs& a) { return std::int64_t{a.tokens}; },
      [](const Problem& p, const EmbeddingArgs& a, std::int64_t token) {
        with_float_dtype(p.dtype, [&]<class T>() {
          const std::int64_t hidden = p["hidden"], id = a.ids[token];
          T* y = static_cast<T*>(a.y) + token * hidden;
          if (id >= 0 && id < p["vocab"]) {
            std::copy_n(static_cast<const T*>(a.table) + id * hidden, hidden, y);
          } else {
            std::fill_n(y, hidden, T(0.0f));
            const std::atomic_ref<int> bad(*a.bad_token);
            int seen = bad.load();
            while (seen < token + 1 && !bad.compare_exchange_weak(seen, token + 1)) {
            }
          }
        });
      });
}

}  // namespace warptune
