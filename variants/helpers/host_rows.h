#pragma once
// The host variants of ops with independent rows: on one thread, and rows over threads.
#include "harness/core/parallel.h"
#include "variants/helpers/host_pair.h"

namespace warptune {

/// `rows(problem, args)` returns the number of rows; `row(problem, args, i)` computes one. A is the op's args
/// struct. `constraints` and the numbers of threads belong to host_threaded.
template <class A, class Rows, class Row>
std::vector<Variant> host_rows(Rows rows, Row row, std::vector<Expression> constraints = {"threads <= sms"},
                               std::vector<std::int64_t> threads = {1, 2, 4, 8, 16}) {
  const auto run = [=](const Problem& p, int threads) -> HostFunction {
    return [=](const void* raw) {
      const A& args = *static_cast<const A*>(raw);
      parallel_for(rows(p, args), threads, [&](std::int64_t i) { row(p, args, i); });
    };
  };
  return host_pair("One thread computes rows one by one.", "Rows over threads.", std::move(constraints), run,
                   std::move(threads));
}

}  // namespace warptune
