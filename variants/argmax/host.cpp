// Host variants of argmax.
#include <algorithm>
#include <vector>

#include "harness/core/parallel.h"
#include "kernels/argmax/args.h"
#include "variants/argmax/index_of_largest.h"
#include "variants/helpers/host_pair.h"
#include "variants/ops.h"

namespace warptune {
namespace {

HostFunction run(const Problem& p, int threads) {
  return [=, vocab = p["vocab"], dtype = p.dtype](const void* raw) {
    const auto& a = *static_cast<const ArgmaxArgs*>(raw);
    const std::int64_t part = ceil_div(vocab, threads), parts = ceil_div(vocab, part);
    with_float_dtype(dtype, [&]<class T>() {
      std::vector<std::int64_t> best(a.batch * parts);
      parallel_for(a.batch * parts, threads, [&](std::int64_t i) {
        const std::int64_t first = i % parts * part;
        best[i] = index_of_largest(static_cast<const T*>(a.logits) + i / parts * vocab, first,
                                   std::min(vocab, first + part));
      });
      for (std::int64_t row = 0; row < a.batch; ++row) {
        const T* logits = static_cast<const T*>(a.logits) + row * vocab;
        std::int64_t id = best[row * parts];
        for (std::int64_t i = 1; i < parts; ++i)
          if (const auto other = best[row * parts + i]; ranks_above<float>(logits[other], logits[id]))
            id = other;
        a.ids[row] = id;
      }
    });
  };
}

}  // namespace

std::vector<Variant> argmax_host() {
  return host_pair("One thread reads elements one by one.", "Parts of rows over threads.",
                   {"threads <= sms || threads == 2"}, run, {2, 4, 8, 16});
}

}  // namespace warptune
