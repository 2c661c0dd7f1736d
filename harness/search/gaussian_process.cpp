#include "harness/search/gaussian_process.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace warptune {
namespace {

constexpr double kNoise = 1e-3;  // relative to the variance: times repeat within about 1 %
constexpr double kLengths[] = {0.15, 0.3, 0.6, 1.2, 2.4, 8};

}  // namespace

double GaussianProcess::kernel(const std::vector<double>& a, const std::vector<double>& b) const {
  double square = 0;
  for (std::size_t i = 0; i < lengths_.size(); ++i) {
    const double d = (a[i] - b[i]) / lengths_[i];
    square += d * d;
  }
  const double r = std::sqrt(5 * square);
  return (1 + r + r * r / 3) * std::exp(-r);
}

/// Factors the covariance and returns the log likelihood, with a weak prior on the length scales.
double GaussianProcess::factor(std::span<const double> values) {
  const std::size_t n = points_.size();
  lower_.assign(n * n, 0);
  double determinant = 0;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      const double* a = &lower_[i * n];
      const double* b = &lower_[j * n];
      double sum = kernel(points_[i], points_[j]) + (i == j ? kNoise : 0);
      for (std::size_t k = 0; k < j; ++k) sum -= a[k] * b[k];
      lower_[i * n + j] = i == j ? std::sqrt(std::max(sum, 1e-9)) : sum / b[j];
      if (i == j) determinant += std::log(lower_[i * n + i]);
    }
  mean_ = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(n);
  std::vector<double> half(n);
  double fit = 0;
  for (std::size_t i = 0; i < n; ++i) {
    double sum = values[i] - mean_;
    for (std::size_t k = 0; k < i; ++k) sum -= lower_[i * n + k] * half[k];
    half[i] = sum / lower_[i * n + i];
    fit += half[i] * half[i];
  }
  weights_ = half;
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) weights_[i] -= lower_[k * n + i] * weights_[k];
    weights_[i] /= lower_[i * n + i];
  }
  variance_ = std::max(fit / static_cast<double>(n), 1e-6);
  double prior = 0;
  for (const double length : lengths_) prior += std::pow(std::log(length / 0.8), 2) / 4;
  return -0.5 * static_cast<double>(n) * std::log(variance_) - determinant - prior;
}

void GaussianProcess::fit(std::vector<std::vector<double>> points, std::span<const double> values,
                          bool lengths_too) {
  points_ = std::move(points);
  double best = factor(values);
  if (!lengths_too || points_.size() < 4) return;
  for (double& length : lengths_) {
    double chosen = length;
    for (const double tried : kLengths) {
      length = tried;
      if (const double likelihood = factor(values); likelihood > best) {
        best = likelihood;
        chosen = tried;
      }
    }
    length = chosen;
  }
  factor(values);
}

std::vector<Posterior> GaussianProcess::predict(std::span<const std::vector<double>* const> points) const {
  const std::size_t n = points_.size(), count = points.size();
  if (count == 0) return {};  // no row of `half` has an address
  std::vector<double> half(n * count), means(count, mean_), explained(count, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    double* row = &half[i * count];
    for (std::size_t p = 0; p < count; ++p) {
      row[p] = kernel(points_[i], *points[p]);
      means[p] += weights_[i] * row[p];
    }
    for (std::size_t k = 0; k < i; ++k) {
      const double l = lower_[i * n + k];
      const double* above = &half[k * count];
      for (std::size_t p = 0; p < count; ++p) row[p] -= l * above[p];
    }
    const double inverse = 1 / lower_[i * n + i];
    for (std::size_t p = 0; p < count; ++p) {
      row[p] *= inverse;
      explained[p] += row[p] * row[p];
    }
  }
  std::vector<Posterior> predictions(count);
  for (std::size_t p = 0; p < count; ++p)
    predictions[p] = {means[p], std::sqrt(variance_ * std::max(1 + kNoise - explained[p], 1e-9))};
  return predictions;
}

}  // namespace warptune
