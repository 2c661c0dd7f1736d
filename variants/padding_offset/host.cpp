// How padding_offset runs on the CPU.
#include <algorithm>

#include "core/parallel.h"
#include "padding_offset/args.h"
#include "padding_offset/padding_offset.h"

namespace warptune {
namespace {

/// The prefix sums by one thread, the offsets by `threads`.
HostFunction run(int threads) {
  return [=](const void* raw) {
    const auto& a = *static_cast<const PaddingOffsetArgs*>(raw);
    a.cu_seqlens[0] = 0;
    for (int b = 0; b < a.batch; ++b) a.cu_seqlens[b + 1] = a.cu_seqlens[b] + a.lengths[b];
    parallel_for(a.batch, threads, [&](std::int64_t b) {
      const int start = a.cu_seqlens[b], end = a.cu_seqlens[b + 1];
      std::fill(a.padding_offset + start, a.padding_offset + end, static_cast<int>(b) * a.max_q_len - start);
    });
  };
}

}  // namespace

std::vector<Variant> padding_offset_host() {
  return {
      {
          .name = "host_naive",
          .idea = "one sequence after the other",
          .backend = Backend::host,
          .host = [](const Problem&, const Config&) { return run(1); },
      },
      {
          .name = "host_threaded",
          .idea = "offsets of the sequences over threads",
          .backend = Backend::host,
          .parameters = {{"threads", {1, 2, 4, 8, 16}, "worker threads"}},
          .constraints = {"threads <= sms", "threads <= batch || threads == 1"},
          .host = [](const Problem&, const Config& c) { return run(static_cast<int>(c["threads"])); },
      },
  };
}

}  // namespace warptune
