#pragma once
// The two host variants of an op with independent parts: host_naive on one thread, host_threaded on several.
#include <utility>

#include "harness/core/variant.h"

namespace warptune {

/// `run(problem, threads)` returns the function that computes the op. `constraints` and the numbers of
/// threads belong to host_threaded.
template <class Run>
std::vector<Variant> host_pair(std::string naive_idea, std::string threaded_idea,
                               std::vector<Expression> constraints, Run run,
                               std::vector<std::int64_t> threads = {1, 2, 4, 8, 16}) {
  return {
      {
          .name = "host_naive",
          .idea = std::move(naive_idea),
          .backend = Backend::host,
          .host = [=](const Problem& p, const Config&) { return run(p, 1); },
      },
      {
          .name = "host_threaded",
          .idea = std::move(threaded_idea),
          .backend = Backend::host,
          .parameters = {{"threads", std::move(threads), "worker threads"}},
          .constraints = std::move(constraints),
          .host = [=](const Problem& p, const Config& c) { return run(p, c["threads"]); },
      },
  };
}

}  // namespace warptune
