#include <algorithm>

#include "tests/support.h"
#include "variants/helpers/lengths.h"

namespace warptune::testing {
namespace {

class PaddingOffset : public ::testing::TestWithParam<Dims> {};
class GpuPaddingOffset : public PaddingOffset {};
class PaddingOffsetCompile : public PaddingOffset {};

TEST_P(PaddingOffset, HostVariantsMatchTheReference) {
  check_host_variants("padding_offset", GetParam(), kInts);
}
TEST_P(PaddingOffsetCompile, CudaVariantsCompile) { check_compiles("padding_offset", GetParam(), kInts, 3); }
TEST_P(GpuPaddingOffset, CudaVariantsMatchTheReference) {
  check_cuda_variants("padding_offset", GetParam(), kInts);
}

const auto kPaddingOffsetShapes = ::testing::Values(
    Dims{{"batch", "1"}, {"max_q_len", "1"}}, Dims{{"batch", "1"}, {"max_q_len", "37"}},
    Dims{{"batch", "2"}, {"max_q_len", "9"}}, Dims{{"batch", "3"}, {"max_q_len", "1"}},
    Dims{{"batch", "67"}, {"max_q_len", "5"}}, Dims{{"batch", "2500"}, {"max_q_len", "11"}});
INSTANTIATE_TEST_SUITE_P(Shapes, PaddingOffset, kPaddingOffsetShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuPaddingOffset, kPaddingOffsetShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, PaddingOffsetCompile,
                         ::testing::Values(Dims{{"batch", "2500"}, {"max_q_len", "11"}}), shape_name);

TEST(UnevenLengths, IncludeAFullAndAShortSequenceForEverySeed) {
  for (const std::uint64_t seed : {0, 1, 7}) {
    const auto lengths = uneven_lengths(13, 40, seed);
    EXPECT_EQ(std::ranges::count(lengths, 40), 1);
    EXPECT_GE(std::ranges::count(lengths, 1), 1);
    EXPECT_GE(std::ranges::min(lengths), 1);
    EXPECT_EQ(starts_of(lengths).back(), packed_tokens({.dims = {{"batch", 13}, {"max_q_len", 40}}}));
  }
  EXPECT_EQ(uneven_lengths(1, 40, 5), std::vector<std::int32_t>{40});
}

}  // namespace
}  // namespace warptune::testing
