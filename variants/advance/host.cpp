// Host variants of advance.
#include "harness/core/parallel.h"
#include "kernels/advance/args.h"
#include "variants/helpers/host_pair.h"
#include "variants/ops.h"

namespace warptune {
namespace {

void advance_sequence(const AdvanceArgs& a, std::int64_t b) {
  if (a.positions[b] < 0) return;
  const int id = a.ids[b];
  if (*a.step < a.max_steps) a.transcript[b * a.max_steps + *a.step] = id;
  if (a.eos >= 0 && id == a.eos) {
    a.positions[b] = -1;
    a.lengths[b] = 0;
  } else {
    ++a.positions[b];
    ++a.lengths[b];
  }
}

HostFunction run(int threads) {
  return [=](const void* raw) {
    const auto& a = *static_cast<const AdvanceArgs*>(raw);
    parallel_for(a.batch, threads, [&](std::int64_t b) { advance_sequence(a, b); });
    ++*a.step;
    ++a.rng[1];
  };
}

}  // namespace

std::vector<Variant> advance_host() {
  return host_pair("One thread takes sequences one by one.", "Sequences over threads.",
                   {"threads <= sms", "threads <= batch || threads == 1"},
                   [](const Problem&, int threads) { return run(threads); });
}

}  // namespace warptune
