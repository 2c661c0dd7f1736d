// Host variants of padding_offset.
#include <algorithm>

#include "harness/core/parallel.h"
#include "kernels/padding_offset/args.h"
#include "variants/helpers/host_pair.h"
#include "variants/ops.h"

namespace warptune {
namespace {

/// One thread computes the prefix sums, `threads` threads write the offsets.
HostFunction run(int threads) {
  return [=](const void* raw) {
    const auto& a = *static_cast<const PaddingOffsetArgs*>(raw);
    a.cu_seqlens[0] = 0;
    for (int b = 0; b < a.batch; ++b) a.cu_seqlens[b + 1] = a.cu_seqlens[b] + a.lengths[b];
    parallel_for(a.batch, threads, [&](std::int64_t b) {
      const int start = a.cu_seqlens[b], end = a.cu_seqlens[b + 1];
      std::fill(a.padding_offset + start, a.padding_offset + end, b * a.max_q_len - start);
    });
  };
}

}  // namespace

std::vector<Variant> padding_offset_host() {
  return host_pair("One thread takes sequences one by one.", "Offsets of the sequences over threads.",
                   {"threads <= sms", "threads <= batch || threads == 1"},
                   [](const Problem&, int threads) { return run(threads); });
}

}  // namespace warptune
