#pragma once
// Student's t test: is a configuration slower in the runs of one file than in the runs of another? A run is
// one process; its value is the median of its samples. docs/regression.md has the reasons.
#include <span>
#include <vector>

namespace warptune {

/// How far two runs of one program are apart, for configurations of one duration
/// (results/h200/evidence/aa_study.csv).
struct RunNoise {
  double spread = 0;   // typical standard deviation of a run's median, as a fraction
  double floor = 0;    // the largest change between two runs, as a fraction
  double drift = 0;    // the largest change between two recordings of several runs, as a fraction
  bool modes = false;  // a run is in one of several modes (placement of memory, frequency), a factor apart
};
/// The noise of a configuration that takes `us` microseconds, on a GPU or on the host.
RunNoise run_noise(double us, bool on_host);

/// The faster half of the runs, rounded up, in rising order. What slows a run (clocks, power, memory
/// addresses, other programs) comes and goes; the time of the code itself stays.
std::vector<double> faster_half(std::span<const double> us);

/// The geometric mean of at least one value; all are above 0.
double geometric_mean(std::span<const double> values);

struct StudentT {
  double effect = 0;  // now / base - 1, of the geometric means of the faster halves
  double p = 1;       // two-sided; 1 if a file has fewer than two runs
};
/// Student's t test on the logarithms of the faster halves. Their variance is pooled, with noise.spread as
/// one more observation, so that a few runs that agree by chance are no evidence. Where runs have modes, the
/// faster halves may be of different ones: p is 1 if the ranges of all runs overlap. Times are above 0.
StudentT compare_runs(std::span<const double> base_us, std::span<const double> now_us, const RunNoise& noise);

/// P(|T| >= |t|) of Student's t distribution with `degrees` >= 1 degrees of freedom (Abramowitz and
/// Stegun, 26.7.3-4).
double student_p(double t, int degrees);

}  // namespace warptune
