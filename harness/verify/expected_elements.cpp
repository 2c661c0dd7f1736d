#include "harness/verify/expected_elements.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace warptune {
namespace {

/// The rounding error of a result below the normal numbers of a dtype, where no relative bound holds; GPUs
/// flush those of fp32 to zero.
double subnormal_error(DType dtype, double want) {
  const bool is_fp16 = dtype == DType::fp16;
  if (!is_fp16 && dtype != DType::fp32 && dtype != DType::bf16) return 0;
  const double normal = is_fp16 ? 0x1p-14 : 0x1p-126;
  if (std::abs(want) >= normal) return 0;
  return is_fp16 ? 0x1p-25 : normal;
}

template <class T>
Buffer uploaded(Device& device, const std::vector<T>& values) {
  if (values.empty()) return {};
  Buffer there = device.allocate(values.size() * sizeof(T));
  device.upload(there.data(), values.data(), values.size() * sizeof(T), device.stream());
  return there;
}

}  // namespace

ExpectedElements::ExpectedElements(Device& device, const TensorSpec& spec,
                                   std::span<const Expected::Run> runs)
    : device_(&device), name_(spec.name), dtype_(spec.dtype) {
  std::vector<double> slack;
  for (const Expected::Run& run : runs)
    if (run.tensor == name_ && run.also.empty())
      for (std::size_t i = 0; i < run.values.size(); ++i) {
        const double want = run.values[i];
        index_.push_back(run.first + static_cast<std::int64_t>(i));
        want_.push_back(want);
        const bool is_error = !is_exact(dtype_) && std::isfinite(want);
        slack.push_back(is_error ? rounding_error(dtype_, want) + subnormal_error(dtype_, want) : 0);
        if (!is_error) continue;
        squares_ += want * want;
        largest_ = std::max(largest_, std::abs(want));
      }
  index_there_ = uploaded(device, index_);
  want_there_ = uploaded(device, want_);
  slack_there_ = uploaded(device, slack);
  device.synchronize();  // the copies read the vectors
  sums_ = device.checksums(regions());
}

std::vector<Region> ExpectedElements::regions() const {
  std::vector<Region> regions;
  for (const Buffer* there : {&index_there_, &want_there_, &slack_there_})
    if (there->data()) regions.push_back({there->data(), there->bytes()});
  return regions;
}

ElementErrors ExpectedElements::compare(const void* address) const {
  return device_->compare({.data = address,
                           .index = index_there_.as<long long>(),
                           .want = want_there_.as<double>(),
                           .slack = slack_there_.as<double>(),
                           .count = static_cast<long long>(want_.size()),
                           .errors = nullptr,
                           .is_exact = is_exact(dtype_)},
                          dtype_);
}

std::pair<double, double> ExpectedElements::value(const void* address, long long element) const {
  const auto at = static_cast<std::size_t>(element);
  const std::size_t size = size_of(dtype_);
  std::vector<std::byte> got(size);
  device_->download(
      got.data(), static_cast<const std::byte*>(address) + static_cast<std::size_t>(index_[at]) * size, size);
  return {load(dtype_, got.data(), 0), want_[at]};
}

std::string ExpectedElements::sentence(const void* address, long long element) const {
  const auto [got, want] = value(address, element);
  return fmt::format("'{}'[{}] is {}, should be {}", name_, index_[static_cast<std::size_t>(element)], got,
                     want);
}

}  // namespace warptune
