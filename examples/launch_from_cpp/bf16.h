// bf16 on the host, and arrays of it in device memory.
#pragma once
#include <cuda.h>
#include <warptune/launch.h>

#include <cstdint>
#include <cstring>
#include <vector>

/// The bits of a float as bf16, rounded to nearest even.
inline std::uint16_t to_bf16(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
inline float from_bf16(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

/// Uniform in [-scale, scale), the same in every run.
inline std::vector<std::uint16_t> random_bf16(std::size_t count, std::uint32_t seed, float scale) {
  std::vector<std::uint16_t> values(count);
  for (std::uint16_t& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = to_bf16(scale * (static_cast<float>(seed >> 8) / static_cast<float>(1 << 23) - 1));
  }
  return values;
}

/// Owns an array in device memory.
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<std::uint16_t>& values) : count_(values.size()) {
    warptune::check(cuMemAlloc(&address_, 2 * count_), "cuMemAlloc");
    warptune::check(cuMemcpyHtoD(address_, values.data(), 2 * count_), "cuMemcpyHtoD");
    warptune::check(cuCtxSynchronize(), "cuCtxSynchronize");  // for streams that do not wait for it
  }
  ~DeviceArray() { cuMemFree(address_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  CUdeviceptr address() const { return address_; }
  std::vector<std::uint16_t> read() const {
    std::vector<std::uint16_t> values(count_);
    warptune::check(cuMemcpyDtoH(values.data(), address_, 2 * count_), "cuMemcpyDtoH");
    return values;
  }
  void clear() {
    warptune::check(cuMemsetD16(address_, 0, count_), "cuMemsetD16");
    warptune::check(cuCtxSynchronize(), "cuCtxSynchronize");
  }

 private:
  CUdeviceptr address_ = 0;
  std::size_t count_;
};
