#include "tests/support.h"

namespace warptune::testing {
namespace {

class Argmax : public ::testing::TestWithParam<Dims> {};
class GpuArgmax : public Argmax {};

// 16-bit logits hold many equal maxima: the lowest index must win.
TEST_P(Argmax, HostVariantsMatchTheReference) { check_host_variants("argmax", GetParam(), kFloats); }
TEST_P(Argmax, CudaVariantsCompile) { check_compiles("argmax", GetParam(), kFloats, 2); }
TEST_P(GpuArgmax, CudaVariantsMatchTheReference) { check_cuda_variants("argmax", GetParam(), kFloats, 64); }

const auto kShapes =
    ::testing::Values(Dims{{"batch", "1"}, {"vocab", "32000"}}, Dims{{"batch", "3"}, {"vocab", "128256"}},
                      Dims{{"batch", "5"}, {"vocab", "1009"}}, Dims{{"batch", "65"}, {"vocab", "1"}},
                      Dims{{"batch", "2"}, {"vocab", "65537"}});
INSTANTIATE_TEST_SUITE_P(Shapes, Argmax, kShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuArgmax, kShapes, shape_name);

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

}  // namespace
}  // namespace warptune::testing
