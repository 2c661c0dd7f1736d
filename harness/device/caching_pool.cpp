#include "harness/device/caching_pool.h"

#include <stdexcept>

namespace warptune {

Arena::~Arena() {
  for (const auto& [data, bytes] : segments_) upstream_.free(data);
}

void* Arena::take(std::size_t bytes) {
  const auto best = free_.lower_bound({bytes, nullptr});
  if (best == free_.end()) return nullptr;
  const auto block = blocks_.find(best->second);
  remove_free(block);
  if (const std::size_t rest = block->second.bytes - bytes) {
    block->second.bytes = bytes;
    add_free(blocks_.emplace(block->first + bytes, Block{rest, block->second.segment, false}).first);
  }
  return block->first;
}

void Arena::grow(std::size_t bytes, const std::function<void()>& trim) {
  const std::size_t size = round_up(bytes, limits_.segment);
  auto* data = static_cast<std::byte*>(allocate_or_trim(upstream_, size, trim));
  segments_.emplace(data, size);
  reserved_ += size;
  add_free(blocks_.emplace(data, Block{size, data, false}).first);
}

bool Arena::give_back(void* data) {
  auto* const address = static_cast<std::byte*>(data);
  auto block = blocks_.upper_bound(address);
  if (block == blocks_.begin()) return false;
  --block;
  if (address >= block->first + block->second.bytes) return false;
  if (block->second.free) throw std::logic_error("memory was released twice");
  if (address != block->first) throw std::logic_error("released memory is the middle of a block");

  if (const auto next = std::next(block);
      next != blocks_.end() && next->second.free && next->second.segment == block->second.segment) {
    remove_free(next);
    block->second.bytes += next->second.bytes;
    blocks_.erase(next);
  }
  if (block != blocks_.begin()) {
    const auto before = std::prev(block);
    if (before->second.free && before->second.segment == block->second.segment) {
      remove_free(before);
      before->second.bytes += block->second.bytes;
      blocks_.erase(block);
      block = before;
    }
  }
  add_free(block);
  if (free_bytes_ > limits_.keep && whole_segment(block)) return_segment(block);
  return true;
}

void Arena::trim() {
  for (auto segment = segments_.begin(); segment != segments_.end();) {
    const auto block = blocks_.find((segment++)->first);
    if (whole_segment(block)) return_segment(block);
  }
}

bool Arena::whole_segment(Blocks::const_iterator block) const {
  return block->second.free && block->second.bytes == segments_.at(block->second.segment);
}

void Arena::add_free(Blocks::iterator block) {
  block->second.free = true;
  free_.emplace(block->second.bytes, block->first);
  free_bytes_ += block->second.bytes;
}

void Arena::remove_free(Blocks::iterator block) {
  block->second.free = false;
  free_.erase({block->second.bytes, block->first});
  free_bytes_ -= block->second.bytes;
}

void Arena::return_segment(Blocks::iterator block) {
  remove_free(block);
  std::byte* const data = block->first;
  reserved_ -= block->second.bytes;
  blocks_.erase(block);
  segments_.erase(data);
  upstream_.free(data);
}

CachingPool::CachingPool(std::unique_ptr<Upstream> upstream, CachingOptions options)
    : upstream_(std::move(upstream)),
      small_limit_(options.small_limit),
      small_(*upstream_, {options.segment, options.small_keep}),
      large_(*upstream_, {options.segment, std::numeric_limits<std::size_t>::max()}) {}

void* CachingPool::allocate(std::size_t bytes) {
  const std::size_t rounded = round_up(bytes, kPoolAlignment);
  const std::lock_guard lock(mutex_);
  ++requests_;
  Arena& arena = rounded <= small_limit_ ? small_ : large_;
  if (void* data = arena.take(rounded)) return data;
  ++misses_;
  arena.grow(rounded, [this] {
    small_.trim();
    large_.trim();
  });
  return arena.take(rounded);
}

void CachingPool::release(void* data) {
  const std::lock_guard lock(mutex_);
  if (!small_.give_back(data) && !large_.give_back(data))
    throw std::logic_error("released memory is not of this pool");
}

void CachingPool::trim() {
  const std::lock_guard lock(mutex_);
  small_.trim();
  large_.trim();
}

PoolStats CachingPool::stats() const {
  const std::lock_guard lock(mutex_);
  return {.in_use = small_.in_use() + large_.in_use(),
          .reserved = small_.reserved() + large_.reserved(),
          .requests = requests_,
          .misses = misses_};
}

}  // namespace warptune
