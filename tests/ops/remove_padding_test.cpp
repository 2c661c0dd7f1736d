#include "tests/support.h"
#include "variants/helpers/lengths.h"

namespace warptune::testing {
namespace {

class RemovePadding : public ::testing::TestWithParam<Dims> {};
class GpuRemovePadding : public RemovePadding {};
class RemovePaddingCompile : public RemovePadding {};

TEST_P(RemovePadding, HostVariantsMatchTheReference) {
  check_host_variants("remove_padding", GetParam(), kFloats);
}
TEST_P(RemovePaddingCompile, CudaVariantsCompile) {
  check_compiles("remove_padding", GetParam(), kFloats, 3);
}
TEST_P(GpuRemovePadding, CudaVariantsMatchTheReference) {
  check_cuda_variants("remove_padding", GetParam(), kFloats);
}

const auto kRemovePaddingShapes =
    ::testing::Values(Dims{{"batch", "1"}, {"max_q_len", "1"}, {"hidden", "1"}},
                      Dims{{"batch", "1"}, {"max_q_len", "17"}, {"hidden", "64"}},
                      Dims{{"batch", "3"}, {"max_q_len", "5"}, {"hidden", "257"}},
                      Dims{{"batch", "5"}, {"max_q_len", "11"}, {"hidden", "100"}},
                      Dims{{"batch", "9"}, {"max_q_len", "31"}, {"hidden", "8"}});
INSTANTIATE_TEST_SUITE_P(Shapes, RemovePadding, kRemovePaddingShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuRemovePadding, kRemovePaddingShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, RemovePaddingCompile,
                         ::testing::Values(Dims{{"batch", "9"}, {"max_q_len", "31"}, {"hidden", "4096"}},
                                           Dims{{"batch", "3"}, {"max_q_len", "5"}, {"hidden", "257"}}),
                         shape_name);

/// Each sequence begins at a multiple of the padded length.
TEST(RemovePaddingOp, OffsetsLeadToTheRowsOfEachSequence) {
  const Op& op = find_op("remove_padding").op;
  const Problem p = op.problem(Dims{{"batch", "5"}, {"max_q_len", "4"}, {"hidden", "1"}}, DType::fp32);
  const auto lengths = uneven_lengths(5, 4, 1);
  std::vector<std::int32_t> rows, expected;
  for (std::int32_t b = 0; b < 5; ++b)
    for (std::int32_t i = 0; i < lengths[static_cast<std::size_t>(b)]; ++i) expected.push_back(b * 4 + i);
  const auto specs = op.tensors(p, 1);
  for (const std::int32_t offset : specs.at(1).values)
    rows.push_back(static_cast<std::int32_t>(rows.size()) + offset);
  EXPECT_EQ(rows, expected);
}

}  // namespace
}  // namespace warptune::testing
