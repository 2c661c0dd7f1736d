#include "harness/results/mann_whitney.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace warptune {
namespace {

constexpr std::size_t kMaxExact = 25;

/// P(U <= u) if all arrangements of n and m distinct values are equally likely. ways[k] counts the
/// arrangements with U = k: the coefficients of the Gaussian binomial, the product over i <= n of
/// (1 - x^(m + i)) / (1 - x^i).
double exact_cdf(std::size_t n, std::size_t m, double u) {
  std::vector<double> ways(n * m + 1, 0.0);
  ways[0] = 1;
  for (std::size_t i = 1; i <= n; ++i) {
    for (std::size_t k = ways.size(); k-- > m + i;) ways[k] -= ways[k - m - i];
    for (std::size_t k = i; k < ways.size(); ++k) ways[k] += ways[k - i];
  }
  const double all = std::accumulate(ways.begin(), ways.end(), 0.0);
  double below = 0;
  for (std::size_t k = 0; k < ways.size() && static_cast<double>(k) <= u; ++k) below += ways[k];
  return below / all;
}

double normal_p(double n, double m, double u, double ties) {
  const double total = n + m;
  const double variance = n * m / 12 * (total + 1 - ties / (total * (total - 1)));
  if (!(variance > 0)) return 1;
  const double z = (std::abs(u - n * m / 2) - 0.5) / std::sqrt(variance);
  return std::min(1.0, std::erfc(z / std::sqrt(2.0)));
}

}  // namespace

MannWhitney mann_whitney(std::span<const double> a, std::span<const double> b) {
  MannWhitney test;
  if (a.empty() || b.empty()) return test;
  std::vector<double> sorted_b(b.begin(), b.end()), all(a.begin(), a.end());
  std::ranges::sort(sorted_b);
  for (const double value : a) {
    const auto [low, high] = std::ranges::equal_range(sorted_b, value);
    test.u += static_cast<double>(low - sorted_b.begin()) + 0.5 * static_cast<double>(high - low);
  }
  all.insert(all.end(), b.begin(), b.end());
  std::ranges::sort(all);
  double ties = 0;  // sum of t^3 - t over groups of t equal values
  for (auto it = all.begin(); it != all.end();) {
    const auto end = std::upper_bound(it, all.end(), *it);
    const auto t = static_cast<double>(end - it);
    ties += t * t * t - t;
    it = end;
  }
  const auto n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  test.exact = ties == 0 && a.size() <= kMaxExact && b.size() <= kMaxExact;
  if (test.exact) {
    test.p = std::min(1.0, 2 * exact_cdf(a.size(), b.size(), std::min(test.u, n * m - test.u)));
  } else {
    test.p = normal_p(n, m, test.u, ties);
  }
  return test;
}

std::vector<double> holm(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return p[i]; });
  std::vector<double> adjusted(p.size());
  double largest = 0;
  for (std::size_t k = 0; k < order.size(); ++k) {
    largest = std::max(largest, std::min(1.0, p[order[k]] * static_cast<double>(p.size() - k)));
    adjusted[order[k]] = largest;
  }
  return adjusted;
}

}  // namespace warptune
