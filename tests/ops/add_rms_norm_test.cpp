#include "tests/support.h"

namespace warptune::testing {
namespace {

class AddRmsNorm : public ::testing::TestWithParam<Dims> {};
class GpuAddRmsNorm : public AddRmsNorm {};
class AddRmsNormCompile : public AddRmsNorm {};

TEST_P(AddRmsNorm, HostVariantsMatchTheReference) {
  check_host_variants("add_rms_norm", GetParam(), kFloats);
}
TEST_P(AddRmsNormCompile, CudaVariantsCompile) { check_compiles("add_rms_norm", GetParam(), kFloats, 3); }
TEST_P(GpuAddRmsNorm, CudaVariantsMatchTheReference) {
  check_cuda_variants("add_rms_norm", GetParam(), kFloats);
}

const auto kAddRmsNormShapes =
    ::testing::Values(Dims{{"tokens", "1"}, {"hidden", "4096"}}, Dims{{"tokens", "7"}, {"hidden", "257"}},
                      Dims{{"tokens", "33"}, {"hidden", "1"}}, Dims{{"tokens", "2"}, {"hidden", "100"}},
                      Dims{{"tokens", "13"}, {"hidden", "1016"}}, Dims{{"tokens", "300"}, {"hidden", "64"}},
                      Dims{{"tokens", "3"}, {"hidden", "9000"}});
INSTANTIATE_TEST_SUITE_P(Shapes, AddRmsNorm, kAddRmsNormShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuAddRmsNorm, kAddRmsNormShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, AddRmsNormCompile,
                         ::testing::Values(Dims{{"tokens", "300"}, {"hidden", "4096"}},
                                           Dims{{"tokens", "7"}, {"hidden", "257"}}),
                         shape_name);

/// Rows of zeros and of numbers so small that eps dominates.
OpEntry near_zero() {
  return with_input(
      with_input(find_op("add_rms_norm"), "residual", [](const Problem&, std::int64_t) { return 0.0f; }), "x",
      [](const Problem& p, std::int64_t i) {
        return i / p["hidden"] % 2 == 0 ? 0.0f : 0.001f * static_cast<float>(i % 7);
      });
}
const Dims kNearZero{{"tokens", "4"}, {"hidden", "257"}};

TEST(AddRmsNormBugs, HostEpsIsInsideTheRoot) { check_host_variants(near_zero(), kNearZero, kFloats); }
TEST(GpuAddRmsNormBugs, EpsIsInsideTheRoot) { check_cuda_variants(near_zero(), kNearZero, kFloats); }

}  // namespace
}  // namespace warptune::testing
