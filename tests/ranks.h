#pragma once
// Runs a test on several ranks, each a process.
#include <gtest/gtest.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "harness/core/rank_group.h"

namespace warptune::testing {

/// A name that no other group has.
inline std::string group_name() {
  static int count = 0;
  return "test-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
}

/// Calls `body(rank)` in a process for each rank and returns their exit codes: what body returns, or -1 where
/// a signal ended it.
inline std::vector<int> run_processes(int count, const std::function<int(int rank)>& body) {
#ifdef _OPENMP
  omp_pause_resource_all(omp_pause_hard);  // a child would wait for threads that only its parent has
#endif
  std::vector<pid_t> children;
  for (int rank = 0; rank < count; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) std::_Exit(body(rank));
    children.push_back(child);
  }
  std::vector<int> codes;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  }
  return codes;
}

/// Calls `body` on each rank of a group; a failed expectation of any rank fails the test.
inline void on_ranks(int ranks, const std::function<void(const std::shared_ptr<RankGroup>&)>& body) {
  const std::string name = group_name();
  const auto codes = run_processes(ranks, [&](int rank) {
    try {
      body(std::make_shared<RankGroup>(name, rank, ranks));
    } catch (const std::exception& e) {
      ADD_FAILURE() << "rank " << rank << ": " << e.what();
    }
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(codes, std::vector<int>(static_cast<std::size_t>(ranks), 0));
}

}  // namespace warptune::testing
