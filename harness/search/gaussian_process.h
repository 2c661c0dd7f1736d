#pragma once
// Gaussian process with a Matern 5/2 kernel and a length scale per axis, for up to about 200 observations.
#include <span>
#include <vector>

namespace warptune {

struct Posterior {
  double mean = 0, deviation = 1;
};

class GaussianProcess {
 public:
  explicit GaussianProcess(std::size_t axes) : lengths_(axes, 0.8) {}

  /// Sets the observations. `lengths_too`: also fits the length scales, by maximum likelihood.
  void fit(std::vector<std::vector<double>> points, std::span<const double> values, bool lengths_too);
  std::vector<Posterior> predict(std::span<const std::vector<double>* const> points) const;

 private:
  double kernel(const std::vector<double>& a, const std::vector<double>& b) const;
  double factor(std::span<const double> values);

  std::vector<double> lengths_;
  std::vector<std::vector<double>> points_;
  std::vector<double> lower_;    // Cholesky factor, row by row
  std::vector<double> weights_;  // inverse of the covariance times (values - mean)
  double mean_ = 0, variance_ = 1;
};

}  // namespace warptune
