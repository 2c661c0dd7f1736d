#include "harness/verify/tensor_set.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "harness/core/rank_group.h"

namespace warptune {
namespace {

/// One page, so that tensors are aligned as in a model. WARPTUNE_BANDS=0 removes the bands: memcheck, which
/// knows allocations only, then also finds reads outside a tensor.
std::size_t band_bytes() {
  const char* given = std::getenv("WARPTUNE_BANDS");
  return given && std::string_view(given) == "0" ? 0 : 4096;
}
constexpr unsigned char kBandBytes[] = {0xa5, 0xff};  // even seeds: a tiny negative float; odd seeds: NaN
}  // namespace

TensorSet::TensorSet(Device& device, std::span<const TensorSpec> specs, const TensorSet* shared)
    : device_(&device), band_bytes_(band_bytes()) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    names_.push_back(specs[i].name);
    bytes_.push_back(specs[i].bytes());
    if (shared && specs[i].cache == CacheState::hot) {
      buffers_.emplace_back();
      addresses_.push_back(shared->addresses_[i]);
    } else {
      buffers_.push_back(device.allocate(static_cast<std::size_t>(specs[i].bytes()) + 2 * band_bytes_));
      addresses_.push_back(buffers_.back().as<std::byte>() + band_bytes_);
    }
  }
}

template <class T>
void TensorSet::upload_stored(void* to, DType dtype, const std::vector<T>& values) {
  std::vector<std::byte> stored(values.size() * size_of(dtype));
  for (std::size_t k = 0; k < values.size(); ++k)
    store(dtype, stored.data(), static_cast<std::int64_t>(k), values[k]);
  device_->upload(to, stored.data(), stored.size(), device_->stream());
}

void TensorSet::fill_one(std::size_t i, const TensorSpec& spec, std::uint64_t seed) {
  if (spec.role == Role::output)
    device_->set_bytes(addresses_[i], poison_byte(spec.dtype), static_cast<std::size_t>(bytes_[i]),
                       device_->stream());
  else if (spec.dtype == DType::int32 && !spec.values.empty())
    device_->upload(addresses_[i], spec.values.data(), static_cast<std::size_t>(bytes_[i]),
                    device_->stream());
  else if (!spec.values.empty())
    upload_stored(addresses_[i], spec.dtype, spec.values);
  else if (!spec.floats.empty())
    upload_stored(addresses_[i], spec.dtype, spec.floats);
  else
    device_->fill_random(addresses_[i], spec.dtype, spec.count(), tensor_seed(seed, i), spec.scale);
}

void TensorSet::fill(std::span<const TensorSpec> specs, std::uint64_t seed) {
  band_ = kBandBytes[seed % 2];
  for (std::size_t i = 0; i < specs.size(); ++i) {
    std::byte* base = static_cast<std::byte*>(addresses_[i]) - band_bytes_;
    device_->set_bytes(base, band_, band_bytes_, device_->stream());
    device_->set_bytes(base + band_bytes_ + bytes_[i], band_, band_bytes_, device_->stream());
    fill_one(i, specs[i], seed);
  }
}

void TensorSet::reset_outputs(std::span<const TensorSpec> specs, std::uint64_t seed) {
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (specs[i].role != Role::input) fill_one(i, specs[i], seed);
}

std::vector<Region> TensorSet::regions(std::span<const TensorSpec> specs,
                                       const std::function<bool(const TensorSpec&)>& wanted) const {
  std::vector<Region> regions;
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (wanted(specs[i])) regions.push_back({addresses_[i], static_cast<std::size_t>(bytes_[i])});
  return regions;
}

std::vector<void*> TensorSet::arguments(std::span<const TensorSpec> specs) const {
  std::vector<void*> arguments = addresses_;
  const RankGroup* const group = device_->group();
  for (std::size_t i = 0; i < specs.size() && group; ++i)
    if (specs[i].per_rank)
      arguments[i] =
          static_cast<std::byte*>(arguments[i]) + group->rank() * bytes_[i] / specs[i].shape.front();
  return arguments;
}

std::string TensorSet::name_at(const void* address) const {
  const auto it = std::ranges::find(addresses_, address);
  return it == addresses_.end() ? "" : names_[static_cast<std::size_t>(it - addresses_.begin())];
}

std::string TensorSet::broken_guard_band() const {
  if (band_bytes_ == 0) return {};
  const Buffer intact = device_->allocate(band_bytes_);
  device_->set_bytes(intact.data(), band_, band_bytes_, device_->stream());
  std::vector<Region> bands = {{intact.data(), band_bytes_}};
  for (std::size_t i = 0; i < addresses_.size(); ++i) {
    const auto* tensor = static_cast<const std::byte*>(addresses_[i]);
    bands.push_back({tensor - band_bytes_, band_bytes_});
    bands.push_back({tensor + bytes_[i], band_bytes_});
  }
  const auto sums = device_->checksums(bands);
  const auto broken = std::ranges::find_if(sums, [&](std::uint64_t sum) { return sum != sums.front(); });
  return broken == sums.end() ? "" : names_[static_cast<std::size_t>(broken - sums.begin() - 1) / 2];
}

}  // namespace warptune
