#include "support.h"

namespace warptune::testing {
namespace {

using Dims = std::vector<std::pair<std::string, std::string>>;
class RmsNorm : public ::testing::TestWithParam<Dims> {};
class GpuRmsNorm : public RmsNorm {};
class RmsNormCompile : public RmsNorm {};

TEST_P(RmsNorm, HostVariantsMatchTheReference) { check_host_variants("rms_norm", GetParam(), kFloats); }
TEST_P(RmsNormCompile, CudaVariantsCompile) { check_compiles("rms_norm", GetParam(), kFloats, 3); }
TEST_P(GpuRmsNorm, CudaVariantsMatchTheReference) { check_cuda_variants("rms_norm", GetParam(), kFloats); }

const auto kShapes =
    ::testing::Values(Dims{{"tokens", "1"}, {"hidden", "4096"}}, Dims{{"tokens", "7"}, {"hidden", "257"}},
                      Dims{{"tokens", "33"}, {"hidden", "1"}}, Dims{{"tokens", "2"}, {"hidden", "100"}},
                      Dims{{"tokens", "300"}, {"hidden", "64"}}, Dims{{"tokens", "3"}, {"hidden", "9000"}});
INSTANTIATE_TEST_SUITE_P(Shapes, RmsNorm, kShapes);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuRmsNorm, kShapes);
INSTANTIATE_TEST_SUITE_P(Shapes, RmsNormCompile,
                         ::testing::Values(Dims{{"tokens", "300"}, {"hidden", "4096"}},
                                           Dims{{"tokens", "7"}, {"hidden", "257"}}));

}  // namespace
}  // namespace warptune::testing
