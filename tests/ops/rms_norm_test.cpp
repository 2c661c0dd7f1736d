#include "tests/support.h"

namespace warptune::testing {
namespace {

class RmsNorm : public ::testing::TestWithParam<Dims> {};
class GpuRmsNorm : public RmsNorm {};
class RmsNormCompile : public RmsNorm {};

TEST_P(RmsNorm, HostVariantsMatchTheReference) { check_host_variants("rms_norm", GetParam(), kFloats); }
TEST_P(RmsNormCompile, CudaVariantsCompile) { check_compiles("rms_norm", GetParam(), kFloats, 3); }
TEST_P(GpuRmsNorm, CudaVariantsMatchTheReference) { check_cuda_variants("rms_norm", GetParam(), kFloats); }

const auto kRmsNormShapes =
    ::testing::Values(Dims{{"tokens", "1"}, {"hidden", "4096"}}, Dims{{"tokens", "7"}, {"hidden", "257"}},
                      Dims{{"tokens", "33"}, {"hidden", "1"}}, Dims{{"tokens", "2"}, {"hidden", "100"}},
                      Dims{{"tokens", "300"}, {"hidden", "64"}}, Dims{{"tokens", "3"}, {"hidden", "9000"}});
INSTANTIATE_TEST_SUITE_P(Shapes, RmsNorm, kRmsNormShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuRmsNorm, kRmsNormShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, RmsNormCompile,
                         ::testing::Values(Dims{{"tokens", "300"}, {"hidden", "4096"}},
                                           Dims{{"tokens", "7"}, {"hidden", "257"}}),
                         shape_name);

/// Rows of zeros and of numbers so small that eps dominates.
OpEntry rms_norm_near_zero() {
  return with_input(find_op("rms_norm"), "x", [](const Problem& p, std::int64_t i) {
    return i / p["hidden"] % 2 == 0 ? 0.0f : 0.001f * static_cast<float>(i % 7);
  });
}
const Dims kRmsNormNearZero{{"tokens", "4"}, {"hidden", "257"}};

TEST(RmsNormBugs, HostEpsIsInsideTheRoot) {
  check_host_variants(rms_norm_near_zero(), kRmsNormNearZero, kFloats);
}
TEST(GpuRmsNormBugs, EpsIsInsideTheRoot) {
  check_cuda_variants(rms_norm_near_zero(), kRmsNormNearZero, kFloats);
}

}  // namespace
}  // namespace warptune::testing
