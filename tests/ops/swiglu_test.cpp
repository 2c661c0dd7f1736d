#include "tests/support.h"

namespace warptune::testing {
namespace {

class Swiglu : public ::testing::TestWithParam<Dims> {};
class GpuSwiglu : public Swiglu {};
class SwigluCompile : public Swiglu {};

TEST_P(Swiglu, HostVariantsMatchTheReference) { check_host_variants("swiglu", GetParam(), kFloats); }
TEST_P(SwigluCompile, CudaVariantsCompile) { check_compiles("swiglu", GetParam(), kFloats, 3); }
TEST_P(GpuSwiglu, CudaVariantsMatchTheReference) { check_cuda_variants("swiglu", GetParam(), kFloats); }

const auto kSwigluShapes = ::testing::Values(
    Dims{{"tokens", "1"}, {"intermediate", "11008"}}, Dims{{"tokens", "7"}, {"intermediate", "257"}},
    Dims{{"tokens", "33"}, {"intermediate", "1"}}, Dims{{"tokens", "2"}, {"intermediate", "100"}},
    Dims{{"tokens", "300"}, {"intermediate", "64"}});
INSTANTIATE_TEST_SUITE_P(Shapes, Swiglu, kSwigluShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuSwiglu, kSwigluShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, SwigluCompile,
                         ::testing::Values(Dims{{"tokens", "300"}, {"intermediate", "11008"}},
                                           Dims{{"tokens", "7"}, {"intermediate", "257"}}),
                         shape_name);

}  // namespace
}  // namespace warptune::testing
