#include "harness/core/parallel.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace warptune {
namespace {

TEST(Parallel, AnExceptionOfABodyLeavesTheLoop) {
  for (const int threads : {1, 4})
    EXPECT_THROW(parallel_for(100, threads,
                              [](std::int64_t i) {
                                if (i % 7 == 3) throw std::runtime_error("x");
                              }),
                 std::runtime_error);
}

}  // namespace
}  // namespace warptune
