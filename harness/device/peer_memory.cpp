#include "harness/device/peer_memory.h"

#include <algorithm>
#include <utility>

#include "harness/core/error.h"

namespace warptune {
namespace {

constexpr std::size_t kGranule = std::size_t{2} << 20;  // CUDA maps allocations in other processes by 2 MiB
static_assert(RankGroup::kMaxRanks == kMaxRanks);

}  // namespace

PeerMemory::PeerMemory(RankGroup& group, Map map, Clear clear)
    : group_(group), map_(std::move(map)), clear_(std::move(clear)) {}

std::shared_ptr<const Peers> PeerMemory::allocate(std::size_t bytes) {
  const std::vector<std::size_t> sizes = group_.all_gather(bytes);
  for (std::size_t rank = 0; rank < sizes.size(); ++rank)
    if (sizes[rank] != bytes)
      throw TextError(
          "the ranks do not run the same plans: rank {} asks for {} bytes of shared memory, rank "
          "{} for {}",
          group_.rank(), bytes, rank, sizes[rank]);
  const std::size_t size = (bytes + kGranule - 1) / kGranule * kGranule;
  Peers peers{.rank = group_.rank(), .ranks = group_.ranks()};
  if (const auto it = free_->find(size); it != free_->end()) {
    peers = it->second;
    free_->erase(it);
  } else {
    std::ranges::copy(map_(size), peers.memory);
  }
  clear_(peers.memory[peers.rank], bytes);
  group_.barrier();
  return {new Peers(peers), [free = free_, size](const Peers* used) {
            free->emplace(size, *used);
            delete used;
          }};
}

}  // namespace warptune
