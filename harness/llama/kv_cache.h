#pragma once
// Keys and values of every layer, [batch, kv_heads, capacity, head_dim] each.
#include <vector>

#include "device/device.h"
#include "llama/model_config.h"

namespace warptune {

class KvCache {
 public:
  /// Contents are random and finite, so that a measurement may attend to more than was written.
  KvCache(Device& device, const ModelConfig& config, DType dtype, int batch, int capacity);

  /// Of one layer, from sequence `sequence` on.
  void* k(int layer, int sequence = 0) const { return at(k_[static_cast<std::size_t>(layer)], sequence); }
  void* v(int layer, int sequence = 0) const { return at(v_[static_cast<std::size_t>(layer)], sequence); }
  int capacity() const { return capacity_; }

  static std::int64_t bytes(const ModelConfig& config, DType dtype, int batch, int capacity);

 private:
  void* at(const Buffer& buffer, int sequence) const {
    return buffer.as<std::byte>() + sequence * sequence_bytes_;
  }
  int capacity_;
  std::int64_t sequence_bytes_;
  std::vector<Buffer> k_, v_;
};

}  // namespace warptune
