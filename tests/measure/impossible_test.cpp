#include "harness/measure/impossible.h"

#include <gtest/gtest.h>

#include "variants/table.h"

namespace warptune {
namespace {

/// The least time that is believed of op advance, which moves a few bytes: a part of a launch.
void expect_least(const DeviceFacts& facts, double too_fast_us, double believed_us) {
  const Op& op = ops().find("advance").op;
  const Problem problem = op.problem(Assignment{{"batch", 1}}, DType::int32);
  EXPECT_GT(impossible_elsewhere_us(facts, op, problem, CacheMode::cold, too_fast_us), 0);
  EXPECT_EQ(impossible_elsewhere_us(facts, op, problem, CacheMode::cold, believed_us), 0);
}

TEST(Impossible, NothingIsFasterThanHalfALaunch) {
  expect_least({.backend = Backend::host}, 0.0009, 0.0011);  // a function call
  expect_least({.backend = Backend::cuda}, 0.11, 0.13);
  expect_least({.backend = Backend::cuda, .launch_floor_us = 0.5}, 0.22, 0.26);
}

}  // namespace
}  // namespace warptune
