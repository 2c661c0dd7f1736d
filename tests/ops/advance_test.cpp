#include "tests/support.h"

namespace warptune::testing {
namespace {

class Advance : public ::testing::TestWithParam<Dims> {};
class GpuAdvance : public Advance {};
class AdvanceCompile : public Advance {};

TEST_P(Advance, HostVariantsMatchTheReference) { check_host_variants("advance", GetParam(), kInts); }
TEST_P(AdvanceCompile, CudaVariantsCompile) { check_compiles("advance", GetParam(), kInts, 3); }
TEST_P(GpuAdvance, CudaVariantsMatchTheReference) { check_cuda_variants("advance", GetParam(), kInts); }

const auto kAdvanceShapes = ::testing::Values(Dims{{"batch", "1"}}, Dims{{"batch", "2"}},
                                              Dims{{"batch", "37"}}, Dims{{"batch", "300"}});
INSTANTIATE_TEST_SUITE_P(Shapes, Advance, kAdvanceShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuAdvance, kAdvanceShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, AdvanceCompile, ::testing::Values(Dims{{"batch", "300"}}), shape_name);

/// So that variants and reference are compared on free slots of a batch too.
TEST(AdvanceOp, EveryThirdSequenceIsFree) {
  const Op& op = find_op("advance").op;
  const auto specs = op.tensors(op.problem(Dims{{"batch", "6"}}, DType::int32), 1);
  const auto& positions = specs.at(1).values;
  const auto& lengths = specs.at(2).values;
  for (std::size_t b = 0; b < 6; ++b) {
    EXPECT_EQ(positions.at(b) == -1, b % 3 == 2) << b;
    EXPECT_EQ(lengths.at(b), positions.at(b) + 1) << b;
  }
}

}  // namespace
}  // namespace warptune::testing
