#pragma once
// Memory that the ranks of a group share.

namespace warptune {

inline constexpr int kMaxRanks = 8;

/// The workspace of a plan on every rank of a group. It is zeroed before the first launch.
struct Peers {
  void* memory[kMaxRanks];  // of each rank, as mapped here; memory[rank] is the one of this rank
  int rank, ranks;
};

}  // namespace warptune
