// Host variants of rms_norm.
#include <cmath>

#include "harness/core/parallel.h"
#include "kernels/rms_norm/args.h"
#include "variants/ops.h"

namespace warptune {
namespace {

template <class T>
void normalize_row(const RmsNormArgs& a, std::int64_t hidden, std::int64_t token) {
  const T* x = static_cast<const T*>(a.x) + token * hidden;
  const T* weight = static_cast<const T*>(a.weight);
  T* y = static_cast<T*>(a.y) + token * hidden;
  double sum = 0;  // one long fp32 sum would drop small squares
  for (std::int64_t i = 0; i < hidden; ++i) sum += static_cast<float>(x[i]) * static_cast<float>(x[i]);
  const auto scale = static_cast<float>(1 / std::sqrt(sum / static_cast<double>(hidden) + a.eps));
  for (std::int64_t i = 0; i < hidden; ++i)
    y[i] = static_cast<T>(static_cast<float>(x[i]) * scale * static_cast<float>(weight[i]));
}

HostFunction run(const Problem& p, int threads) {
  return [=, hidden = p["hidden"], dtype = p.dtype](const void* raw) {
    const auto& a = *static_cast<const RmsNormArgs*>(raw);
    with_float_dtype(dtype, [&]<class T>() {
      parallel_for(a.tokens, threads, [&](std::int64_t token) { normalize_row<T>(a, hidden, token); });
    });
  };
}

}  // namespace

std::vector<Variant> rms_norm_host() {
  return {
      {
          .name = "host_naive",
          .idea = "One thread computes rows one by one.",
          .backend = Backend::host,
          .host = [](const Problem& p, const Config&) { return run(p, 1); },
      },
      {
          .name = "host_threaded",
          .idea = "Rows over threads.",
          .backend = Backend::host,
          .parameters = {{"threads", {1, 2, 4, 8}, "worker threads"}},
          .constraints = {"threads <= sms", "threads <= tokens || threads == 1"},
          .host = [](const Problem& p, const Config& c) { return run(p, static_cast<int>(c["threads"])); },
      },
  };
}

}  // namespace warptune
