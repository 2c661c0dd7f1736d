#pragma once
// The expected outputs of a problem, computed once in fp64 and compared with every candidate.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/core/op.h"
#include "harness/verify/expected_elements.h"
#include "harness/verify/tensor_set.h"

namespace warptune {

struct Verdict {
  bool ok = false;
  double max_abs_err = 0;
  double rel_l2_err = 0;  // the largest over the outputs
  std::string detail;     // one sentence where not ok
};

class Oracle {
 public:
  static constexpr double kBudget = 4e7;
  /// Computes all units if `budget` (evaluations, about 10 ns each) allows, else a random sample of them.
  Oracle(const Op& op, const Problem& problem, std::uint64_t seed, double budget = kBudget);
  /// The same for results of this device: a reference that is a kernel runs on it.
  Oracle(Device& device, const Op& op, const Problem& problem, std::uint64_t seed);

  std::span<const TensorSpec> specs() const { return specs_; }
  std::uint64_t seed() const { return seed_; }
  /// Compares the outputs of a set with the reference. NaN where a number is expected, a wrong value, an
  /// unwritten element and a write outside a tensor each fail with a sentence.
  Verdict compare(const TensorSet& set) const;

 private:
  const ExpectedElements& elements(Device& device, std::size_t t) const;
  void run_reference(const Op& op, const Problem& problem, double budget);

  std::uint64_t seed_;
  Tolerance tolerance_;
  std::vector<TensorSpec> specs_;
  Expected expected_;
  bool nan_is_possible_ = false;  // outputs that are NaN do not count as unwritten
  // The expected elements of each output, uploaded with the first comparison on a device.
  mutable std::map<std::size_t, ExpectedElements> there_;
  mutable const Device* there_device_ = nullptr;
};

}  // namespace warptune
