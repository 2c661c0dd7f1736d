#pragma once
// The host variants of ops whose result is made of independent rows: one after the other, and over threads.
#include "core/parallel.h"
#include "core/variant.h"

namespace warptune {

/// `rows(problem, args)`: how many there are; `row(problem, args, i)` computes one. A is the op's args
/// struct.
template <class A, class Rows, class Row>
std::vector<Variant> host_rows(Rows rows, Row row) {
  const auto run = [=](const Problem& p, int threads) -> HostFunction {
    return [=](const void* raw) {
      const A& args = *static_cast<const A*>(raw);
      parallel_for(rows(p, args), threads, [&](std::int64_t i) { row(p, args, i); });
    };
  };
  return {
      {
          .name = "host_naive",
          .idea = "one row after the other",
          .backend = Backend::host,
          .host = [=](const Problem& p, const Config&) { return run(p, 1); },
      },
      {
          .name = "host_threaded",
          .idea = "rows over threads",
          .backend = Backend::host,
          .parameters = {{"threads", {1, 2, 4, 8, 16}, "worker threads"}},
          .constraints = {"threads <= sms"},
          .host = [=](const Problem& p, const Config& c) { return run(p, static_cast<int>(c["threads"])); },
      },
  };
}

}  // namespace warptune
