#pragma once
// Proves and times the configurations of one problem on one device.
#include <memory>

#include "core/variant.h"
#include "measure/measurement.h"

namespace warptune {

enum class CacheMode {
  cold,  // weights and KV rotate over sets larger than twice the L2, the rest as each tensor says
  hot    // one set, everything as the launch before left it
};

struct BenchOptions {
  CacheMode cache = CacheMode::cold;
  double max_rel_ci = 0.005;  // stop when the 95 % interval of the median is this narrow
  int min_samples = 11;
  double max_seconds = 0.25;  // of sampling, per configuration
  std::uint64_t seed = 1;
};

/// Allocates and fills the tensors once, computes the reference once, then tries any number of
/// configurations.
class Bench {
 public:
  Bench(Device& device, const OpEntry& entry, Problem problem, BenchOptions options);
  ~Bench();
  /// Compiles, verifies, times, verifies again on other inputs. Never throws for what the configuration does
  /// wrong: that is the status. Errors of the device itself (a sticky CUDA error) are thrown.
  Measurement run(const Variant& variant, const Config& config);
  const Problem& problem() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Measures read, copy and matrix ceilings and the launch floor of a device (about half a second).
DeviceFacts measure_ceilings(Device& device);

/// max(bytes / read bandwidth, flops / rate) in microseconds; 0 where the ceilings are not measured.
double floor_us(const DeviceFacts& facts, const Cost& cost, DType dtype);

}  // namespace warptune
