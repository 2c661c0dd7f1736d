#pragma once
// Starts a command again as several processes, the ranks of one run.

namespace warptune {

/// The exit code of a rank that says nothing: it has lost another one, whose end is the cause.
inline constexpr int kLostAnotherRank = 75;

/// Runs this command with the same arguments on each of the ranks (harness/core/rank_identity.h) and returns
/// its exit code. stdout and stderr are those of rank 0. When a rank fails or is killed, all others are
/// killed, and one sentence says why. Signals that end this process end all ranks.
int launch_ranks(int ranks);

}  // namespace warptune
