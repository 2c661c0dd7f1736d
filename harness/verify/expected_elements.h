#pragma once
// The expected values of one output in the memory of a device, so that it compares them itself.
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/device/device.h"

namespace warptune {

class ExpectedElements {
 public:
  /// Uploads the runs that belong to the tensor.
  ExpectedElements(Device& device, const TensorSpec& spec, std::span<const Expected::Run> runs);

  /// The errors of an output of these specs at `address`. Elements have the numbers that value() takes.
  ElementErrors compare(const void* address) const;
  /// Whether the expected values on the device are what was uploaded: a kernel may write anywhere.
  bool is_intact() const { return device_->checksums(regions()) == sums_; }
  /// The value that an element has, and the one that it should have.
  std::pair<double, double> value(const void* address, long long element) const;
  /// "'y'[3] is 1, should be 2"
  std::string sentence(const void* address, long long element) const;
  /// Of the expected values that are finite numbers: the sum of their squares and the largest magnitude.
  double squares() const { return squares_; }
  double largest() const { return largest_; }

 private:
  std::vector<Region> regions() const;

  Device* device_;
  std::string name_;
  DType dtype_;
  std::vector<std::int64_t> index_;
  std::vector<double> want_;
  Buffer index_there_, want_there_, slack_there_;
  std::vector<std::uint64_t> sums_;  // checksums of the regions
  double squares_ = 0, largest_ = 0;
};

}  // namespace warptune
