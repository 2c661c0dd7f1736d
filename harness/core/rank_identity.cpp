#include "harness/core/rank_identity.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/hash.h"
#include "harness/core/text.h"

namespace warptune {
namespace {

constexpr const char *kRank = "WARPTUNE_RANK", *kRanks = "WARPTUNE_RANKS", *kGroup = "WARPTUNE_GROUP";

/// The variables of a launcher. Those of `run` tell its runs apart; where one is not set, the parent does.
struct Launcher {
  const char *name, *rank, *ranks, *local_rank;
  std::vector<const char*> run;
  const char* required = nullptr;  // a variable that only its processes have
};

/// mpirun and torchrun may run within a job of Slurm, so that srun is the last.
const std::vector<Launcher>& launchers() {
  static const std::vector<Launcher> all = {
      {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", {"MASTER_PORT"}},
      {"mpirun",
       "OMPI_COMM_WORLD_RANK",
       "OMPI_COMM_WORLD_SIZE",
       "OMPI_COMM_WORLD_LOCAL_RANK",
       {"PMIX_NAMESPACE"}},
      {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", {}},
      {"srun",
       "SLURM_PROCID",
       "SLURM_NTASKS",
       "SLURM_LOCALID",
       {"SLURM_JOB_ID", "SLURM_STEP_ID"},
       "SLURM_STEP_ID"},
  };
  return all;
}

std::optional<int> number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  if (!text) return std::nullopt;
  const auto value = parse_number<int>(text);
  if (!value || *value < 0) throw InputError("{} is '{}'; it must be an integer", variable, brief(text));
  return value;
}

std::string group_of(const Launcher& launcher) {
  std::string text = std::to_string(::getuid());
  bool is_known = !launcher.run.empty();
  for (const char* variable : launcher.run) {
    const char* const value = std::getenv(variable);
    is_known = is_known && value;
    text += fmt::format(" {}", value ? value : "");
  }
  if (!is_known) text += fmt::format(" {}", ::getppid());
  return fmt::format("{}-{:016x}", launcher.name, stable_hash(text));
}

std::optional<RankIdentity> identity_by(const Launcher& launcher, int wanted) {
  if (launcher.required && !std::getenv(launcher.required)) return std::nullopt;
  const auto rank = number_in(launcher.rank), ranks = number_in(launcher.ranks),
             local = number_in(launcher.local_rank);
  if (!rank || !ranks || *ranks <= 1) return std::nullopt;
  if (*ranks != wanted)
    throw InputError("--ranks is {}, and {} started {} processes ({})", wanted, launcher.name, *ranks,
                     launcher.ranks);
  if (*rank >= *ranks) throw InputError("{} is {}; the ranks are 0 to {}", launcher.rank, *rank, *ranks - 1);
  if (local.value_or(*rank) != *rank)
    throw InputError("{} is {} and {} is {}: the ranks of a model run on one host", launcher.rank, *rank,
                     launcher.local_rank, *local);
  return RankIdentity{.rank = *rank, .ranks = *ranks, .group = group_of(launcher)};
}

}  // namespace

std::vector<std::string> environment_of(const RankIdentity& identity) {
  std::vector<std::string> variables = {fmt::format("{}={}", kRank, identity.rank),
                                        fmt::format("{}={}", kRanks, identity.ranks),
                                        fmt::format("{}={}", kGroup, identity.group)};
  for (char** variable = environ; *variable; ++variable) variables.emplace_back(*variable);
  return variables;
}

std::optional<RankIdentity> take_rank_identity(int ranks) {
  if (const char* const group = std::getenv(kGroup)) {
    const RankIdentity identity{.rank = number_in(kRank).value_or(0),
                                .ranks = number_in(kRanks).value_or(ranks),
                                .group = group,
                                .by_program = true};
    for (const char* variable : {kRank, kRanks, kGroup}) ::unsetenv(variable);
    return identity;
  }
  for (const Launcher& launcher : launchers())
    if (const auto identity = identity_by(launcher, ranks)) return identity;
  return std::nullopt;
}

}  // namespace warptune
