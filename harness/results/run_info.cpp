#include "harness/results/run_info.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <random>

#include "git_commit.h"

namespace warptune {
namespace {
std::string now(const char* format) {
  return fmt::format(fmt::runtime(fmt::format("{{:{}}}", format)), fmt::gmtime(std::time(nullptr)));
}
}  // namespace

std::string timestamp_utc() { return now("%Y-%m-%dT%H:%M:%SZ"); }

std::string program_version() { return WARPTUNE_VERSION; }
std::string git_commit() { return kGitCommit; }

RunInfo new_run() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return {.run_id = fmt::format("{}-{:08x}", now("%Y%m%dT%H%M%SZ"), std::random_device{}()),
          .git_commit = git_commit(),
          .host = name.data()};
}

}  // namespace warptune
