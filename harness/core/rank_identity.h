#pragma once
// Which rank of a run on several devices this process is: its environment says so.
#include <optional>
#include <string>
#include <vector>

namespace warptune {

struct RankIdentity {
  int rank = 0, ranks = 1;
  std::string group;        // the name of its RankGroup
  bool by_program = false;  // warptune started it, and reports how it ends; else torchrun, mpirun or srun did
};

/// The environment of this process with the variables that make a child that rank.
std::vector<std::string> environment_of(const RankIdentity& identity);

/// Empty where nothing started this process as one of several. Removes the program's own variables, so that
/// children of this process are no ranks. Throws InputError where there are not `ranks`, or on several hosts.
std::optional<RankIdentity> take_rank_identity(int ranks);

}  // namespace warptune
