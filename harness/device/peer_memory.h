#pragma once
// Memory that each rank of a group gives and all ranks map, for the exchange inside of kernels.
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "harness/core/rank_group.h"
#include "kernels/common/peers.h"

namespace warptune {

/// Keeps what it has mapped until it ends: a rank must not unmap what another still writes. All ranks
/// allocate and release in the same order.
class PeerMemory {
 public:
  /// Makes memory of a size on this rank and maps the one of the others.
  using Map = std::function<std::vector<void*>(std::size_t bytes)>;
  /// Fills memory of this rank with zeros, and waits until they are there.
  using Clear = std::function<void(void* memory, std::size_t bytes)>;

  /// The group must outlive it.
  PeerMemory(RankGroup& group, Map map, Clear clear);
  /// Zeroed on all ranks; it can be used again when the last copy of the result ends. Throws where the ranks
  /// ask for different sizes.
  std::shared_ptr<const Peers> allocate(std::size_t bytes);

 private:
  using Free = std::multimap<std::size_t, Peers>;  // by size

  RankGroup& group_;
  Map map_;
  Clear clear_;
  std::shared_ptr<Free> free_ = std::make_shared<Free>();
};

}  // namespace warptune
