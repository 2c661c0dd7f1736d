// Host variants of top_k.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/core/parallel.h"
#include "harness/core/philox.h"
#include "kernels/top_k/args.h"
#include "variants/argmax/index_of_largest.h"
#include "variants/helpers/host_pair.h"
#include "variants/ops.h"

namespace warptune {
namespace {

/// Samples one of the candidates, which are sorted in descending order.
template <class T>
int draw(const TopKArgs& a, const T* logits, const std::vector<int>& sorted, float min_p, std::int64_t row) {
  const std::size_t k = sorted.size();
  const float largest = logits[sorted[0]];
  if (!(a.temperature > 0) || !std::isfinite(largest)) return sorted[0];
  std::vector<float> cumulative(k);
  float sum = 0;
  const auto weight = [&](std::size_t i) {  // the probability over the largest one
    return std::exp((logits[sorted[i]] - largest) / a.temperature);
  };
  for (std::size_t i = 0; i < k; ++i) cumulative[i] = sum += weight(i);
  std::size_t last = 0, taken = 0;
  while (last + 1 < k && cumulative[last] < a.p * sum) ++last;
  while (last > 0 && weight(last) < min_p) --last;
  const float target = philox_uniform(a.rng[0], a.rng[1], row) * cumulative[last];
  while (taken < last && cumulative[taken] <= target) ++taken;
  return sorted[taken];
}

/// The k largest in descending order; of equals, the lowest index first.
template <class T>
std::vector<int> largest(const T* logits, std::int64_t vocab, std::int64_t k) {
  std::vector<int> order(vocab);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::partial_sort(order, order.begin() + k, [&](int a, int b) {
    const float x = logits[a], y = logits[b];
    return ranks_above(x, y) || (!ranks_above(y, x) && a < b);
  });
  order.resize(k);
  return order;
}

/// Adds the token fed last to the seen ones, and returns the logits of a row after the repetition penalty.
template <class T>
std::vector<float> penalized(const PenalizedTopKArgs& a, const T* logits, std::int64_t vocab,
                             std::int64_t row) {
  unsigned* seen = a.seen + row * ceil_div(vocab, 32);
  if (const int fed = a.ids[row]; fed >= 0 && fed < vocab) seen[fed / 32] |= 1u << fed % 32;
  std::vector<float> scores(logits, logits + vocab);
  for (std::int64_t i = 0; i < vocab; ++i)
    if (float& x = scores[i]; seen[i / 32] >> i % 32 & 1u)
      x = x < 0 ? x * a.repetition_penalty : x / a.repetition_penalty;
  return scores;
}

HostFunction run(const Problem& p, int threads) {
  return [=, vocab = p["vocab"], k = p["k"], penalty = p["repetition_penalty"] != 0,
          has_min_p = p["min_p"] != 0, dtype = p.dtype](const void* raw) {
    const auto& a = *static_cast<const TopKArgs*>(raw);
    const auto sample = [&](const auto* scores, std::int64_t row) {
      a.ids[row] = draw(a, scores, largest(scores, vocab, k), has_min_p ? a.min_p : 0.0f, row);
    };
    with_float_dtype(dtype, [&]<class T>() {
      parallel_for(a.batch, threads, [&](std::int64_t row) {
        const T* logits = static_cast<const T*>(a.logits) + row * vocab;
        if (penalty)
          sample(penalized(*static_cast<const PenalizedTopKArgs*>(raw), logits, vocab, row).data(), row);
        else
          sample(logits, row);
      });
    });
  };
}

}  // namespace

std::vector<Variant> top_k_host() {
  return host_pair("Partial sort, one thread.", "Partial sort, rows over threads.",
                   {"threads <= sms", "threads <= batch || threads == 1"}, run, {1, 2, 4, 8});
}

}  // namespace warptune
