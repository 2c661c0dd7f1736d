#pragma once
// The exchange between ranks on the host: memory that all processes map, and a counter for each rank.
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "harness/core/variant.h"
#include "kernels/common/peers.h"

namespace warptune {

/// How often a rank has published, in front of its two buffers.
struct alignas(64) HostExchangeHeader {
  std::atomic<std::uint64_t> published;
};

/// Publishes `bytes` at `mine` and waits for the other ranks. Returns the bytes of each rank, which stay
/// until it publishes twice more, that is, until all ranks have come to the next exchange.
inline std::vector<const std::byte*> host_exchange(const Peers& peers, const void* mine, std::size_t bytes) {
  const auto header = [&](int rank) { return static_cast<HostExchangeHeader*>(peers.memory[rank]); };
  const std::uint64_t exchange = header(peers.rank)->published.load(std::memory_order_relaxed) + 1;
  const auto buffer = [&](int rank) {
    return reinterpret_cast<std::byte*>(header(rank) + 1) + exchange % 2 * bytes;
  };
  std::memcpy(buffer(peers.rank), mine, bytes);
  header(peers.rank)->published.store(exchange, std::memory_order_release);
  std::vector<const std::byte*> all;
  for (int rank = 0; rank < peers.ranks; ++rank) {
    for (int tries = 0; header(rank)->published.load(std::memory_order_acquire) < exchange; ++tries)
      if (tries < 100)
        ::sched_yield();
      else  // the other rank may wait for this core
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    all.push_back(buffer(rank));
  }
  return all;
}

/// The host variant of an op of ranks. `bytes`: what a rank publishes, an expression. `run(problem)` returns
/// the function of each launch.
template <class Run>
std::vector<Variant> host_ranks_variant(Expression bytes, Run run) {
  return {{
      .name = "host_naive",
      .idea =
          "Each rank copies its part to shared memory, waits for all, and adds them in the order of ranks.",
      .backend = Backend::host,
      .host_ranks = [=](const Problem& p, const Config&) -> HostRankFunction { return run(p); },
      .peer_workspace = 64 + 2 * std::move(bytes),
  }};
}

}  // namespace warptune
