#include "harness/results/student_t.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace warptune {
namespace {

struct NoiseClass {
  double below_us;
  RunNoise noise;
};
// 20 runs of configs/quick.yaml and 23 of 146 baseline winners on one H200; the floor is the largest change
// seen between consecutive runs, rounded up. What the runs of a recording share, and another recording does
// not, is the drift: 322 rows of unchanged kernels (results/h200/evidence/regress_slowed.csv), and on the
// host 20 recordings of 21 problems (results/host/evidence/aa_study.csv).
constexpr std::array kGpuNoise = {
    NoiseClass{2, {.spread = 0.0020, .floor = 0.06, .drift = 0.03}},
    NoiseClass{5, {.spread = 0.0015, .floor = 0.14, .drift = 0.03}},
    NoiseClass{10, {.spread = 0.0015, .floor = 0.09}},
    NoiseClass{100, {.spread = 0.0015, .floor = 0.05}},
    NoiseClass{HUGE_VAL, {.spread = 0.0015, .floor = 0.13}},
};
constexpr RunNoise kHostNoise{.spread = 0.02, .floor = 0.5, .drift = 0.35, .modes = true};

bool overlap(std::span<const double> a, std::span<const double> b) {
  const auto [min_a, max_a] = std::ranges::minmax(a);
  const auto [min_b, max_b] = std::ranges::minmax(b);
  return min_a <= max_b && min_b <= max_a;
}

double mean_log(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return sum / static_cast<double>(values.size());
}

/// The sum of squares of the logarithms around their mean.
double sum_of_squares(std::span<const double> values) {
  const double mean = mean_log(values);
  double sum = 0;
  for (const double value : values) sum += (std::log(value) - mean) * (std::log(value) - mean);
  return sum;
}

}  // namespace

RunNoise run_noise(double us, bool on_host) {
  if (on_host) return kHostNoise;
  return std::ranges::find_if(kGpuNoise, [&](const NoiseClass& c) { return us < c.below_us; })->noise;
}

std::vector<double> faster_half(std::span<const double> us) {
  std::vector<double> sorted(us.begin(), us.end());
  std::ranges::sort(sorted);
  sorted.resize((sorted.size() + 1) / 2);
  return sorted;
}

double geometric_mean(std::span<const double> values) { return std::exp(mean_log(values)); }

double student_p(double t, int degrees) {
  const double theta = std::atan(std::abs(t) / std::sqrt(degrees));
  const double cosine = std::cos(theta);
  const bool odd = degrees % 2 == 1;
  // Even: 1 + 1/2 cos^2 + 1*3/(2*4) cos^4 + ...; odd: cos + 2/3 cos^3 + 2*4/(3*5) cos^5 + ...
  double term = odd ? cosine : 1, sum = 0;
  for (int k = odd ? 1 : 0; k <= degrees - 2; k += 2) {
    sum += term;
    term *= cosine * cosine * (k + 1) / (k + 2);
  }
  const double inside = odd ? 2 / std::numbers::pi * (theta + std::sin(theta) * sum) : std::sin(theta) * sum;
  return std::clamp(1 - inside, 0.0, 1.0);
}

StudentT compare_runs(std::span<const double> base_us, std::span<const double> now_us,
                      const RunNoise& noise) {
  const std::vector<double> base = faster_half(base_us), now = faster_half(now_us);
  const double change = mean_log(now) - mean_log(base);
  StudentT test{.effect = std::expm1(change)};
  if (base_us.size() < 2 || now_us.size() < 2) return test;
  if (noise.modes && overlap(base_us, now_us)) return test;
  const auto n = static_cast<double>(base.size()), m = static_cast<double>(now.size());
  const int degrees = static_cast<int>(n + m) - 2 + 1;
  const double squares = sum_of_squares(base) + sum_of_squares(now) + noise.spread * noise.spread;
  const double error = std::sqrt(squares / degrees * (1 / n + 1 / m));
  test.p = student_p(change / error, degrees);
  return test;
}

}  // namespace warptune
