#include "verify/tensor_set.h"

#include <algorithm>
#include <array>

namespace warptune {
namespace {
constexpr std::size_t kBand = 256;
constexpr int kBandByte = 0xa5;
constexpr int kPoisonByte = 0xff;  // NaN in every float type, -1 in int32
}  // namespace

TensorSet::TensorSet(Device& device, std::span<const TensorSpec> specs, const TensorSet* shared)
    : device_(&device) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    names_.push_back(specs[i].name);
    bytes_.push_back(specs[i].bytes());
    if (shared && specs[i].cache == CacheState::hot) {
      buffers_.emplace_back();
      addresses_.push_back(shared->addresses_[i]);
    } else {
      buffers_.push_back(device.allocate(static_cast<std::size_t>(specs[i].bytes()) + 2 * kBand));
      addresses_.push_back(buffers_.back().as<std::byte>() + kBand);
    }
  }
}

void TensorSet::fill_one(std::size_t i, const TensorSpec& spec, std::uint64_t seed) {
  if (spec.role == Role::output)
    device_->set_bytes(addresses_[i], kPoisonByte, static_cast<std::size_t>(bytes_[i]), device_->stream());
  else if (!spec.values.empty())
    device_->upload(addresses_[i], spec.values.data(), static_cast<std::size_t>(bytes_[i]),
                    device_->stream());
  else if (!spec.floats.empty())
    device_->upload(addresses_[i], spec.floats.data(), static_cast<std::size_t>(bytes_[i]),
                    device_->stream());
  else
    device_->fill_random(addresses_[i], spec.dtype, spec.count(), tensor_seed(seed, i), spec.scale);
}

void TensorSet::fill(std::span<const TensorSpec> specs, std::uint64_t seed) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    std::byte* base = static_cast<std::byte*>(addresses_[i]) - kBand;
    device_->set_bytes(base, kBandByte, kBand, device_->stream());
    device_->set_bytes(base + kBand + bytes_[i], kBandByte, kBand, device_->stream());
    fill_one(i, specs[i], seed);
  }
}

void TensorSet::reset_outputs(std::span<const TensorSpec> specs, std::uint64_t seed) {
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (specs[i].role != Role::input) fill_one(i, specs[i], seed);
}

std::string TensorSet::broken_fence() const {
  std::array<unsigned char, kBand> band;
  for (std::size_t i = 0; i < addresses_.size(); ++i) {
    const auto* base = static_cast<const std::byte*>(addresses_[i]) - kBand;
    for (const std::byte* at : {base, base + kBand + bytes_[i]}) {
      device_->download(band.data(), at, kBand);
      if (!std::ranges::all_of(band, [](unsigned char b) { return b == kBandByte; })) return names_[i];
    }
  }
  return {};
}

}  // namespace warptune
