#pragma once
// The tensors of a problem on a device: filled, poisoned, with guard bands.
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/device/device.h"

namespace warptune {

/// Every tensor lies between two guard bands of known bytes: tiny numbers for one seed, NaN for the next, so
/// that a result that depends on them differs. A set owns its cold tensors and may share the hot ones with
/// another set. Filling and checking include shared tensors.
class TensorSet {
 public:
  /// `shared`: a set of the same specs whose hot tensors this one uses; it must outlive this set.
  TensorSet(Device& device, std::span<const TensorSpec> specs, const TensorSet* shared = nullptr);

  /// Fills inputs and inouts with their contents, outputs with poison and bands with their pattern. `specs`
  /// must have the shapes given to the constructor; given contents (lengths) may differ.
  void fill(std::span<const TensorSpec> specs, std::uint64_t seed);
  /// Fills outputs with poison and inouts with their initial contents.
  void reset_outputs(std::span<const TensorSpec> specs, std::uint64_t seed);
  /// The name of the first tensor with a changed guard band; empty if there is none.
  std::string broken_guard_band() const;
  std::span<void* const> addresses() const { return addresses_; }
  /// The same as a launch gets them: of tensors of all ranks the part of this one.
  std::vector<void*> arguments(std::span<const TensorSpec> specs) const;
  Device& device() const { return *device_; }
  /// The tensors for which `wanted` is true.
  std::vector<Region> regions(std::span<const TensorSpec> specs,
                              const std::function<bool(const TensorSpec&)>& wanted) const;
  /// The name of the tensor that begins at this address; empty if there is none.
  std::string name_at(const void* address) const;

 private:
  template <class T>
  void upload_stored(void* to, DType dtype, const std::vector<T>& values);  // rounded to the dtype
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
