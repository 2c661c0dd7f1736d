#include "llama/kv_cache.h"

namespace warptune {
namespace {

std::int64_t elements(const ModelConfig& c, int capacity) {
  return static_cast<std::int64_t>(c.kv_heads) * capacity * c.head_dim;
}

}  // namespace

KvCache::KvCache(Device& device, const ModelConfig& c, DType dtype, int batch, int capacity)
    : capacity_(capacity),
      sequence_bytes_(elements(c, capacity) * static_cast<std::int64_t>(size_of(dtype))) {
  const std::int64_t count = batch * elements(c, capacity);
  for (int layer = 0; layer < c.layers; ++layer)
    for (std::vector<Buffer>* side : {&k_, &v_}) {
      side->push_back(device.allocate(static_cast<std::size_t>(batch * sequence_bytes_)));
      device.fill_random(side->back().data(), dtype, count, static_cast<std::uint64_t>(layer), 1);
    }
}

std::int64_t KvCache::bytes(const ModelConfig& c, DType dtype, int batch, int capacity) {
  return 2LL * c.layers * batch * elements(c, capacity) * static_cast<std::int64_t>(size_of(dtype));
}

}  // namespace warptune
