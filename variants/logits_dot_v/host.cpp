// How logits_dot_v runs on the CPU: a row of the result is one query head of one sequence.
#include <vector>

#include "kernels/logits_dot_v/args.h"
#include "variants/helpers/host_rows.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> logits_dot_v_host() {
  return host_rows<LogitsDotVArgs>(
      [](const Problem& p, const LogitsDotVArgs& a) { return a.batch * p["q_heads"]; },
      [](const Problem& p, const LogitsDotVArgs& a, std::int64_t row) {
        with_float_dtype(p.dtype, [&]<class T>() {
          const std::int64_t heads = p["q_heads"], kv_heads = p["kv_heads"], d = p["head_dim"];
          const std::int64_t b = row / heads, kv_row = b * kv_heads + row % heads / (heads / kv_heads);
          const T* logits = static_cast<const T*>(a.logits) + row * a.capacity;
          const T* v = static_cast<const T*>(a.v_cache) + kv_row * a.capacity * d;
          std::vector<float> sums(d);
          for (std::int64_t key = 0; key < a.lengths[b]; ++key)
            for (std::int64_t i = 0; i < d; ++i) sums[i] += static_cast<float>(logits[key]) * v[key * d + i];
          for (std::int64_t i = 0; i < d; ++i) static_cast<T*>(a.out)[row * d + i] = sums[i];
        });
      });
}

}  // namespace warptune
