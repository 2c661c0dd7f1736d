#pragma once
// The tensors of a problem on a device: filled, poisoned, fenced.
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/device/device.h"

namespace warptune {

/// Every tensor stands between two bands of known bytes: tiny numbers for one seed, NaN for the next, so that
/// a result which depends on them differs. Cold tensors are this set's own; hot ones may be
/// shared with another set; filling and checking reach those too.
class TensorSet {
 public:
  /// `shared`: a set of the same specs whose hot tensors this one uses; it must outlive this set.
  TensorSet(Device& device, std::span<const TensorSpec> specs, const TensorSet* shared = nullptr);

  /// Inputs and inouts get their contents, outputs poison, bands their pattern. `specs` must have the shapes
  /// given to the constructor; given contents (lengths) may differ.
  void fill(std::span<const TensorSpec> specs, std::uint64_t seed);
  /// Poison for the outputs, initial contents for the inouts.
  void reset_outputs(std::span<const TensorSpec> specs, std::uint64_t seed);
  /// The name of the first tensor whose band was written, empty where none was.
  std::string broken_fence() const;
  std::span<void* const> addresses() const { return addresses_; }
  Device& device() const { return *device_; }
  /// The contents of the tensors that `wanted` holds for.
  std::vector<Region> regions(std::span<const TensorSpec> specs,
                              const std::function<bool(const TensorSpec&)>& wanted) const;
  /// The name of the tensor that begins there, empty where none does.
  std::string name_at(const void* address) const;

 private:
  void fill_one(std::size_t i, const TensorSpec& spec, std::uint64_t seed);

  Device* device_;
  std::size_t band_bytes_;  // before and after each tensor
  std::vector<std::string> names_;
  std::vector<std::int64_t> bytes_;
  std::vector<Buffer> buffers_;  // empty for shared tensors
  std::vector<void*> addresses_;
  unsigned char band_ = 0;  // the byte in the bands
};

}  // namespace warptune
