// Host variants of linear.
#include <algorithm>

#include "harness/core/parallel.h"
#include "kernels/linear/args.h"
#include "variants/linear/linear.h"

namespace warptune {
namespace {

/// Independent partial sums, so that the compiler may use vector registers.
template <class T>
float dot(const T* x, const T* w, std::int64_t n) {
  constexpr std::int64_t kLanes = 16;
  float sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t j = 0; j < kLanes; ++j)
      sums[j] += static_cast<float>(x[i + j]) * static_cast<float>(w[i + j]);
  float sum = 0;
  for (const float s : sums) sum += s;
  for (; i < n; ++i) sum += static_cast<float>(x[i]) * static_cast<float>(w[i]);
  return sum;
}

template <class T>
void one_output(const LinearArgs& a, std::int64_t out, std::int64_t token, std::int64_t o, float sum) {
  if (a.bias) sum += static_cast<float>(static_cast<const T*>(a.bias)[o]);
  static_cast<T*>(a.y)[token * out + o] = static_cast<T>(sum);
}

HostFunction naive(const Problem& p) {
  return [in = p["in"], out = p["out"], dtype = p.dtype](const void* raw) {
    const auto& a = *static_cast<const LinearArgs*>(raw);
    with_float_dtype(dtype, [&]<class T>() {
      for (std::int64_t token = 0; token < a.tokens; ++token)
        for (std::int64_t o = 0; o < out; ++o) {
          const T* x = static_cast<const T*>(a.x) + token * in;
          const T* w = static_cast<const T*>(a.weight) + o * in;
          float sum = 0;
          for (std::int64_t i = 0; i < in; ++i) sum += static_cast<float>(x[i]) * static_cast<float>(w[i]);
          one_output<T>(a, out, token, o, sum);
        }
    });
  };
}

/// A block of weight rows serves all tokens while it is in the cache.
HostFunction blocked(const Problem& p, std::int64_t block, int threads) {
  return [=, in = p["in"], out = p["out"], dtype = p.dtype](const void* raw) {
    const auto& a = *static_cast<const LinearArgs*>(raw);
    with_float_dtype(dtype, [&]<class T>() {
      parallel_for(ceil_div(out, block), threads, [&](std::int64_t group) {
        const std::int64_t last = std::min(out, (group + 1) * block);
        for (std::int64_t token = 0; token < a.tokens; ++token)
          for (std::int64_t o = group * block; o < last; ++o)
            one_output<T>(
                a, out, token, o,
                dot(static_cast<const T*>(a.x) + token * in, static_cast<const T*>(a.weight) + o * in, in));
      });
    });
  };
}

}  // namespace

std::vector<Variant> linear_host() {
  return {
      {
          .name = "host_naive",
          .idea = "One thread computes outputs one by one.",
          .backend = Backend::host,
          .host = [](const Problem& p, const Config&) { return naive(p); },
      },
      {
          .name = "host_blocked",
          .idea = "Blocks of weight rows over threads, partial sums in vector registers.",
          .backend = Backend::host,
          .parameters = {{"block", {8, 64}, "weight rows per block"},
                         {"threads", {1, 2, 4, 8, 16, 32}, "worker threads"}},
          .constraints = {"threads <= sms", "block * (threads - 1) < out || threads == 1"},
          .host = [](const Problem& p,
                     const Config& c) { return blocked(p, c["block"], static_cast<int>(c["threads"])); },
      },
  };
}

}  // namespace warptune
