#include <cmath>

#include "tests/support.h"
#include "variants/argmax/index_of_largest.h"

namespace warptune::testing {
namespace {

class Argmax : public ::testing::TestWithParam<Dims> {};
class GpuArgmax : public Argmax {};

// 16-bit logits hold many equal maxima: the lowest index must win.
TEST_P(Argmax, HostVariantsMatchTheReference) { check_host_variants("argmax", GetParam(), kFloats); }
TEST_P(Argmax, CudaVariantsCompile) { check_compiles("argmax", GetParam(), kFloats, 2); }
TEST_P(GpuArgmax, CudaVariantsMatchTheReference) { check_cuda_variants("argmax", GetParam(), kFloats, 64); }

const auto kArgmaxShapes =
    ::testing::Values(Dims{{"batch", "1"}, {"vocab", "32000"}}, Dims{{"batch", "3"}, {"vocab", "128256"}},
                      Dims{{"batch", "5"}, {"vocab", "1009"}}, Dims{{"batch", "65"}, {"vocab", "1"}},
                      Dims{{"batch", "2"}, {"vocab", "65537"}});
INSTANTIATE_TEST_SUITE_P(Shapes, Argmax, kArgmaxShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuArgmax, kArgmaxShapes, shape_name);

/// Logits that are all below zero, in a falling and rising order.
OpEntry below_zero() {
  return with_input(find_op("argmax"), "logits", [](const Problem&, std::int64_t i) {
    return -300.0f - 2.0f * static_cast<float>(i * 37 % 101);
  });
}

TEST(ArgmaxBugs, HostLogitsMayAllBeBelowZero) {
  check_host_variants(below_zero(), Dims{{"batch", "3"}, {"vocab", "1009"}}, kFloats);
}
TEST(GpuArgmaxBugs, LogitsMayAllBeBelowZero) {
  check_cuda_variants(below_zero(), Dims{{"batch", "3"}, {"vocab", "1009"}}, kFloats, 64);
}

/// NaN is the largest, +infinity next; of equals the lowest index. One row of four has neither.
OpEntry not_finite() {
  return with_input(find_op("argmax"), "logits", [](const Problem& p, std::int64_t i) {
    const std::int64_t row = i / p["vocab"], column = i % p["vocab"];
    if (column % 50 == 7) return -INFINITY;
    if (row % 4 == 1 && column % 40 == 33) return INFINITY;
    if (row % 4 == 2 && column % 40 == 35) return NAN;
    if (row % 4 == 3 && column >= 400) return column % 2 ? NAN : INFINITY;
    return static_cast<float>(i * 37 % 101) / 16;
  });
}

TEST(ArgmaxBugs, HostLogitsMayBeInfiniteOrNaN) {
  check_host_variants(not_finite(), Dims{{"batch", "8"}, {"vocab", "1009"}}, kFloats);
}
TEST(GpuArgmaxBugs, LogitsMayBeInfiniteOrNaN) {
  check_cuda_variants(not_finite(), Dims{{"batch", "8"}, {"vocab", "1009"}}, kFloats, 64);
}

TEST(ArgmaxBugs, NaNIsTheLargest) {
  const float logits[] = {1, INFINITY, NAN, INFINITY, -NAN, 3};
  EXPECT_EQ(index_of_largest(logits, 0, 6), 2);
  EXPECT_EQ(index_of_largest(logits, 3, 6), 4);
  EXPECT_EQ(index_of_largest(logits, 0, 2), 1);
  EXPECT_EQ(index_of_largest(logits, 4, 6), 4) << "the first is NaN";
}

}  // namespace
}  // namespace warptune::testing
